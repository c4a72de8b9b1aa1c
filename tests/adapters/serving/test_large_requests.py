"""Large requests take turns, so that small ones are answered in between."""

import asyncio
import contextlib

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.connection import LARGE_BODY_BYTES
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response, Route
from bursar.adapters.serving.server import HttpServer
from support.http_peer import connected, request_bytes
from support.until import until

LIMITS = ServerLimits(linger_seconds=0.01)
BODY = b"x" * (LARGE_BODY_BYTES + 1)


class Passes:
    """Counts the passes of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.count = 0
        self._next = self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        self.count += 1
        self._next = self._loop.call_soon(self._pass)

    def stop(self) -> None:
        self._next.cancel()


async def test_large_requests_that_arrive_together_begin_in_different_passes_of_the_event_loop():
    passes = Passes()
    begun: list[int] = []

    async def begin(_: Request) -> Response:
        begun.append(passes.count)
        return Response(b"OK")

    server = HttpServer({("POST", "/"): Route(begin, 2**20)}, clock=SYSTEM_CLOCK, limits=LIMITS)
    port = await server.start("127.0.0.1", 0)
    try:
        async with contextlib.AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(connected(port)) for _ in range(4)]
            request = request_bytes("POST", "/", BODY)
            for peer in peers:
                await peer.send(request[:-1])
            bounds = server._state.bounds
            await until(lambda: bounds.bytes_in_flight == len(peers) * (len(BODY) - 1))
            for peer in peers:
                peer.writer.write(request[-1:])

            assert [(await peer.answer()).code for peer in peers] == [200] * len(peers)
        assert len(set(begun)) == len(peers)
    finally:
        passes.stop()
        await server.stop()
