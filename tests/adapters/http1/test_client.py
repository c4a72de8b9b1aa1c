"""Requests: which connection they use, when they are sent again, and their bytes."""

import asyncio
import contextlib
import gzip

import pytest

from bursar.adapters.http1.body import read_body
from bursar.adapters.http1.client import IDLE_MAX, OPENING_MAX, HttpClient
from bursar.adapters.http1.errors import ConnectTimeoutError, DisconnectedError, HttpError
from bursar.adapters.http1.route import parse_origin, proxy_headers
from support.cluster.http_requests import a_request, ask, asking, body_of, route_to
from support.faults.scripted_server import (
    answer,
    chatter,
    hang_up,
    scripted,
    silence,
    stream,
    verbatim,
)
from support.until import PATIENCE_SECONDS, until

EMPTY = answer(200, {})
LAST = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def test_sequential_requests_share_one_connection():
    async with asking(EMPTY) as (server, client, route):
        for _ in range(5):
            await body_of(await ask(client, route))

        assert server.connections_total == 1


async def test_concurrent_requests_use_separate_connections_that_are_all_kept():
    async with asking(EMPTY) as (server, client, route):
        for _ in range(3):
            answers = await asyncio.gather(*(ask(client, route) for _ in range(4)))
            assert [await body_of(each) for each in answers] == [b"{}"] * 4

        assert server.connections_total == 4


async def test_a_connection_with_connection_close_is_not_reused():
    async with asking(answer(200, {}, Connection="close")) as (server, client, route):
        for _ in range(3):
            await body_of(await ask(client, route))

        assert server.connections_total == 3


async def test_an_idle_connection_is_closed_after_the_keepalive_time():
    async with asking(EMPTY, keepalive_seconds=0.02) as (server, client, route):
        await body_of(await ask(client, route))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.is_left.wait()

        assert (client._open, client._idle) == (set(), {})


async def test_after_a_burst_few_idle_connections_are_kept():
    async with asking(EMPTY, surplus_seconds=0.02) as (server, client, route):
        answers = await asyncio.gather(*(ask(client, route) for _ in range(IDLE_MAX + 3)))
        for each in answers:
            await body_of(each)
        assert server.connections_total == IDLE_MAX + 3

        await until(lambda: len(client._open) == IDLE_MAX)
        for each in await asyncio.gather(*(ask(client, route) for _ in range(IDLE_MAX))):
            await body_of(each)

        assert server.connections_total == IDLE_MAX + 3, "those that were kept are used again"


async def test_a_burst_of_short_requests_shares_few_connections():
    async with asking(EMPTY) as (server, client, route):

        async def whole():
            return await body_of(await ask(client, route))

        answers = await asyncio.gather(*(whole() for _ in range(20 * OPENING_MAX)))

        assert answers == [b"{}"] * 20 * OPENING_MAX
        assert server.connections_total < 10 * OPENING_MAX


async def test_requests_that_take_long_have_a_connection_each():
    async with asking(silence) as (server, client, route):
        tasks = [asyncio.create_task(ask(client, route)) for _ in range(3 * OPENING_MAX)]

        await until(lambda: len(server.received) == 3 * OPENING_MAX)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_second_response_closes_the_connection():
    """It would be taken for the response to the next request."""
    async with asking(verbatim(LAST * 2), EMPTY) as (server, client, route):
        await body_of(await ask(client, route))
        assert await body_of(await ask(client, route)) == b"{}"

        assert server.connections_total == 2


async def test_unrequested_data_closes_an_idle_connection():
    async def twice(writer):
        writer.write(LAST)
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 408 Too slow\r\nContent-Length: 0\r\n\r\n")

    async with asking(twice, EMPTY) as (server, client, route):
        await body_of(await ask(client, route))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.is_left.wait()

        assert (await ask(client, route)).status == 200


async def test_an_idempotent_request_is_sent_again_if_the_kept_connection_was_closed():
    for is_idempotent in (True, False):
        async with asking(EMPTY, hang_up(), EMPTY) as (server, client, route):
            await body_of(await ask(client, route))
            request = a_request("PATCH", body=b"{}", is_idempotent=is_idempotent)
            if is_idempotent:
                assert (await ask(client, route, request)).status == 200
            else:
                with pytest.raises(DisconnectedError):
                    await ask(client, route, request)

            assert len(server.received) == 2 + is_idempotent


async def test_a_request_on_a_new_connection_is_not_sent_again():
    async with asking(hang_up(), EMPTY) as (server, client, route):
        with pytest.raises(DisconnectedError):
            await ask(client, route, a_request(is_idempotent=True))

        assert server.connections_total == 1


async def test_closing_an_incomplete_response_closes_its_connection():
    async with asking(stream(b"x", then=chatter(b"x"))) as (server, client, route):
        found = await ask(client, route)
        found.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.is_left.wait()

        assert client._open == set()


async def test_cancelling_a_request_closes_its_connection():
    async def not_yet(writer):
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)

    async with asking(not_yet) as (server, client, route):
        asked = asyncio.ensure_future(ask(client, route))
        await server.is_asked.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.is_left.wait()

        assert client._open == set()


async def test_closing_the_client_ends_requests_in_flight():
    async with scripted(stream(b"x", then=silence)) as server:
        async with HttpClient() as client:
            found = await ask(client, route_to(server.port))
            assert await found.next_piece() == b"x"
        with pytest.raises(HttpError, match="closed inside the answer"):
            await found.next_piece()


