"""Parsing of responses: framing, bounds, and arbitrary bytes."""

import asyncio
import contextlib
import gc
import http.client
import io
import socket
import tracemalloc
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.adapters.http1.connection import HEAD_BYTES_MAX, UNREAD_BYTES_MAX, Connection
from bursar.adapters.http1.errors import DisconnectedError, HttpError
from support.cluster.http_requests import ask, asking, body_of
from support.faults.scripted_server import (
    STREAM_END,
    STREAM_HEAD,
    answer,
    hang_up,
    http_chunk,
    silence,
    stream,
    verbatim,
)
from support.until import PATIENCE_SECONDS

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n", b"a"),
        (OK + b"\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n" + OK + b"\r\nx", b"x"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (OK + b"Transfer-Encoding: chunked \r\n\r\n1\r\na\r\n0\r\n\r\n", b"a"),
    ],
)
async def test_a_body_ends_where_it_says(sent, body):
    async with asking(hang_up(sent)) as (_, client, route):
        assert await body_of(await ask(client, route)) == body


@pytest.mark.parametrize(
    "sent",
    [
        b"hunter2 is not HTTP\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 099 Low\r\nContent-Length: 3\r\n\r\nabc" + OK + b"\r\n",
        OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        OK + b"Content-Length: -3\r\n\r\nabc",
        OK + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\nhunter2\r\nabc\r\n0\r\n\r\n",
        OK + b" folded: hunter2\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhunter2",
        OK + b"X: " + b"x" * (HEAD_BYTES_MAX + 1),
        OK + b"X: " + b"x" * HEAD_BYTES_MAX + b"\r\nContent-Length: 0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 3 * HEAD_BYTES_MAX,
        b"HTTP/1.1 100 Continue\r\n\r\n" * (HEAD_BYTES_MAX // 20),
    ],
)
async def test_invalid_http_is_an_error_that_does_not_repeat_it(sent):
    async with asking(verbatim(sent)) as (server, client, route):
        with pytest.raises(HttpError, match="the answer is not valid HTTP"):
            await body_of(await ask(client, route))

        await server.is_left.wait()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "closed before the answer"),
        (b"HTTP/1.1 200 O", "closed before the answer"),
        (OK + b"Content-Length: 9\r\n\r\n{", "closed inside the answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{", "closed inside the answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "closed inside the answer"),
        (OK + b"Transfer-Encoding: chunked \r\n\r\n1\r\n{\r\n", "closed inside the answer"),
    ],
)
async def test_a_response_that_is_cut_short_is_an_error(sent, words):
    async with asking(hang_up(sent)) as (_, client, route):
        with pytest.raises(HttpError, match=words):
            await body_of(await ask(client, route))


async def test_disconnected_means_that_no_byte_arrived():
    async with asking(hang_up(b"H")) as (_, client, route):
        with pytest.raises(HttpError) as caught:
            await ask(client, route)
    assert not isinstance(caught.value, DisconnectedError)


async def test_header_names_are_lower_case_and_repeated_headers_are_joined():
    step = answer(200, {}, RETRY_After="3", X_One="a", x_ONE="b")
    async with asking(step) as (_, client, route):
        found = await ask(client, route)

    assert (found.headers["retry-after"], found.headers["x-one"]) == ("3", "a, b")
    assert found.media_type == "application/json"


async def test_trailers_are_not_added_to_the_headers():
    sent = OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Type: text/html\r\n\r\n"
    async with asking(verbatim(sent)) as (_, client, route):
        found = await ask(client, route)
        await body_of(found)

    assert found.media_type == ""


async def test_pieces_are_returned_as_they_arrive_and_then_an_empty_one():
    async with asking(stream(b"one", b"two")) as (_, client, route):
        found = await ask(client, route)
        pieces = b""
        while piece := await found.next_piece():
            pieces += piece

        assert pieces == b"onetwo"
        assert await found.next_piece() == b""


async def test_a_body_over_the_bound_is_not_read_to_its_end():
    async with asking(stream(*[b"x" * 1000] * 100)) as (server, client, route):
        found = await ask(client, route)
        body = await found.read(5000)
        found.close()
        await server.is_left.wait()

    assert 5000 < len(body) <= 100_000


