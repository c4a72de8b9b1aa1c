"""A request and its bytes on the wire."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar import __version__
from bursar.adapters.http1.errors import HttpError
from bursar.adapters.http1.route import Route, proxy_headers

USER_AGENT: Final = f"bursar/{__version__}"
JSON: Final = "application/json"

_UNSENDABLE: Final = re.compile(r"[\0\r\n\ud800-\udfff]")

Header: TypeAlias = tuple[str, str]
Headers: TypeAlias = Sequence[Header]
"""Names and values in the order in which they are sent; a name may occur more than once."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    target: str
    """Path and query, escaped."""
    headers: Headers = ()
    body: bytes | None = None
    is_idempotent: bool = False
    """Whether it is sent again if a kept connection turns out to be closed."""
    is_late: Callable[[], bool] = _never
    """Called immediately before the request is written; True cancels it.

    A process can be suspended at any time by a debugger, a cgroup freezer or a live migration.
    It resumes with connections that are ready for use before any timeout fires.
    """


def request_bytes(request: HttpRequest, route: Route) -> bytes:
    """Serialize the request. Raises `HttpError` if a header would split into another request."""
    target, headers = request.target, list(request.headers)
    if route.uses_absolute_form:
        target = f"http://{route.origin.authority}{target}"
        headers += proxy_headers(route.proxy_url)
    if request.body is not None:
        headers.append(("Content-Length", str(len(request.body))))
    return head_bytes(request.method, target, route.origin.authority, headers) + (
        request.body or b""
    )


def head_bytes(method: str, target: str, authority: str, headers: Headers) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if any(_UNSENDABLE.search(line) for line in lines):
        raise HttpError("a header holds a character that cannot be sent")
    return "\r\n".join([*lines, "", ""]).encode()
