"""The bounds that an HTTP server puts on its clients."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    connections_max: int = 1024
    """Open connections, TLS handshakes included."""
    connections_per_address_max: int = 768
    """Open connections of one client address. A kube-apiserver runs up to 600 requests at a
    time by default, and each may hold a connection to the webhook."""
    head_bytes_max: int = 2**15
    """Size of the request line, the headers and the trailers of one request."""
    pipelined_max: int = 16
    """Requests that a client may send on one connection before it reads a response."""
    handshake_seconds: float = 10
    request_seconds: float = 10
    """Time from the first byte of a request to its last. A kube-apiserver waits 10 seconds
    for a webhook by default."""
    idle_seconds: float = 180
    """Time between requests. A kube-apiserver closes idle connections after 90 seconds. The
    server must wait longer, or it closes connections that a request is being sent on."""
    send_seconds: float = 60
    """Time for which a client may leave sent data unread."""
    discard_seconds: float = 2
    """Time for which input is discarded after the last response of a connection. Closing a
    socket that has unread input resets it, and the client may lose the response."""
    linger_seconds: float = 1
    """When the server stops: time for which open connections still take requests."""
    finish_seconds: float = 15
    """When the server stops: time for requests in progress. A pod has 30 seconds to
    terminate by default."""


DEFAULT_LIMITS: Final = ServerLimits()
