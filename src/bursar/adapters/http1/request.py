"""A request, and the bytes that it is on a connection."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.route import Route, proxy_headers

_UNSENDABLE: Final = re.compile(r"[\0\r\n\ud800-\udfff]")

Header = tuple[str, str]


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    target: str
    """Path and query, escaped."""
    headers: Sequence[Header] = ()
    body: bytes | None = None
    is_repeatable: bool = False
    """Whether it may be sent again if the connection turns out to be closed."""
    is_late: Callable[[], bool] = _never
    """Asked as the last thing before it is sent, whether it is too late for that.

    A process can be stopped at any moment, by a debugger, a freezer or a host that is moved, and
    wakes up with connections that are ready. No deadline fires before they have been used.
    """


def request_bytes(request: HttpRequest, route: Route) -> bytes:
    """Raises `HttpError` for what would be another request than the one that is meant."""
    target, headers = request.target, list(request.headers)
    if route.names_whole_urls:
        target = f"http://{route.origin.authority}{target}"
        headers += proxy_headers(route.proxy_url)
    if request.body is not None:
        headers.append(("Content-Length", str(len(request.body))))
    return head_bytes(request.method, target, route.origin.authority, headers) + (
        request.body or b""
    )


def head_bytes(method: str, target: str, authority: str, headers: Sequence[Header]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if any(_UNSENDABLE.search(line) for line in lines):
        raise HttpError("a header holds what cannot be sent")
    return "\r\n".join([*lines, "", ""]).encode()