async def test_a_slow_reader_makes_the_server_wait():
    sent = 0

    async def endless(writer):
        nonlocal sent
        writer.transport.set_write_buffer_limits(2**16)
        writer.write(STREAM_HEAD)
        while True:
            writer.write(http_chunk(b"x" * 2**16))
            await writer.drain()
            sent += 2**16

    async with asking(endless) as (_, client, route):
        found = await ask(client, route)
        before = -1
        while sent != before or found.unread_cost < UNREAD_BYTES_MAX:
            before = sent
            await asyncio.sleep(0.2)

        # The rest is in the socket buffers of the system, which hold a few MiB.
        assert UNREAD_BYTES_MAX < sent < 20 * 2**20
        assert UNREAD_BYTES_MAX <= found.unread_cost < 2 * UNREAD_BYTES_MAX + 2**18
        taken, wanted = 0, sent + 2**20
        while taken < wanted:
            taken += len(await found.next_piece())


async def test_a_cancelled_read_can_be_followed_by_another():
    async with asking(stream(b"one", then=silence)) as (_, client, route):
        found = await ask(client, route)
        assert await found.next_piece() == b"one"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await found.next_piece()
        waiting = asyncio.ensure_future(found.next_piece())
        await asyncio.sleep(0)
        found.close()
        with pytest.raises(HttpError, match="closed inside the answer"):
            await waiting


async def test_a_body_without_length_is_incomplete_if_the_client_closes_the_connection():
    async with asking(then_silent(OK + b"\r\nhalf")) as (_, client, route):
        found = await ask(client, route)
        assert await found.next_piece() == b"half"
        found.close()
        with pytest.raises(HttpError, match="closed inside the answer"):
            await found.next_piece()


def then_silent(data):
    async def step(writer):
        writer.write(data)
        await asyncio.Event().wait()

    return step


async def test_tiny_chunks_do_not_pile_up():
    tiny = stream(b"".join([b"x"] * 10), then=verbatim(http_chunk(b"ab") * 200_000 + STREAM_END))
    async with asking(tiny) as (_, client, route):
        found = await ask(client, route)
        tracemalloc.start()
        body = await found.read(2**20)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert len(body) == 400_010
    assert peak < 10 * 2**20


async def test_a_failed_response_is_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        async with asking(hang_up(OK + b"Content-Length: 9\r\n\r\n{")) as (_, client, route):
            found = await ask(client, route)
            with pytest.raises(HttpError):
                await body_of(found)
            left = weakref.ref(found)
            del found
            await asyncio.sleep(0)
        assert left() is None
    finally:
        gc.enable()


# ------------------------------------------------------------------ any bytes


class _File:
    def __init__(self, data):
        self._data = data

    def makefile(self, *_):
        return io.BytesIO(self._data)


def as_the_standard_library_reads(data):
    response = http.client.HTTPResponse(_File(data))
    response.begin()
    return response.status, response.read()


async def as_we_read(data, cuts):
    """The result of bytes that arrive in pieces through a pair of sockets."""
    ours, theirs = socket.socketpair()
    _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=ours)
    try:
        found = connection.send(b"GET / HTTP/1.1\r\n\r\n")
        theirs.recv(100)
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            # After the client has closed the connection, writing fails.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                theirs.sendall(data[start:end])
            await asyncio.sleep(0)
        theirs.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await found.wait_for_head()
            return found.status, await found.read(2**20)
    finally:
        theirs.close()
        connection.abort()
        await asyncio.sleep(0)


@st.composite
def answers(draw):
    body = draw(st.binary(max_size=300))
    framing = draw(st.sampled_from(["length", "chunked", "end"]))
    lines = [f"X-{draw(st.integers(0, 9))}: {draw(st.text('abc, ', max_size=20))}"]
    if framing == "length":
        lines.append(f"Content-Length: {len(body)}")
        sent = body
    elif framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        size = draw(st.integers(1, 100))
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        sent = b"".join(http_chunk(piece) for piece in pieces) + b"0\r\n\r\n"
    else:
        sent = body
    status = draw(st.sampled_from([200, 201, 400, 404, 429, 500, 503]))
    head = "\r\n".join([f"HTTP/1.1 {status} Words", *lines, "", ""]).encode()
    return b"HTTP/1.1 100 Continue\r\n\r\n" * draw(st.integers(0, 2)) + head + sent


@st.composite
def cut(draw, whole):
    data = draw(whole)
    return data, sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))


@given(cut(answers()))
@settings(max_examples=150)
def test_responses_are_parsed_as_the_standard_library_parses_them(sent):
    data, cuts = sent

    assert asyncio.run(as_we_read(data, cuts)) == as_the_standard_library_reads(data)


@st.composite
def spoiled(draw):
    data = bytearray(draw(answers()))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


@given(cut(spoiled() | st.binary(max_size=200)))
@settings(max_examples=200)
def test_any_bytes_give_a_response_or_an_http_error(sent):
    data, cuts = sent
    status = 0
    with contextlib.suppress(HttpError):
        status, _ = asyncio.run(as_we_read(data, cuts))

    assert status == 0 or 200 <= status <= 999
