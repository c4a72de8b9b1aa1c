"""One client connection of the HTTP server: reads requests, sends responses, keeps deadlines."""

import asyncio
import contextlib
import logging
import math
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, cast

from bursar.adapters.http1.transport_memory import free_closed
from bursar.adapters.serving.bounds import Bounds, Phase
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import (
    Peer,
    Response,
    Routes,
    encode_response,
    encode_stream_head,
    refusal,
)
from bursar.adapters.serving.request_reader import CONTINUE, Arrived, Headed, RequestReader
from bursar.adapters.serving.tls.channel import FindContext, TlsChannel
from bursar.app.cluster.ports import Clock

READY_PATH: Final = "/readyz"
"""A server that is stopping is not ready, whatever the handler of this path says."""
BUFFER_BYTES: Final = 2**16
LARGE_BODY_BYTES: Final = 2**16
"""Requests with larger bodies take turns. Decoding an object of 3 MiB can take half a second."""

_LOG: Final = logging.getLogger(__name__)
_FAILED: Final = refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")
_STOPPING: Final = refusal(HTTPStatus.SERVICE_UNAVAILABLE, "shutting down")
_TOO_SLOW: Final = refusal(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
_BUSY: Final = refusal(
    HTTPStatus.SERVICE_UNAVAILABLE, "too much is arriving; try again", ("Retry-After", "1")
)


@dataclass(slots=True, eq=False, kw_only=True)
class ServerState:
    """What the connections of one server share."""

    routes: Routes
    limits: ServerLimits
    clock: Clock
    is_stopping: bool = False
    """Each response is the last on its connection, and the server is not ready."""
    is_accepting: bool = True
    date: bytes = b""
    """The Date header of responses. The server sets it every second."""
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last connection is gone."""
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(BUFFER_BYTES)))
    """Input of whichever connection is being read. It is consumed before another one is."""

    bounds: Bounds = field(init=False)
    _large_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.limits)

    async def take_turn(self) -> None:
        """Wait until no other large request begins in this pass of the event loop.

        Between two large requests the event loop reads from all connections and runs the handlers
        of small requests, such as probes.
        """
        async with self._large_turn:
            await asyncio.sleep(0)

    @property
    def connections(self) -> Collection["Connection"]:
        """Open connections, the oldest first."""
        return cast("Collection[Connection]", self.bounds.connections)

    def admit(self, connection: "Connection") -> bool:
        """Count a new connection, if the bounds allow it."""
        return self.is_accepting and self.bounds.admit(connection)

    def forget(self, connection: "Connection") -> None:
        self.bounds.forget(connection)
        if not self.bounds.connections:
            self.emptied.set()


_BUSY_PHASES: Final = (Phase.CHECKING, Phase.ANSWERING)
"""Phases in which a response is due, or may become due."""


class Connection(asyncio.BufferedProtocol):
    """Requests on one connection are answered one after the other, in their order."""

    def __init__(self, state: ServerState, find_context: FindContext | None) -> None:
        self._state = state
        self._find_context = find_context
        self._tls: TlsChannel | None = None
        """None until the first bytes of a handshake arrive, and without TLS."""
        self._reader = RequestReader(state.routes, state.limits)
        self._waiting: deque[Arrived | Headed] = deque()
        """Requests that have arrived and are not being answered yet."""
        self._answering_bytes = 0
        """Size of the body of the request that is being answered."""
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._is_read_paused = self._is_write_paused = self._is_eof = False
        self._drained: asyncio.Future[None] | None = None
        self.address = ""
        self.phase = Phase.IDLE if find_context is None else Phase.HANDSHAKE
        self.deadline = math.inf
        """Time of the clock at which `expire` is due."""
        self._latest_deadline = math.inf
        """`deadline` is not later than this. `finish` sets it when the server stops."""
        self.held_bytes = 0
        """What this connection has of the bytes in flight. `Bounds` sets it."""

    # -------------------------------------------------------------- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if isinstance(peer, tuple) else ""
        self._reader.peer = Peer(self.address)
        if not self._state.admit(self):
            cast("asyncio.Transport", transport).abort()
            return
        # Not all event loops derive their transports from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        limits = self._state.limits
        is_plain = self._find_context is None
        self._expect(limits.idle_seconds if is_plain else limits.handshake_seconds)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._state.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.phase is Phase.CLOSING or self._transport is None:
            return
        data = self._state.buffer[:nbytes]
        if self._find_context is None:
            self._received(data)
            return
        if self._tls is None:
            self._tls = TlsChannel(self._find_context())
        try:
            plaintext = self._tls.receive(data)
        except ssl.SSLError:
            self._end()
            return
        if output := self._tls.take_output():
            self._transport.write(output)
        if self._tls.is_established and self.phase is Phase.HANDSHAKE:
            self._state.bounds.established(self)
            self._reader.peer = Peer(self.address, self._tls.client_names())
            self._wait_in(Phase.IDLE, self._state.limits.idle_seconds)
        if plaintext:
            self._received(plaintext)
        if self._tls.is_ended and not self.eof_received():
            self._end()

    def eof_received(self) -> bool:
        """Keep the connection for a response that is due: a client may have ended its side only.

        A stream ends with the client's side, because clients leave it like that.
        """
        self._is_eof = True
        if self.phase in _BUSY_PHASES:
            return True
        self._expect(self._state.limits.send_seconds)
        if self._task is not None:
            self._task.cancel()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        free_closed(self._transport)
        self._transport = None
        self._waiting.clear()
        self._reader.close()
        self._account()
        if self._task is None:
            self._state.forget(self)
        else:
            self._task.add_done_callback(lambda _: self._state.forget(self))
            self._task.cancel()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._expect(self._state.limits.send_seconds)
        self._account()
        self._pause_or_resume_reading()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._account()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self.phase is Phase.CLOSING:
            self._expect(self._state.limits.discard_seconds)
        elif self._task is not None:
            self.deadline = self._latest_deadline
        else:
            self._next()
        self._pause_or_resume_reading()

    # -------------------------------------------------------------- called by the server

    def expire(self) -> None:
        """End what takes too long. A request that does not arrive is answered with 408."""
        if self.phase is Phase.ARRIVING and not self._is_write_paused:
            self._give_up(_TOO_SLOW)
        else:
            self.abort()

    @property
    def is_stalled(self) -> bool:
        """Whether the client does not read what was sent to it."""
        return self._is_write_paused

    def expel(self) -> None:
        """Refuse the request that is arriving: all connections together hold too many bytes."""
        self._give_up(_BUSY)

    def finish(self) -> None:
        """Close the connection, after the response if one is due, and in time in any case."""
        seconds = self._state.limits.finish_seconds
        self._latest_deadline = self._state.clock.monotonic() + seconds
        self.deadline = min(self.deadline, self._latest_deadline)
        if self.phase not in _BUSY_PHASES and self._transport is not None:
            if self._task is not None:
                self._task.cancel()
            self._end()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -------------------------------------------------------------- requests

    def _received(self, data: bytes | memoryview) -> None:
        self._waiting.extend(self._reader.feed(data))
        self._next()
        self._account()
        self._pause_or_resume_reading()

    def _give_up(self, response: Response) -> None:
        self._waiting.extend(self._reader.give_up(response))
        self._next()

    def _account(self) -> None:
        """Report the bytes of requests and of unread responses that this connection holds."""
        held = self._answering_bytes + self._reader.body_bytes
        held += sum(len(each.request.body) for each in self._waiting)
        if self._is_write_paused and self._transport is not None:
            held += self._transport.get_write_buffer_size()
        if held != self.held_bytes:
            self._state.bounds.hold(self, held)

    def _next(self) -> None:
        """Answer the next request, wait for it, or close the connection."""
        if self._task is not None or self._is_write_paused or self._transport is None:
            return
        if self._waiting:
            arrived = self._waiting.popleft()
            self.deadline = self._latest_deadline
            self._answering_bytes = len(arrived.request.body)
            if isinstance(arrived, Headed):
                self.phase, work = Phase.CHECKING, self._check(arrived)
            else:
                self.phase, work = Phase.ANSWERING, self._answer(arrived)
            self._task = asyncio.get_running_loop().create_task(work)
        elif self._is_eof or (self._state.is_stopping and self.phase is Phase.ANSWERING):
            self._end()
        elif self._reader.is_mid_request:
            self._wait_in(Phase.ARRIVING, self._state.limits.request_seconds)
            if self._reader.wants_continue:
                self._reader.wants_continue = False
                self._write(CONTINUE)
        else:
            self._wait_in(Phase.IDLE, self._state.limits.idle_seconds)

    def _wait_in(self, phase: Phase, seconds: float) -> None:
        """Enter a phase and set its deadline. Within one phase, the deadline is not extended."""
        if self.phase is not phase:
            self.phase = phase
            self._expect(seconds)

    async def _check(self, headed: Headed) -> None:
        """Ask the guard about the head of a request. No more input is read meanwhile."""
        request = headed.request
        try:
            response = await headed.guard(request)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:  # noqa: BLE001 - one bad guard must not end the process
            _LOG.exception("the guard of %s %s failed", request.method, request.path)
            response = _FAILED
        self._task = None
        if response is None:
            self._next()
        else:
            self._reader.stop()
            is_head = request.method == "HEAD"
            self._write(encode_response(response, self._state.date, is_head=is_head, is_last=True))
            self._end()
        self._account()
        self._pause_or_resume_reading()

    async def _answer(self, arrived: Arrived) -> None:
        request, is_last = arrived.request, arrived.is_last
        try:
            if len(request.body) > LARGE_BODY_BYTES:
                await self._state.take_turn()
            response = await arrived.handler(request)
            if self._state.is_stopping:
                is_last = True
                response = _STOPPING if request.path == READY_PATH else response
            if isinstance(response.body, bytes):
                is_head = request.method == "HEAD"
                date = self._state.date
                self._write(encode_response(response, date, is_head=is_head, is_last=is_last))
            else:
                is_last = is_last or not arrived.is_chunkable
                await self._stream(response, response.body, arrived, is_last=is_last)
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:  # noqa: BLE001 - one bad handler must not end the process
            _LOG.exception("the handler of %s %s failed", request.method, request.path)
            if self.phase is Phase.STREAMING:
                # Without its last chunk the client can tell that the response is incomplete.
                self.abort()
                return
            is_last = True
            self._write(encode_response(_FAILED, self._state.date, is_head=False, is_last=True))
        self._task = None
        self._answering_bytes = 0
        if is_last:
            self._end()
        else:
            self._next()
            self._pause_or_resume_reading()
        self._account()

    async def _stream(
        self,
        response: Response,
        body: AsyncGenerator[bytes, None],
        arrived: Arrived,
        *,
        is_last: bool,
    ) -> None:
        is_chunked = arrived.is_chunkable
        date = self._state.date
        self._write(encode_stream_head(response, date, is_chunked=is_chunked, is_last=is_last))
        async with contextlib.aclosing(body):
            if arrived.request.method == "HEAD":
                return
            self.phase = Phase.STREAMING
            async for piece in body:
                # An empty chunk would end the response.
                if piece:
                    self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
                if self._is_write_paused:
                    self._drained = asyncio.get_running_loop().create_future()
                    await self._drained
                else:
                    # A generator that never waits must not keep the loop for itself.
                    await asyncio.sleep(0)
        if is_chunked:
            self._write(b"0\r\n\r\n")

    def _end(self) -> None:
        """Send nothing more, and close the connection when the client does."""
        if self.phase is Phase.CLOSING:
            return
        self.phase = Phase.CLOSING
        self._waiting.clear()
        transport, limits = self._transport, self._state.limits
        if transport is None or transport.is_closing():
            return
        if self._tls is not None:
            transport.write(self._tls.end())
        is_sent = not transport.get_write_buffer_size()
        self._expect(limits.discard_seconds if is_sent else limits.send_seconds)
        if self._is_eof:
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:
            # The client has reset the connection, and the loop has not noticed it yet.
            self.abort()
        else:
            self._pause_or_resume_reading()

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            transport.write(data if self._tls is None else self._tls.send(data))
        except ssl.SSLError:
            # The client has ended TLS in the middle of a request.
            self.abort()

    def _pause_or_resume_reading(self) -> None:
        """Read no further requests while responses are due or cannot be sent."""
        transport = self._transport
        is_paused = (
            bool(self._waiting)
            or self.phase is Phase.CHECKING
            or (self._is_write_paused and self.phase is not Phase.CLOSING)
        )
        if transport is not None and is_paused is not self._is_read_paused:
            self._is_read_paused = is_paused
            if is_paused:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _expect(self, seconds: float) -> None:
        self.deadline = min(self._state.clock.monotonic() + seconds, self._latest_deadline)
