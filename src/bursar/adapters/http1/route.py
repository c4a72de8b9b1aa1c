"""To whom a connection leads, and by which way. Connections of one route are alike."""

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
        """As a request names it: without the port that goes without saying."""
        return _bracketed(self.host) if self.port == _PORTS[self.scheme] else self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    origin: Origin
    context: ssl.SSLContext | None = None
    """None for `http`, and for `https` where everything is as usual on this machine."""
    server_name: str = ""
    """What the server's certificate must be for, if not for the host of its address."""
    proxy_url: str = ""

    @property
    def is_tunnelled(self) -> bool:
        return bool(self.proxy_url) and self.origin.is_secure

    @property
    def names_whole_urls(self) -> bool:
        """A proxy that reads along needs to be told the server in each request."""
        return bool(self.proxy_url) and not self.origin.is_secure


def parse_origin(url: str) -> tuple[Origin, str]:
    """A server and the path below which everything is. Raises `ValueError`.

    >>> parse_origin("https://example.com:6443/k8s/")
    (Origin(scheme='https', host='example.com', port=6443), '/k8s')
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("an address with http:// or https:// is expected")
    port = parts.port or _PORTS[parts.scheme]
    return Origin(parts.scheme, ascii_host(parts.hostname), port), parts.path.rstrip("/")


def ascii_host(host: str) -> str:
    """As servers are told it; what is no name leads nowhere, and is found out there."""
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def proxy_headers(proxy_url: str) -> list[tuple[str, str]]:
    """Who we are to a proxy, if its address says so.

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