# ------------------------------------------------------------------ requests


async def test_a_request_is_sent_as_it_is():
    async with asking(EMPTY) as (server, client, route):
        headers = [("Group", "one"), ("Group", "zwölf")]
        await ask(client, route, a_request("POST", *headers, body=b"abc"))

        [received] = server.received
        assert (received.method, received.target, received.body) == ("POST", "/x", b"abc")
        assert received.headers == {
            "host": f"127.0.0.1:{server.port}",
            "group": "one, zwölf",
            "content-length": "3",
        }


async def test_a_body_may_be_empty_and_may_be_large():
    async with asking(EMPTY) as (server, client, route):
        for body in (b"", b"x" * 3_000_000):
            await body_of(await ask(client, route, a_request("POST", body=body)))

        assert [len(each.body) for each in server.received] == [0, 3_000_000]
        assert server.received[0].headers["content-length"] == "0"


@pytest.mark.parametrize("text", ["a\r\nX: y", "a\nb", "a\rb", "a\0b", "a\ud800b"])
async def test_a_header_cannot_smuggle_another(text):
    async with asking(EMPTY) as (server, client, route):
        for header in (("X", text), (text, "x")):
            with pytest.raises(HttpError, match="a header holds a character that cannot be sent"):
                await ask(client, route, a_request("GET", header))

        assert server.connections_total == 0


async def test_a_late_request_is_not_sent_and_the_next_one_is():
    async with asking(EMPTY) as (server, client, route):
        await body_of(await ask(client, route))
        with pytest.raises(HttpError, match="too late to be sent"):
            await ask(client, route, a_request("PATCH", is_late=lambda: True))
        await body_of(await ask(client, route))

        assert [each.method for each in server.received] == ["GET", "GET"]


async def test_no_connection_within_the_time_for_it():
    async with (
        scripted(silence) as server,
        HttpClient(connect_seconds=0.05) as client,
    ):
        with pytest.raises(ConnectTimeoutError, match=r"no connection within 0.05 s"):
            await ask(client, route_to(server.port, scheme="https"))


@contextlib.asynccontextmanager
async def reading_no_body(reply):
    """A server that responds after the head, does not read the body and stays connected."""
    writers = []

    async def serve(reader, writer):
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        reply(writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        yield route_to(listener.sockets[0].getsockname()[1]), writers
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


async def test_a_connection_with_an_unread_request_body_is_not_reused():
    def refuse(writer):
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n")

    async with reading_no_body(refuse) as (route, writers):
        async with HttpClient() as client:
            for body in (b"x" * 20_000_000, b"x"):
                answer = await ask(client, route, a_request("POST", body=body))
                assert answer.status == 413
                await body_of(answer)

        assert len(writers) == 2


async def test_a_server_that_closes_during_an_upload_is_an_error():
    async with (
        reading_no_body(lambda writer: writer.write_eof()) as (route, _),
        HttpClient() as client,
    ):
        with pytest.raises(DisconnectedError):
            await ask(client, route, a_request("POST", body=b"x" * 20_000_000))


# ------------------------------------------------------------------ compressed bodies


def packed(data, encoding="gzip"):
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(data)}\r\n\r\n"
    return verbatim(head.encode() + data)


async def test_a_compressed_body_is_decompressed():
    body = b"some text " * 100_000
    async with asking(packed(gzip.compress(body))) as (_, client, route):
        assert await read_body(await ask(client, route), 2**24) == body


async def test_the_bound_applies_to_the_decompressed_body():
    bomb = gzip.compress(b"\0" * 100_000_000)
    async with asking(packed(bomb)) as (_, client, route):
        found = await ask(client, route)

        assert len(await read_body(found, 1000)) == 1001


PACKED = gzip.compress(b"x" * 1000, mtime=0)


@pytest.mark.parametrize("data", [b"hunter2", PACKED[:-9], b"", PACKED + b"x" * 2**21])
async def test_corrupt_compressed_data_is_an_error(data):
    async with asking(packed(data)) as (_, client, route):
        with pytest.raises(HttpError, match="the answer cannot be decompressed"):
            await read_body(await ask(client, route), 2**20)


async def test_another_encoding_is_an_error():
    async with asking(packed(b"x", "br")) as (_, client, route):
        with pytest.raises(HttpError, match="an encoding that was not requested"):
            await read_body(await ask(client, route), 2**20)


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "authority", "address", "path"),
    [
        ("https://example.com", "example.com", "example.com:443", ""),
        ("https://example.com:443/", "example.com", "example.com:443", ""),
        ("http://example.com:443/a/b/", "example.com:443", "example.com:443", "/a/b"),
        ("http://[fd00::1]", "[fd00::1]", "[fd00::1]:80", ""),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", "[fd00::1]:6443", ""),
        ("https://bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example:443", ""),
    ],
)
def test_a_url_is_split_into_origin_and_path(url, authority, address, path):
    origin, base = parse_origin(url)

    assert (origin.authority, origin.address, base) == (authority, address, path)


@pytest.mark.parametrize("url", ["", "example.com", "ftp://example.com", "https://", "http://a:b"])
def test_an_invalid_url_is_refused(url):
    with pytest.raises(ValueError, match=r".+"):
        parse_origin(url)


def test_proxy_credentials_come_from_its_url():
    assert proxy_headers("http://proxy:3128") == []
    assert proxy_headers("http://me@proxy") == [("Proxy-Authorization", "Basic bWU6")]
