"""Bounds on connections: how many, for how long, and whose are closed if there are too many."""

import asyncio
import contextlib
import gc
import logging
import resource
import socket
import weakref
from collections import deque
from collections.abc import AsyncIterator

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.bounds import Phase
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response, Route, fixed
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.telemetry.agent.http import AGENT_LIMITS
from support.builders.reviews import running
from support.http_peer import HttpPeer, connected, request_bytes
from support.until import until

ROUTES = {
    ("GET", "/"): Route(fixed(Response(b"OK"))),
    ("POST", "/"): Route(fixed(Response(b"OK")), 2**20),
    ("GET", "/large"): Route(fixed(Response(b"x" * 20_000_000))),
}


class Plain:
    """A server over plain HTTP, on a clock that stands still until it is told to go."""

    def __init__(self, limits: ServerLimits, held: asyncio.Event) -> None:
        self.clock = VirtualClock()

        async def wait(_: Request) -> Response:
            await held.wait()
            return Response(b"OK")

        routes = {**ROUTES, ("GET", "/held"): Route(wait), ("POST", "/held"): Route(wait, 2**20)}
        self.server = HttpServer(routes, clock=self.clock, limits=limits)
        self.port = 0

    @property
    def phases(self) -> list[Phase]:
        return [each.phase for each in self.server._state.connections]

    async def connect_from(self, address: str, stack: contextlib.AsyncExitStack) -> HttpPeer:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0)
        )
        stack.callback(writer.transport.abort)
        return HttpPeer(reader, writer)


@contextlib.asynccontextmanager
async def plain(
    limits: ServerLimits | None = None, held: asyncio.Event | None = None
) -> AsyncIterator[Plain]:
    made = Plain(limits or ServerLimits(), held or asyncio.Event())
    made.port = await made.server.start("127.0.0.1", 0)
    try:
        yield made
    finally:
        async with made.clock.running():
            await made.server.stop()


# ------------------------------------------------------------------ time


