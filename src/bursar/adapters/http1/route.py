"""Where a connection leads: server, TLS context, proxy. Connections of one route are equal."""

import base64
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    scheme: str
    host: str
    """Without the brackets of an IPv6 address."""
    port: int

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def address(self) -> str:
        """Host and port, always both.

        >>> Origin("https", "fd00::1", 443).address
        '[fd00::1]:443'
        """
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def authority(self) -> str:
        """The value of the Host header: without the port if it is the scheme's default."""
        return _bracketed(self.host) if self.port == _PORTS[self.scheme] else self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    origin: Origin
    context: ssl.SSLContext | None = None
    """None for `http`, and for `https` with Python's default context."""
    server_name: str = ""
    """Name that the server's certificate must have. Default: the host of the origin."""
    proxy_url: str = ""

    @property
    def is_tunnelled(self) -> bool:
        return bool(self.proxy_url) and self.origin.is_secure

    @property
    def uses_absolute_form(self) -> bool:
        """Whether requests name the whole URL, as RFC 9112 demands for plain HTTP by a proxy."""
        return bool(self.proxy_url) and not self.origin.is_secure


def parse_origin(url: str) -> tuple[Origin, str]:
    """Split a URL into its origin and its path. Raises `ValueError`.

    >>> parse_origin("https://example.com:6443/k8s/")
    (Origin(scheme='https', host='example.com', port=6443), '/k8s')
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("an address with http:// or https:// is expected")
    port = parts.port or _PORTS[parts.scheme]
    return Origin(parts.scheme, ascii_host(parts.hostname), port), parts.path.rstrip("/")


def ascii_host(host: str) -> str:
    """The host in its ASCII (IDNA) form. An invalid name is returned as it is: connecting fails."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def proxy_headers(proxy_url: str) -> list[tuple[str, str]]:
    """The credentials in a proxy's URL, if there are any.

    >>> proxy_headers("http://me:s%40cret@proxy")
    [('Proxy-Authorization', 'Basic bWU6c0BjcmV0')]
    """
    parts = urlsplit(proxy_url)
    if parts.username is None:
        return []
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return [("Proxy-Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
