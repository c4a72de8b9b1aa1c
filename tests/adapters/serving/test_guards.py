"""Guards: who may send a body, decided by the head of the request, before the body is read."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.bounds import Phase
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response, Route, refusal
from bursar.adapters.serving.server import HttpServer
from support.http_peer import HttpPeer, connected, request_bytes
from support.until import until

LIMITS = ServerLimits(linger_seconds=0.01, discard_seconds=0.2)
BODY = b"x" * 500_000
HEAD = b"POST /echo HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n"


class Door:
    """A server with one guarded route. The guard decides when it is told to."""

    def __init__(self) -> None:
        self.may_decide = asyncio.Event()
        self.may_decide.set()
        self.seen: list[tuple[str, int]] = []
        """Token and size of the body, as the guard got them."""
        routes = {
            ("POST", "/echo"): Route(self._echo, 2**20, self._guard),
            ("GET", "/page"): Route(self._echo, guard=self._guard),
        }
        self.server = HttpServer(routes, clock=SYSTEM_CLOCK, limits=LIMITS)
        self.port = 0

    @property
    def phases(self) -> list[Phase]:
        return [each.phase for each in self.server._state.connections]

    @property
    def bytes_in_flight(self) -> int:
        return self.server._state.bounds.bytes_in_flight

    async def _guard(self, request: Request) -> Response | None:
        self.seen.append((request.bearer_token, len(request.body)))
        await self.may_decide.wait()
        if request.bearer_token == "broken":  # noqa: S105 - not a token
            raise RuntimeError("oops")
        good = request.bearer_token == "good"  # noqa: S105 - not a token
        return None if good else refusal(HTTPStatus.UNAUTHORIZED, "who are you?")

    async def _echo(self, request: Request) -> Response:
        return Response(f"{request.peer.address} sent {len(request.body)}".encode())


@contextlib.asynccontextmanager
async def a_door() -> AsyncIterator[tuple[Door, HttpPeer]]:
    door = Door()
    door.port = await door.server.start("127.0.0.1", 0)
    try:
        async with connected(door.port) as peer:
            yield door, peer
    finally:
        door.may_decide.set()
        await door.server.stop()


async def test_a_stranger_is_refused_before_he_sends_his_body():
    async with a_door() as (door, peer):
        await peer.send(HEAD % (b"bad", len(BODY)) + b"\r\n")
        answer = await peer.answer()

        assert (answer.code, answer.text, answer.is_last) == (401, "who are you?", True)
        assert door.seen == [("bad", 0)]
        assert await peer.is_closed()


async def test_while_the_guard_decides_no_more_of_the_body_is_read():
    async with a_door() as (door, peer):
        door.may_decide.clear()
        await peer.send(HEAD % (b"good", len(BODY)) + b"\r\n")
        await until(lambda: door.phases == [Phase.CHECKING])
        sending = asyncio.ensure_future(peer.send(BODY))
        async with connected(door.port) as other:
            assert (await other.ask("GET", "/nowhere")).code == 404
        assert door.bytes_in_flight == 0

        door.may_decide.set()

        assert (await peer.answer()).text == f"127.0.0.1 sent {len(BODY)}"
        await sending


async def test_a_small_body_that_comes_with_its_head_waits_for_the_guard():
    async with a_door() as (door, peer):
        good = request_bytes("POST", "/echo", b"hello", Authorization="Bearer good")
        await peer.send(good * 2)
        assert [(await peer.answer()).text for _ in range(2)] == ["127.0.0.1 sent 5"] * 2

        bad = request_bytes("POST", "/echo", b"hello", Authorization="Bearer bad")
        await peer.send(bad + good)
        assert (await peer.answer()).code == 401
        assert await peer.is_closed()
        await until(lambda: not door.bytes_in_flight)


async def test_a_client_that_waits_for_100_continue_is_asked_for_its_body_after_the_guard():
    async with a_door() as (_, peer):
        await peer.send(HEAD % (b"good", 5) + b"Expect: 100-continue\r\n\r\n")
        assert await peer.head() == (100, {})
        await peer.send(b"hello")
        assert (await peer.answer()).code == 200

        await peer.send(HEAD % (b"bad", 5) + b"Expect: 100-continue\r\n\r\n")
        assert (await peer.answer()).code == 401


async def test_a_guarded_page_has_no_body_to_wait_for():
    async with a_door() as (_, peer):
        answer = await peer.ask("GET", "/page", Authorization="Bearer good")
        assert answer.text == "127.0.0.1 sent 0"

        assert (await peer.ask("HEAD", "/page")).code == 401
        assert await peer.is_closed()


async def test_a_guard_that_fails_lets_nobody_pass(caplog):
    async with a_door() as (_, peer):
        with caplog.at_level(logging.ERROR):
            answer = await peer.ask("GET", "/page", Authorization="Bearer broken")

        assert (answer.code, answer.text, answer.is_last) == (500, "internal error", True)
        assert "the guard of GET /page failed" in caplog.text


async def test_a_client_that_leaves_while_the_guard_decides_is_forgotten():
    async with a_door() as (door, peer):
        door.may_decide.clear()
        await peer.send(HEAD % (b"good", len(BODY)) + b"\r\nhello")
        await until(lambda: door.phases == [Phase.CHECKING])
        assert door.bytes_in_flight == 5
        peer.writer.transport.abort()

        # Reading is paused, so the end of the connection is noticed when the answer is due.
        door.may_decide.set()
        await until(lambda: not door.phases and not door.bytes_in_flight)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_that_takes_no_body_refuses_one_unread(method):
    async with a_door() as (door, peer):
        head = f"{method} /page HTTP/1.1\r\nHost: a\r\nContent-Length: {len(BODY)}\r\n\r\n"
        await peer.send(head.encode())
        answer = await peer.answer()

        assert answer.code == {"GET": 413, "POST": 405}[method]
        assert answer.is_last
        assert door.seen == []


@pytest.mark.parametrize("path", ["/page", "/nowhere"])
async def test_a_chunked_body_that_nobody_reads_is_refused_unread(path):
    async with a_door() as (_, peer):
        head = f"GET {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        await peer.send(head.encode())
        answer = await peer.answer()

        assert (answer.code, answer.is_last) == ({"/page": 413, "/nowhere": 404}[path], True)
