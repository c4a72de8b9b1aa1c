"""The proxy of the environment, chosen as Go's `http.ProxyFromEnvironment` chooses it.

kubectl and every other Kubernetes client follow these variables unless the kubeconfig names a
proxy. `localhost` and loopback addresses are always reached directly. One difference: an invalid
proxy URL is an error here, and Go ignores it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.http1.route import ascii_host
from bursar.adapters.kube.address import parse_proxy

_PORTS: Final = {"http": "80", "https": "443"}
_EVERYTHING: Final = "*"
_HOST_AND_PORT: Final = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+)):([^:\[\]]*)")
_PREFIX: Final = re.compile(r"[^/]+/\d{1,3}", re.ASCII)

_Ip = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class _Target:
    host: str
    port: str
    ip: _Ip | None


def find_proxy(environment: Mapping[str, str], server: str) -> str:
    """The proxy for a URL that `parse_server` returned; empty for a direct connection.

    Raises `ConfigError`, which does not show the proxy's URL: it may hold a password.
    """
    parts = urlsplit(server)
    place, text = _first(environment, f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    if not text:
        return ""
    host = ascii_host(parts.hostname or "")
    port = str(parts.port or "") or _PORTS[parts.scheme]
    if _is_reached_directly(environment, _Target(host, port, _parsed_ip(host))):
        return ""
    if parts.scheme == "http" and environment.get("REQUEST_METHOD"):
        # In a CGI process, HTTP_PROXY is the header `Proxy` of the incoming request.
        raise ConfigError(place, "not trusted in a CGI process, where a client sets it")
    return parse_proxy(text if _has_scheme(text) else f"http://{text}", place)


def _first(environment: Mapping[str, str], *names: str) -> tuple[str, str]:
    """Name and value of the first variable that is not empty."""
    found = ((name, environment.get(name, "")) for name in names)
    return next((pair for pair in found if pair[1]), ("", ""))


def _has_scheme(text: str) -> bool:
    scheme, mark, rest = text.partition("://")
    return bool(scheme and mark and rest)


def _parsed_ip(text: str) -> _Ip | None:
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    return (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip


# ------------------------------------------------------------------ exceptions


def _is_reached_directly(environment: Mapping[str, str], target: _Target) -> bool:
    if target.host == "localhost" or (target.ip is not None and target.ip.is_loopback):
        return True
    _, listed = _first(environment, "no_proxy", "NO_PROXY")
    # client-go also checks CIDR prefixes itself, and there the upper-case name comes first.
    _, prefixes = _first(environment, "NO_PROXY", "no_proxy")
    return any(_excepts(entry, target) for entry in _entries(listed)) or any(
        _is_in_prefix(entry, target.ip) for entry in _entries(prefixes)
    )


def _entries(listed: str) -> Iterator[str]:
    entries = (entry.strip().lower() for entry in listed.split(","))
    return (entry for entry in entries if entry)


def _excepts(entry: str, target: _Target) -> bool:
    if entry == _EVERYTHING:
        return True
    if _PREFIX.fullmatch(entry):
        return _is_in_prefix(entry, target.ip)
    split = _HOST_AND_PORT.fullmatch(entry)
    host = (split[1] or split[2]) if split else entry
    port = split[3] if split else ""
    if port not in {"", target.port}:
        return False
    ip = None if "%" in host else _parsed_ip(host)
    if ip is not None:
        return ip == target.ip
    return target.ip is None and _is_domain_of(host, target.host)


def _is_in_prefix(entry: str, ip: _Ip | None) -> bool:
    if ip is None or not _PREFIX.fullmatch(entry):
        return False
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False
    if isinstance(network, IPv6Network) and isinstance(ip, IPv4Address):
        return False
    return ip in network


def _is_domain_of(entry: str, host: str) -> bool:
    """Whether the entry covers the host: `a.b` with subdomains, `.a.b` and `*.a.b` only those.

    >>> [_is_domain_of("a.b", "a.b"), _is_domain_of(".a.b", "a.b"), _is_domain_of("a.b", "x.a.b")]
    [True, False, True]
    """
    below = entry[1:] if entry.startswith("*.") else entry
    domain = ascii_host(below.removeprefix("."))
    return host.endswith(f".{domain}") or (host == domain and not below.startswith("."))
