"""Streamed responses: server-sent events reach the client one by one, and end with it."""

import asyncio
import gc
import logging
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.message import EVENT_STREAM, Request, Response, Route
from bursar.adapters.serving.server import HttpServer
from support.builders.reviews import RunningServer, running
from support.http_peer import connected, request_bytes
from support.until import until


class Feed:
    """Server-sent events, each as soon as it is published."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.is_open = False

    async def __call__(self, _: Request) -> Response:
        return Response(self._pieces(), content_type=EVENT_STREAM)

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        self.is_open = True
        try:
            while (event := await self.events.get()) is not None:
                yield event
        finally:
            self.is_open = False


@asynccontextmanager
async def feeding(folder, feed, clock=SYSTEM_CLOCK) -> AsyncIterator[RunningServer]:
    async with running(folder, {("GET", "/events"): Route(feed)}, clock=clock) as server:
        yield server


async def test_each_event_is_sent_at_once_and_the_connection_is_kept(tmp_path):
    feed = Feed()
    async with feeding(tmp_path, feed) as server:
        peer = await server.connect()
        await peer.send(request_bytes("GET", "/events"))
        code, headers = await peer.head()
        assert (code, headers["content-type"]) == (200, "text/event-stream")

        chunks = peer.chunks()
        for event in (b"data: 1\n\n", b"data: 2\n\n"):
            feed.events.put_nowait(event)
            assert await anext(chunks) == event
        feed.events.put_nowait(b"")  # nothing, which must not end the body
        feed.events.put_nowait(None)
        assert [each async for each in chunks] == []

        assert (await peer.ask("GET", "/else")).code == 404


async def test_a_stream_ends_when_its_client_disconnects(tmp_path):
    feed = Feed()
    async with feeding(tmp_path, feed) as server:
        peer = await server.connect()
        await peer.send(request_bytes("GET", "/events"))
        await until(lambda: feed.is_open)
        peer.writer.close()

        await until(lambda: not feed.is_open)
        await until(lambda: not server.server._state.connections)


async def test_a_stream_waits_for_a_slow_client_and_then_cuts_it_off(tmp_path):
    clock, count = VirtualClock(), 0

    async def flood(_: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            nonlocal count
            while True:
                count += 1
                yield b"x" * 65_536

        return Response(pieces())

    async with feeding(tmp_path, flood, clock) as server:
        peer = await server.connect()
        await peer.send(request_bytes("GET", "/events"))
        await until(lambda: count)
        [connection] = server.server._state.connections
        peer.writer.transport.pause_reading()

        async def is_cut_off() -> bool:
            # The buffers of both sides may still take more: then the time begins anew.
            await until(lambda: connection._is_write_paused)
            await clock.advance(61)
            return not server.server._state.connections

        await until(is_cut_off)


async def test_a_stream_does_not_delay_the_stop(tmp_path):
    feed, clock = Feed(), VirtualClock()
    async with feeding(tmp_path, feed, clock) as server:
        peer = await server.connect()
        await peer.send(request_bytes("GET", "/events"))
        await until(lambda: feed.is_open)
        stopping = asyncio.create_task(server.server.stop())
        await clock.advance(1)
        await stopping

        assert not feed.is_open


async def test_a_failing_stream_is_cut_off_without_its_last_chunk(tmp_path, caplog):
    async def failing(_: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"first"
            raise RuntimeError("oops")

        return Response(pieces())

    async with feeding(tmp_path, failing) as server:
        peer = await server.connect()
        with caplog.at_level(logging.ERROR), pytest.raises((asyncio.IncompleteReadError, OSError)):
            await peer.ask("GET", "/events")
        assert "oops" in caplog.text


async def test_a_head_request_for_a_stream_gets_its_headers_only(tmp_path):
    feed = Feed()
    async with feeding(tmp_path, feed) as server:
        answer = await server.answer("HEAD", "/events")

        assert (answer.code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert not feed.is_open


async def test_an_http_1_0_client_gets_a_stream_without_chunks_over_plain_http():
    feed = Feed()
    server = HttpServer({("GET", "/events"): Route(feed)}, clock=SYSTEM_CLOCK)
    async with connected(await server.start("127.0.0.1", 0)) as peer:
        await peer.send(b"GET /events HTTP/1.0\r\n\r\n")
        for event in (b"data: 1\n\n", b"data: 2\n\n", None):
            feed.events.put_nowait(event)

        answer = await peer.answer()
        assert "transfer-encoding" not in answer.headers
        assert (answer.body, answer.is_last) == (b"data: 1\n\ndata: 2\n\n", True)
    await server.stop()


async def test_a_client_that_resets_the_connection_just_before_its_end_raises_nothing(caplog):
    """A probe of kubelet that times out does this."""
    with socket.socket() as client:

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield b"data: 1\n\n"
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()

        async def events(_: Request) -> Response:
            return Response(pieces(), content_type=EVENT_STREAM)

        server = HttpServer({("GET", "/events"): Route(events)}, clock=SYSTEM_CLOCK)
        client.connect(("127.0.0.1", await server.start("127.0.0.1", 0)))
        client.sendall(b"GET /events HTTP/1.0\r\n\r\n")
        failures = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))

        await until(lambda: client.fileno() < 0, "the client has reset the connection")
        await server.stop()
        gc.collect()
        await asyncio.sleep(0)
        assert (failures, caplog.messages) == ([], [])