@pytest.mark.parametrize(
    "sent",
    [b"G", b"GET / HTTP/1.1\r\nHost", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"],
    ids=["a byte", "half a head", "half a body"],
)
async def test_a_request_that_does_not_arrive_in_time_is_answered_with_408(sent):
    async with plain() as made, connected(made.port) as peer:
        await peer.send(sent)
        await until(lambda: made.phases == [Phase.ARRIVING])
        await made.clock.advance(9)
        assert made.phases == [Phase.ARRIVING]
        await made.clock.advance(2)

        answer = await peer.answer()
        assert (answer.code, answer.is_last) == (408, True)
        assert await peer.is_closed()


async def test_a_request_that_trickles_in_gets_no_more_time():
    async with plain() as made, connected(made.port) as peer:
        await peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
        await until(lambda: made.phases == [Phase.ARRIVING])
        [connection] = made.server._state.connections
        for _ in range(12):
            seen = connection._reader._unparsed_bytes
            await peer.send(b"X: y\r\n")
            await until(lambda seen=seen: connection._reader._unparsed_bytes > seen)
            await made.clock.advance(1)
            if connection.phase is not Phase.ARRIVING:
                break

        assert (await peer.answer()).code == 408


async def test_idle_connections_are_kept_longer_than_an_api_server_keeps_them():
    async with plain() as made, connected(made.port) as used, connected(made.port) as unused:
        await used.ask("GET", "/")
        await made.clock.advance(90)
        assert (await used.ask("GET", "/")).code == 200
        await made.clock.advance(100)

        assert await unused.is_closed()
        assert (await used.ask("GET", "/")).code == 200
        await made.clock.advance(182)
        assert await used.is_closed()


async def test_line_breaks_between_requests_do_not_keep_a_connection():
    async with plain() as made, connected(made.port) as peer:
        await peer.ask("GET", "/")
        for _ in range(4):
            await peer.send(b"\r\n")
            await made.clock.advance(50)

        assert await peer.is_closed()


async def test_a_client_that_does_not_read_its_response_is_cut_off():
    async with plain() as made, connected(made.port) as peer:
        peer.writer.transport.pause_reading()
        await peer.send(request_bytes("GET", "/large"))
        [connection] = made.server._state.connections
        await until(lambda: connection._is_write_paused)
        await made.clock.advance(61)

        await until(lambda: not made.phases)


async def test_large_responses_are_sent_whole_one_after_the_other():
    async with plain() as made, connected(made.port) as peer:
        await peer.send(request_bytes("GET", "/large") * 3)

        assert [len((await peer.answer()).body) for _ in range(3)] == [20_000_000] * 3


async def test_a_client_that_sends_after_its_last_response_is_cut_off():
    async with plain() as made, connected(made.port) as peer:
        await peer.send(request_bytes("GET", "/", Connection="close"))
        assert (await peer.answer()).is_last
        await peer.send(b"x" * 100_000)
        assert made.phases == [Phase.CLOSING]
        await made.clock.advance(3)

        await until(lambda: not made.phases)


# ------------------------------------------------------------------ number


async def test_connections_of_one_address_are_bounded_and_others_are_accepted():
    async with (
        plain(ServerLimits(connections_per_address_max=3)) as made,
        contextlib.AsyncExitStack() as stack,
    ):
        crowd = [await made.connect_from("127.0.0.2", stack) for _ in range(3)]
        await until(lambda: len(made.phases) == 3)
        other = await made.connect_from("127.0.0.3", stack)
        assert (await other.ask("GET", "/")).code == 200

        late = await made.connect_from("127.0.0.2", stack)

        assert (await late.ask("GET", "/")).code == 200
        assert await crowd[0].is_closed()
        assert [(await each.ask("GET", "/")).code for each in [*crowd[1:], other]] == [200] * 3


@pytest.mark.parametrize("idle", [32, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_probes_are_answered_however_many_connections_are_idle(idle):
    """All come from one address, as the kubelet and pods of a node may."""
    async with plain(AGENT_LIMITS) as made:
        strangers: deque[socket.socket] = deque()
        for number in range(idle):
            strangers.append(socket.create_connection(("127.0.0.1", made.port)))
            if number % 10 == 9:
                # The test is bounded in open files as well; the server has to keep up.
                await asyncio.sleep(0)
            if len(strangers) > 200:
                strangers.popleft().close()
        async with connected(made.port) as probe:
            assert (await probe.ask("GET", "/")).code == 200
        assert len(made.phases) <= AGENT_LIMITS.connections_max
        for each in strangers:
            each.close()


async def test_a_newcomer_is_refused_only_if_every_connection_is_being_answered(caplog):
    held = asyncio.Event()
    try:
        async with (
            plain(ServerLimits(connections_per_address_max=2), held) as made,
            contextlib.AsyncExitStack() as stack,
        ):
            busy = [await made.connect_from("127.0.0.2", stack) for _ in range(2)]
            for each in busy:
                await each.send(request_bytes("GET", "/held"))
            await until(lambda: made.phases == [Phase.ANSWERING] * 2)

            refused = [await made.connect_from("127.0.0.2", stack) for _ in range(5)]

            assert all([await each.is_closed() for each in refused])
            held.set()
            assert [(await each.answer()).code for each in busy] == [200] * 2
            await made.clock.advance(59)
            await made.clock.advance(1)
            lines = [each for each in caplog.records if "at a limit" in each.message]
            assert [each.fields for each in lines] == [{"connections": 5}]
    finally:
        held.set()


async def test_an_address_without_a_connection_is_accepted_while_all_others_are_answered():
    """Requests that take long, from several addresses, must not fail the kubelet's probes."""
    held, limits = asyncio.Event(), ServerLimits(connections_max=4, connections_spare=1)
    async with plain(limits, held) as made, contextlib.AsyncExitStack() as stack:
        crowd = [await made.connect_from(f"127.0.0.{2 + each % 2}", stack) for each in range(4)]
        for each in crowd:
            await each.send(request_bytes("GET", "/held"))
        await until(lambda: made.phases == [Phase.ANSWERING] * 4)

        late = await made.connect_from("127.0.0.2", stack)
        assert await late.is_closed()
        probe = await made.connect_from("127.0.0.9", stack)
        assert (await probe.ask("GET", "/")).code == 200
        again = await made.connect_from("127.0.0.8", stack)
        assert (await again.ask("GET", "/")).code == 200
        assert await probe.is_closed()
        held.set()
        assert [(await each.answer()).code for each in crowd] == [200] * 4


async def test_at_the_total_limit_the_address_with_the_most_connections_loses_its_oldest_idle_one():
    async with (
        plain(ServerLimits(connections_max=4)) as made,
        contextlib.AsyncExitStack() as stack,
    ):
        first = await made.connect_from("127.0.0.3", stack)
        assert (await first.ask("GET", "/")).code == 200
        crowd = [await made.connect_from("127.0.0.2", stack) for _ in range(3)]
        await until(lambda: len(made.phases) == 4)

        late = await made.connect_from("127.0.0.4", stack)

        assert (await late.ask("GET", "/")).code == 200
        assert await crowd[0].is_closed()
        assert (await first.ask("GET", "/")).code == 200
        assert [(await each.ask("GET", "/")).code for each in crowd[1:]] == [200] * 2
        assert len(made.phases) == 4


async def test_simultaneous_connections_are_bounded_too():
    async with plain(ServerLimits(connections_max=4)) as made:
        sockets = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(50)]
        await until(lambda: len(made.phases) == 4)
        async with connected(made.port) as peer:
            assert (await peer.ask("GET", "/")).code == 200
        assert len(made.phases) <= 4
        for each in sockets:
            each.close()


# ------------------------------------------------------------------ bytes

PIECE = b"x" * 10_000
HALF_SENT = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + PIECE
HEAD_OF_PIECE = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n"
BYTES = ServerLimits(bytes_in_flight_max=45_000)


async def test_bodies_that_arrive_are_bounded_together_and_the_greediest_address_gives_way():
    async with plain(BYTES) as made, contextlib.AsyncExitStack() as stack:
        bounds = made.server._state.bounds
        other = await made.connect_from("127.0.0.3", stack)
        await other.send(HALF_SENT)
        await until(lambda: bounds.bytes_in_flight == len(PIECE))
        crowd = [await made.connect_from("127.0.0.2", stack) for _ in range(4)]
        for count, each in enumerate(crowd, 2):
            await each.send(HALF_SENT)
            await until(lambda count=count: bounds.bytes_in_flight == min(count, 4) * len(PIECE))

        answers = [asyncio.ensure_future(each.answer()) for each in crowd]
        [refused], waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)

        assert (refused.result().code, refused.result().is_last) == (503, True)
        await other.send(b"x" * (1_000_000 - len(PIECE)))
        assert (await other.answer()).code == 503
        for each in waiting:
            each.cancel()


@pytest.mark.parametrize("strangers", [1, 4])
async def test_an_address_that_holds_little_is_answered_while_others_hold_all_bytes(strangers):
    held = asyncio.Event()
    async with plain(BYTES, held) as made, contextlib.AsyncExitStack() as stack:
        bounds = made.server._state.bounds
        addresses = [f"127.0.0.{2 + number % strangers}" for number in range(4)]
        crowd = [await made.connect_from(each, stack) for each in addresses]
        for each in crowd:
            await each.send(request_bytes("POST", "/held", PIECE))
        await until(lambda: bounds.bytes_in_flight == 4 * len(PIECE))
        other = await made.connect_from("127.0.0.9", stack)
        await other.send(HEAD_OF_PIECE + PIECE[:6000])
        await until(lambda: bounds.bytes_in_flight > 45_000 or bounds.refused)
        await other.send(PIECE[6000:9000])

        assert (await other.answer()).code == 200
        greedy = await made.connect_from("127.0.0.2", stack)
        await greedy.send(HALF_SENT)
        assert (await greedy.answer()).code == 503
        held.set()


async def test_the_spare_bytes_are_bounded_too():
    limits = ServerLimits(bytes_in_flight_max=45_000, bytes_spare=15_000)
    held = asyncio.Event()
    async with plain(limits, held) as made, contextlib.AsyncExitStack() as stack:
        bounds = made.server._state.bounds
        crowd = [await made.connect_from("127.0.0.2", stack) for _ in range(4)]
        for each in crowd:
            await each.send(request_bytes("POST", "/held", PIECE))
        await until(lambda: bounds.bytes_in_flight == 4 * len(PIECE))
        others = [await made.connect_from(f"127.0.0.{number}", stack) for number in (3, 4, 5)]
        answers = [asyncio.ensure_future(each.answer()) for each in others]
        for each in others:
            await each.send(HEAD_OF_PIECE + PIECE[:8000])
        [refused], waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)

        assert refused.result().code == 503
        assert bounds.bytes_in_flight <= limits.bytes_in_flight_max + limits.bytes_spare
        for each in waiting:
            each.cancel()
        held.set()


