"""The HTTP server stops: requests in progress are answered, new ones are not accepted."""

import asyncio

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response, Route, fixed
from support.builders.reviews import running
from support.http_peer import request_bytes
from support.until import until

LIMITS = ServerLimits(linger_seconds=0.05, finish_seconds=5)


class Held:
    """A handler that answers when it is told to."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.is_cancelled = False

    async def __call__(self, _: Request) -> Response:
        self.is_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return Response(b"after all")


def held_route(held: Held) -> dict[tuple[str, str], Route]:
    return {("GET", "/held"): Route(held)}


async def test_requests_in_progress_are_answered(tmp_path):
    held = Held()
    async with running(tmp_path, held_route(held), LIMITS) as server:
        asking = asyncio.create_task(server.answer("GET", "/held"))
        await held.is_asked.wait()
        stopping = asyncio.create_task(server.server.stop())
        await asyncio.sleep(0)  # the first step of it closes the door
        with pytest.raises(OSError, match="Connect"):
            await server.connect()
        held.may_answer.set()

        answer = await asking
        assert (answer.code, answer.text, answer.is_last) == (200, "after all", True)
        await server.peers.aclose()
        await stopping


async def test_a_handler_that_never_returns_is_cancelled(tmp_path):
    held, clock = Held(), VirtualClock()
    async with running(tmp_path, held_route(held), clock=clock) as server:
        asking = asyncio.create_task(server.answer("GET", "/held"))
        await held.is_asked.wait()

        stopping = asyncio.create_task(server.server.stop())
        await clock.advance(1 + 15 + 1)

        await stopping
        assert held.is_cancelled
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asking


async def test_a_stopping_server_is_not_ready_and_closes_its_connections(tmp_path):
    clock = VirtualClock()
    routes = {("GET", "/readyz"): Route(fixed(Response(b"OK")))}
    async with running(tmp_path, routes, clock=clock) as server:
        assert await server.get("/readyz") == (200, "OK")
        stopping = asyncio.create_task(server.server.stop())
        await asyncio.sleep(0)

        answer = await server.answer("GET", "/readyz")
        assert (answer.code, answer.text) == (503, "shutting down")
        assert answer.is_last
        await clock.advance(1)
        await stopping


async def test_with_a_delay_connections_are_accepted_for_so_long(tmp_path):
    clock = VirtualClock()
    routes = {("GET", "/review"): Route(fixed(Response(b"OK")))}
    async with running(tmp_path, routes, clock=clock) as server:
        stopping = asyncio.create_task(server.server.stop(delay_seconds=10))
        await clock.advance(9)

        peer = await server.connect()
        answer = await peer.ask("GET", "/review")
        assert (answer.code, answer.text, answer.is_last) == (200, "OK", True)

        await clock.advance(1)
        with pytest.raises(OSError, match="Connect"):
            await server.connect()
        await clock.advance(1)
        await stopping


async def test_idle_connections_are_closed_and_not_waited_for(tmp_path):
    clock = VirtualClock()
    routes = {("GET", "/readyz"): Route(fixed(Response(b"OK")))}
    async with running(tmp_path, routes, clock=clock) as server:
        peers = [await server.connect() for _ in range(3)]
        await peers[0].ask("GET", "/readyz")
        stopping = asyncio.create_task(server.server.stop())
        await clock.advance(1)
        await stopping

        assert all([await peer.is_closed() for peer in peers])


async def test_a_client_that_does_not_read_its_last_response_is_not_waited_for_longer(tmp_path):
    clock = VirtualClock()
    routes = {("GET", "/large"): Route(fixed(Response(b"x" * 2**24)))}
    async with running(tmp_path, routes, clock=clock) as server:
        peer = await server.connect()
        await peer.send(request_bytes("GET", "/large", Connection="close"))
        await peer.head()
        stopping = asyncio.create_task(server.server.stop())
        await clock.advance(1 + 15 + 1)

        await until(stopping.done, "the server has stopped")
