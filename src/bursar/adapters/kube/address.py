"""URLs of API servers and proxies, as kubeconfig files give them."""

from typing import Final
from urllib.parse import SplitResult, urlsplit

from bursar.adapters.client_auth.config_error import ConfigError

_NAMED: Final = "holds a name or password; use the fields `username` and `password` of the user"


def parse_server(text: str, place: str) -> str:
    """The URL without query and trailing slash. Without a scheme it is HTTP, as in client-go.

    Raises `ConfigError`, which does not show the URL: it may hold a password.
    """
    parts = _split(text if "://" in text else f"http://{text}", place)
    if parts.scheme not in {"http", "https"}:
        raise ConfigError(place, "an address that begins with https:// is expected")
    if "://" not in text and parts.path not in {"", "/"}:
        raise ConfigError(place, "an address or host:port is expected")
    if "@" in parts.netloc:
        raise ConfigError(place, _NAMED)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def parse_proxy(text: str, place: str) -> str:
    parts = _split(text, place)
    if parts.scheme not in {"http", "https"}:
        raise ConfigError(place, "only http:// and https:// proxies are supported")
    return text


def _split(text: str, place: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ConfigError(place, "not an address") from None
    if not is_complete or not text.isprintable() or " " in text:
        raise ConfigError(place, "not an address")
    return parts