async def test_bytes_are_given_back_when_the_answer_is_sent_or_the_client_leaves():
    held = asyncio.Event()
    async with plain(BYTES, held) as made, connected(made.port) as peer:
        bounds = made.server._state.bounds
        await peer.send(request_bytes("POST", "/held", PIECE))
        await until(lambda: made.phases == [Phase.ANSWERING])
        assert bounds.bytes_in_flight == len(PIECE)
        async with connected(made.port) as leaving:
            await leaving.send(HALF_SENT)
            await until(lambda: bounds.bytes_in_flight == 2 * len(PIECE))
        await until(lambda: bounds.bytes_in_flight == len(PIECE))

        held.set()

        assert (await peer.answer()).code == 200
        await until(lambda: bounds.bytes_in_flight == 0)


async def test_responses_that_nobody_reads_are_bounded_too():
    async with plain(ServerLimits(bytes_in_flight_max=30_000_000)) as made:
        bounds = made.server._state.bounds
        async with connected(made.port) as first, connected(made.port) as second:
            for each in (first, second):
                each.writer.transport.pause_reading()
                await each.send(request_bytes("GET", "/large"))
            await until(lambda: bounds.refused["bytes"] == 1 and len(made.phases) == 1)

            assert 0 < bounds.bytes_in_flight <= 30_000_000


