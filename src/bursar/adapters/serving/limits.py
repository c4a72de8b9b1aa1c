"""The bounds that an HTTP server puts on its clients."""

import resource
from dataclasses import dataclass, replace
from typing import Final, Self

FILES_RESERVED: Final = 128
"""File descriptors that connections leave to the rest of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    connections_max: int = 1024
    """Open connections, TLS handshakes included."""
    connections_spare: int = 32
    """Further connections for addresses that have none, such as the kubelet's, while all others
    are being answered."""
    connections_per_address_max: int = 768
    """Open connections of one client address. A kube-apiserver runs up to 600 requests at a
    time by default, and each may hold a connection to the webhook."""
    handshakes_max: int = 768
    """Unfinished TLS handshakes. The rest of `connections_max` is for established connections."""
    bytes_in_flight_max: int = 64 * 2**20
    """Bodies of requests that are arriving or being answered, and responses that clients have not
    read yet, of all connections together."""
    bytes_spare: int = 16 * 2**20
    """Further bytes in flight for addresses that hold less than an equal share of them, such as an
    API server's, while the bodies of others are being answered."""
    head_bytes_max: int = 2**15
    """Size of the request line, the headers and the trailers of one request. Pipelined requests are
    refused after the one with which their heads exceed this size together."""
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
    """When the server stops: time for requests in progress, and for clients to read their last
    responses. A pod has 30 seconds to terminate by default."""

    def within_open_files(self) -> Self:
        """These limits, with at most as many connections as this process can open.

        A server without a free file descriptor could not even accept the kubelet's probes.
        """
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self
        room = max(soft - FILES_RESERVED - self.connections_spare, soft // 2, 1)
        return replace(self, connections_max=min(self.connections_max, room))


DEFAULT_LIMITS: Final = ServerLimits()
