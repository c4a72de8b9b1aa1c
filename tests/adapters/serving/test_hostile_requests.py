"""Requests by which clients attack a server: smuggling, sizes, and bytes that are not HTTP."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Request, Response, Route
from bursar.adapters.serving.request_reader import RequestReader
from bursar.adapters.serving.server import HttpServer
from support.http_peer import HttpPeer, connected, request_bytes

LIMITS = ServerLimits(head_bytes_max=4096, linger_seconds=0.01, discard_seconds=0.2)
HEAD = b"POST /echo HTTP/1.1\r\nHost: a\r\n"


async def echo(request: Request) -> Response:
    seen = {"method": request.method, "body": request.body.decode("latin-1")}
    return Response(json.dumps({**seen, "query": request.query}).encode())


async def fail(_: Request) -> Response:
    raise RuntimeError("oops")


async def split(_: Request) -> Response:
    return Response(b"", headers=(("Location", "/\r\nSet-Cookie: a=b"),))


ROUTES = {
    ("POST", "/echo"): Route(echo, 1000),
    ("GET", "/echo"): Route(echo),
    ("GET", "/fail"): Route(fail),
    ("GET", "/split"): Route(split),
}


@contextlib.asynccontextmanager
async def a_peer() -> AsyncIterator[HttpPeer]:
    server = HttpServer(ROUTES, clock=SYSTEM_CLOCK, limits=LIMITS)
    port = await server.start("127.0.0.1", 0)
    try:
        async with connected(port) as peer:
            yield peer
    finally:
        await server.stop()


async def code_of_last(sent: bytes) -> int:
    """The answer to it, after which the server must close the connection."""
    async with a_peer() as peer:
        await peer.send(sent)
        answer = await peer.answer()
        assert answer.is_last
        assert await peer.is_closed()
        return answer.code


# ------------------------------------------------------------------ smuggling


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"Content-Length: 5, 5\r\n\r\nhello",
        b"Content-Length: +5\r\n\r\nhello",
        b"Content-Length: -5\r\n\r\nhello",
        b"Content-Length: 0x5\r\n\r\nhello",
        b"Content-Length: \r\n\r\nhello",
        b"Content-Length: 99999999999999999999\r\n\r\nhello",
        b"Content-Length : 5\r\n\r\nhello",
        b"Content-Length: 5\n\nhello",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"X: a\0b\r\n\r\n",
        b"X: a\rb\r\n\r\n",
        b"X: a\r\n b\r\n\r\n",
        b"Host: b\r\n\r\n",
    ],
    ids=lambda framing: framing.decode("latin-1").encode("unicode_escape").decode()[:40],
)
async def test_an_ambiguous_request_is_refused_and_the_input_after_it_is_ignored(framing):
    smuggled = b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"

    assert await code_of_last(HEAD + framing + smuggled) == 400


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["gzip", "unknown", "chunks in 1.0", "upgrade with a body"],
)
async def test_framing_that_is_not_implemented_is_refused(sent):
    assert await code_of_last(sent) == 501


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /echo HTTP/1.1\r\n\r\n",
        b"GET /echo HTTP/1.2\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 99,
        b"hello\r\n\r\n",
    ],
    ids=["no host", "1.2", "HTTP/2", "TLS", "zeros", "words"],
)
async def test_input_other_than_http_1_is_refused(sent):
    assert await code_of_last(sent) == 400


async def test_trailers_do_not_become_headers():
    async with a_peer() as peer:
        await peer.send(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
            b"5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
        )
        answer = await peer.answer()

        assert json.loads(answer.body)["body"] == "hello!"
        assert not answer.is_last


# ------------------------------------------------------------------ sizes


async def test_a_body_with_too_large_a_content_length_is_refused_unread():
    async with a_peer() as peer:
        await peer.send(HEAD + b"Content-Length: 1001\r\n\r\n")
        answer = await peer.answer()

        assert (answer.code, answer.text) == (413, "the body is larger than 1000 bytes")
        assert answer.is_last


async def test_the_refusal_of_a_large_body_reaches_a_client_that_is_still_sending():
    async with a_peer() as peer:
        await peer.send(HEAD + b"Content-Length: 9000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await peer.send(b"x" * 5_000_000)

        assert (await peer.answer()).code == 413


async def test_a_chunked_body_is_bounded_too():
    chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
    async with a_peer() as peer:
        await peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 10)
        await peer.send(b"1\r\nx\r\n")

        assert (await peer.answer()).code == 413


async def test_a_body_without_end_is_refused():
    async with a_peer() as peer:
        await peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        answering = asyncio.create_task(peer.answer())
        with contextlib.suppress(ConnectionError):
            while True:
                await peer.send(b"1\r\nx\r\n" * 1000)

        assert (await answering).code == 413


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /" + b"x" * 5000,
        HEAD + b"X: " + b"x" * 5000 + b"\r\n\r\n",
        HEAD + b"X: " + b"x" * 5000,
        HEAD + b"x" * 5000,
        HEAD + b"X:\r\n" * 200 + b"\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
    ids=["path", "half", "header", "half a header", "half a name", "many", "trailers"],
)
async def test_a_head_that_is_too_large_is_refused(sent):
    assert await code_of_last(sent) == 431


async def test_a_head_that_never_ends_is_refused_when_it_is_too_large():
    async with a_peer() as peer:
        await peer.send(HEAD)
        for _ in range(5000):
            await peer.send(b"X")

        assert (await peer.answer()).code == 431


@pytest.mark.parametrize(
    ("start", "piece"),
    [(b"0\r\nX: ", b"x"), (b"0\r\n", b"x"), (b"5;", b"x"), (b"5;a=", b"x")],
    ids=["trailer", "name of a trailer", "extension", "value of an extension"],
)
async def test_chunks_whose_framing_never_ends_are_refused_when_it_is_too_large(start, piece):
    async with a_peer() as peer:
        await peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + start)
        answering = asyncio.create_task(peer.answer())
        with contextlib.suppress(ConnectionError):
            for _ in range(200):  # More than the server reads together with the head.
                await peer.send(piece * 1000)

        assert (await answering).code == 431


# ------------------------------------------------------------------ order of answers


async def test_pipelined_requests_are_answered_in_their_order():
    async with a_peer() as peer:
        await peer.send(
            request_bytes("POST", "/echo", b"first")
            + request_bytes("GET", "/nowhere")
            + request_bytes("HEAD", "/echo")
            + request_bytes("POST", "/echo", b"last")
        )

        assert json.loads((await peer.answer()).body)["body"] == "first"
        assert (await peer.answer()).code == 404
        assert (await peer.answer(has_body=False)).code == 200
        assert json.loads((await peer.answer()).body)["body"] == "last"


async def test_a_bad_request_after_good_ones_is_refused_after_their_responses():
    async with a_peer() as peer:
        await peer.send(request_bytes("GET", "/echo") * 2 + b"rubbish\r\n\r\n")
        codes = [(await peer.answer()).code for _ in range(3)]

        assert codes == [200, 200, 400]
        assert await peer.is_closed()


async def test_pipelined_requests_are_bounded():
    async with a_peer() as peer:
        await peer.send(request_bytes("GET", "/echo") * 500)
        codes = [(await peer.answer()).code for _ in range(17)]

        assert codes == [200] * 16 + [429]
        assert await peer.is_closed()


async def test_the_heads_of_pipelined_requests_are_bounded_together():
    """Small headers take more memory than bytes on the wire."""
    many = b"".join(b"%x:\r\n" % number for number in range(0x100, 0x120))
    async with a_peer() as peer:
        await peer.send((b"GET /echo HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n") * 15)
        codes = [(await peer.answer()).code for _ in range(5)]

        assert codes == [200] * 4 + [429]
        assert await peer.is_closed()


async def test_a_client_may_pipeline_any_number_of_requests_if_it_reads_the_responses():
    async with a_peer() as peer:

        async def send() -> None:
            for _ in range(100):
                await peer.send(request_bytes("POST", "/echo", b"x" * 900))
                await asyncio.sleep(0)

        sending = asyncio.create_task(send())
        codes = {(await peer.answer()).code for _ in range(100)}
        await sending

        assert codes == {200}


# ------------------------------------------------------------------ the rest of HTTP/1.1


async def test_a_half_closed_client_is_still_answered():
    async with a_peer() as peer:
        await peer.send(request_bytes("POST", "/echo", b"hello"))
        peer.writer.write_eof()

        assert json.loads((await peer.answer()).body)["body"] == "hello"
        assert await peer.is_closed()


@pytest.mark.parametrize("sent", [b"", b"GET /echo", HEAD + b"Content-Length: 5\r\n\r\nhel"])
async def test_half_a_request_is_not_answered(sent):
    async with a_peer() as peer:
        await peer.send(sent)
        peer.writer.write_eof()

        assert await peer.is_closed()


async def test_expect_100_continue_is_answered():
    async with a_peer() as peer:
        await peer.send(HEAD + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert await peer.head() == (100, {})
        await peer.send(b"hello")

        assert json.loads((await peer.answer()).body)["body"] == "hello"


async def test_expect_100_continue_with_too_large_a_body_is_refused():
    async with a_peer() as peer:
        await peer.send(HEAD + b"Content-Length: 5000\r\nExpect: 100-continue\r\n\r\n")

        assert (await peer.answer()).code == 413


async def test_an_upgrade_without_a_body_is_answered_in_http_1():
    async with a_peer() as peer:
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        await peer.send(b"GET /echo HTTP/1.1\r\nHost: a\r\n" + upgrade + b"\x81\x05hello")
        answer = await peer.answer()

        assert (answer.code, answer.is_last) == (200, True)
        assert await peer.is_closed()


async def test_a_request_in_absolute_form_finds_its_path():
    async with a_peer() as peer:
        answer = await peer.ask("GET", "http://example.com/echo?a=b")

        assert json.loads(answer.body)["query"] == "a=b"


@pytest.mark.parametrize("target", ["*", "example.com:443", "//", "http://", "/echo/../echo"])
async def test_other_request_targets_are_not_found(target):
    async with a_peer() as peer:
        assert (await peer.ask("GET", target)).code in {400, 404}


async def test_head_has_the_length_and_not_the_body_and_405_says_what_is_allowed():
    async with a_peer() as peer:
        head, get = await peer.ask("HEAD", "/echo"), await peer.ask("GET", "/echo")
        delete = await peer.ask("DELETE", "/echo")

        assert int(head.headers["content-length"]) == len(get.body) + 1
        assert (delete.code, delete.headers["allow"]) == (405, "GET, POST, HEAD")
        assert get.headers["date"].endswith(" GMT")


@pytest.mark.parametrize("path", ["/fail", "/split"])
async def test_a_failing_handler_gives_a_500_without_details(path, caplog):
    async with a_peer() as peer:
        with caplog.at_level(logging.ERROR):
            answer = await peer.ask("GET", path)

        assert (answer.code, answer.text, answer.is_last) == (500, "internal error", True)
        assert "set-cookie" not in answer.headers
        assert f"the handler of GET {path} failed" in caplog.text


WORDS = st.sampled_from(
    [
        *(b"GET /echo HTTP/1.1\r\n", b"POST /echo HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n", b"x"),
        *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n", b"0\r\n"),
        *(b"Connection: close\r\n", b"Upgrade: h2c\r\nConnection: upgrade\r\n", b"abc", b"\n"),
        *(b"Expect: 100-continue\r\n", b"GET /echo HTTP/1.0\r\n", b"\0", b": ", b"HTTP/1.1"),
    ]
)


@settings(max_examples=300)
@given(st.lists(WORDS | st.binary(max_size=20), max_size=30), st.integers(1, 50))
def test_requests_do_not_depend_on_how_the_input_is_split(words, size):
    sent = b"".join(words)
    whole = RequestReader(ROUTES, LIMITS).feed(sent)
    reader = RequestReader(ROUTES, LIMITS)
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    arrived = [each for piece in pieces for each in reader.feed(piece)]

    assert [(each.request, each.is_last) for each in arrived] == [
        (each.request, each.is_last) for each in whole
    ]
    assert not any(each.is_last for each in arrived[:-1])