async def test_a_client_that_leaves_in_the_middle_of_a_body_leaves_no_line_in_the_log(
    tmp_path, caplog
):
    routes = {("POST", "/"): Route(fixed(Response(b"OK")), 2**20)}
    with caplog.at_level(logging.INFO):
        async with running(tmp_path, routes) as server:
            for is_abrupt in (True, False):
                peer = await server.connect()
                await peer.send(HALF_SENT)
                await until(lambda: server.server._state.bounds.bytes_in_flight == len(PIECE))
                if is_abrupt:
                    peer.writer.transport.abort()
                else:
                    peer.writer.close()
                await until(lambda: not server.server._state.connections)
        await asyncio.sleep(0)
    assert [each.message for each in caplog.records] == ["a certificate was read"]


def test_a_process_with_few_files_takes_fewer_connections():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        assert ServerLimits().within_open_files().connections_max == 352
        assert AGENT_LIMITS.within_open_files() == AGENT_LIMITS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# ------------------------------------------------------------------ handshakes


async def test_unfinished_tls_handshakes_are_counted_and_time_out(tmp_path):
    clock = VirtualClock()
    limits = ServerLimits(connections_per_address_max=3)
    async with running(tmp_path, ROUTES, limits, clock) as server:
        state = server.server._state
        async with contextlib.AsyncExitStack() as stack:
            silent = [await stack.enter_async_context(connected(server.port)) for _ in range(3)]
            await silent[0].send(b"\x16\x03\x01")
            await until(lambda: len(state.connections) == 3)
            await server.connect()
            assert await silent[0].is_closed()
            await clock.advance(11)

            assert all([await each.is_closed() for each in silent])
        assert await server.get("/") == (200, "OK")


async def test_unfinished_handshakes_have_a_bound_of_their_own(tmp_path):
    async with running(tmp_path, ROUTES, ServerLimits(handshakes_max=2)) as server:
        state = server.server._state
        established = await server.connect()
        async with contextlib.AsyncExitStack() as stack:
            silent = [await stack.enter_async_context(connected(server.port)) for _ in range(3)]

            assert await silent[0].is_closed()
            assert [each.phase for each in state.connections].count(Phase.HANDSHAKE) == 2
            assert (await established.ask("GET", "/")).code == 200
            assert await server.get("/") == (200, "OK")


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\0" * 99])
async def test_a_client_without_tls_is_disconnected(tmp_path, sent):
    async with running(tmp_path, ROUTES, ServerLimits(discard_seconds=0.1)) as server:
        async with connected(server.port) as peer:
            await peer.send(sent)
            assert b"HTTP" not in await peer.reader.read()

        assert await server.get("/") == (200, "OK")


async def test_an_invalid_tls_record_ends_the_connection(tmp_path):
    async with running(tmp_path, ROUTES) as server:
        peer = await server.connect()
        below = peer.writer.transport._ssl_protocol._transport
        below.write(b"\x17\x03\x03\x00\x20" + b"x" * 32)

        await until(lambda: not server.server._state.connections)
        assert await server.get("/") == (200, "OK")


# ------------------------------------------------------------------ memory


async def test_a_closed_connection_is_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        async with plain() as server:
            async with connected(server.port) as peer:
                await peer.send(request_bytes("GET", "/"))
                (connection,) = server.server._state.connections
                left = weakref.ref(connection._transport)
                del connection
            await until(lambda: not server.phases, "the server has noticed")
            await asyncio.sleep(0)

            assert left() is None
    finally:
        gc.enable()
