"""What closed connections leave in memory, and what open ones share."""

import asyncio
import contextlib
import gc
import ssl
import weakref

import pytest

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.transport_memory import InputBuffer, socket_transport
from certificates import Authority
from support.cluster.http_requests import ask, body_of, route_to, tls_in_front_of
from support.faults.scripted_server import answer, scripted

LARGE = 2**19


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """TLS contexts of a server, and of a client that trusts it."""
    authority = Authority(tmp_path_factory.mktemp("trust"))
    pair = authority.server("server")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key)
    return serving, ssl.create_default_context(cafile=str(authority.certificate))


@contextlib.asynccontextmanager
async def over_tls(contexts, *script):
    serving, trusting = contexts
    async with (
        scripted(*script) as server,
        tls_in_front_of(server.port, serving) as port,
        HttpClient() as client,
    ):
        yield client, route_to(port, scheme="https", context=trusting)


def buffers_of(client):
    return {id(each.transport._ssl_protocol._ssl_buffer) for each in client._open}


async def test_tls_connections_read_into_one_buffer(contexts):
    async with over_tls(contexts, answer(200, {})) as (client, route):
        answers = await asyncio.gather(*(ask(client, route) for _ in range(4)))
        await asyncio.gather(*map(body_of, answers))

        assert (len(client._open), len(buffers_of(client))) == (4, 1)


async def test_responses_that_arrive_at_the_same_time_do_not_mix(contexts):
    script = [answer(200, letter * LARGE) for letter in "abcd"]
    async with over_tls(contexts, *script) as (client, route):
        answers = await asyncio.gather(*(ask(client, route) for _ in script))
        bodies = await asyncio.gather(*map(body_of, answers))

        assert len(buffers_of(client)) == 1
    assert sorted(bodies) == [letter * LARGE for letter in (b"a", b"b", b"c", b"d")]


async def test_a_connection_without_tls_has_no_buffer_to_share():
    buffer = InputBuffer()
    async with scripted(answer(200, {})) as server, HttpClient() as client:
        await body_of(await ask(client, route_to(server.port)))
        (connection,) = client._open
        buffer.share(connection.transport)

        assert buffer._held is None


@pytest.mark.parametrize("has_tls", [False, True])
async def test_a_closed_connection_is_freed_without_the_garbage_collector(contexts, has_tls):
    serving, trusting = contexts
    gc.collect()
    gc.disable()
    try:
        async with (
            scripted(answer(200, {})) as server,
            tls_in_front_of(server.port, serving) as port,
            HttpClient() as client,
        ):
            tls = route_to(port, scheme="https", context=trusting)
            await body_of(await ask(client, tls if has_tls else route_to(server.port)))
            (connection,) = client._open
            left = weakref.ref(socket_transport(connection.transport))
            assert left() is not None
            del connection
            await client.close()
            await asyncio.sleep(0)

            assert left() is None
    finally:
        gc.enable()
