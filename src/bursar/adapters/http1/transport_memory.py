"""Memory that asyncio's transports would keep longer than they need it.

The attributes here are asyncio's own and not documented. If a version of Python has others,
connections take more memory, and nothing else changes.
"""

import asyncio
from asyncio.sslproto import SSLProtocol
from typing import Any, Final

_CALLBACKS: Final = ("_read_ready_cb", "_write_ready")
"""Methods of a socket's transport that the transport itself refers to."""


class InputBuffer:
    """One buffer for the TLS input of all connections of an event loop.

    asyncio gives each TLS connection a buffer of `SSLProtocol.max_size` bytes for as long as it
    is open. It copies the input out of the buffer before it reads another socket.
    """

    def __init__(self) -> None:
        self._held: tuple[bytearray, memoryview] | None = None

    def share(self, transport: asyncio.BaseTransport) -> None:
        """Have a TLS connection use the buffer of the first one instead of its own.

        If the buffer is smaller than `max_size`, asyncio allocates another one.
        """
        tls: Any = getattr(transport, "_ssl_protocol", None)
        if not isinstance(tls, SSLProtocol) or not hasattr(tls, "_ssl_buffer_view"):
            return
        fields = vars(tls)
        if self._held is None:
            self._held = fields["_ssl_buffer"], fields["_ssl_buffer_view"]
        fields["_ssl_buffer"], fields["_ssl_buffer_view"] = self._held


def socket_transport(transport: asyncio.BaseTransport | None) -> asyncio.BaseTransport | None:
    """The transport of the socket, below all layers of TLS. Call it while the socket is open."""
    while (tls := getattr(transport, "_ssl_protocol", None)) is not None:
        transport = getattr(tls, "_transport", None)
    return transport


def free_closed(transport: asyncio.BaseTransport | None) -> None:
    """Break the reference cycle of a socket's transport whose connection is lost.

    asyncio does the same since Python 3.12, but not if the transport was aborted. Otherwise only
    the garbage collector frees it, with 2 kB, and the controller collects old objects rarely.
    """
    fields = getattr(transport, "__dict__", {})
    for name in _CALLBACKS:
        if name in fields:
            fields[name] = None
