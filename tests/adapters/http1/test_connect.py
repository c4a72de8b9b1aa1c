"""Connecting: TLS, proxies, addresses, and the errors of each."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl

import pytest

from bursar.adapters.http1.client import HttpClient
from bursar.adapters.http1.errors import (
    ConnectTimeoutError,
    HttpError,
    UntrustedError,
    system_reason,
)
from certificates import Authority
from program import free_port
from support.cluster.http_requests import ask, body_of, route_to, tls_in_front_of, tunnel
from support.faults.scripted_server import answer, hang_up, scripted, silence

OBJECT = {"kind": "Thing"}


class Trust:
    """An authority, a server certificate, and TLS contexts that trust it."""

    def __init__(self, folder):
        self.authority = Authority(folder)
        self.pair = self.authority.server("server")

    def serving(self, *, wants_certificate=False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pair.certificate, self.pair.key)
        if wants_certificate:
            context.load_verify_locations(self.authority.certificate)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def trusting(self):
        return ssl.create_default_context(cafile=str(self.authority.certificate))


@pytest.fixture(scope="module")
def trust(tmp_path_factory):
    return Trust(tmp_path_factory.mktemp("trust"))


# ------------------------------------------------------------------ TLS


async def test_a_server_with_a_trusted_certificate_is_used(trust):
    async with scripted(answer(200, OBJECT)) as server:
        async with tls_in_front_of(server.port, trust.serving()) as port, HttpClient() as client:
            route = route_to(port, scheme="https", context=trust.trusting())
            for _ in range(3):
                assert await body_of(await ask(client, route)) == b'{"kind": "Thing"}'

        assert server.connections_total == 1


async def test_a_server_with_an_untrusted_certificate_receives_nothing(trust):
    async with scripted(answer(200, OBJECT)) as server:
        async with tls_in_front_of(server.port, trust.serving()) as port, HttpClient() as client:
            for context in (None, ssl.create_default_context()):
                with pytest.raises(
                    UntrustedError,
                    match=r"the server's certificate is not trusted: .*unable to get local issuer",
                ):
                    await ask(client, route_to(port, scheme="https", context=context))

        assert server.received == []


async def test_the_name_in_the_certificate_is_verified(trust):
    async with scripted(answer(200, OBJECT)) as server:
        async with tls_in_front_of(server.port, trust.serving()) as port, HttpClient() as client:
            named = route_to(
                port, scheme="https", context=trust.trusting(), server_name="kubernetes"
            )
            assert (await ask(client, named)).status == 200
            other = route_to(port, scheme="https", context=trust.trusting(), server_name="other")
            with pytest.raises(UntrustedError, match="hostname mismatch"):
                await ask(client, other)

        assert len(server.received) == 1


async def test_a_trailing_dot_of_the_host_is_ignored_in_certificates(trust):
    async with (
        scripted(answer(200, OBJECT)) as server,
        tls_in_front_of(server.port, trust.serving()) as port,
        HttpClient() as client,
    ):
        route = route_to(
            port, scheme="https", context=trust.trusting(), server_name="kubernetes.default.svc."
        )
        assert (await ask(client, route)).status == 200


async def test_another_tls_context_uses_another_connection(trust):
    """A renewed certificate must be used, and a withdrawn authority must not."""
    async with scripted(answer(200, OBJECT)) as server:
        async with tls_in_front_of(server.port, trust.serving()) as port, HttpClient() as client:
            for _ in range(2):
                route = route_to(port, scheme="https", context=trust.trusting())
                await body_of(await ask(client, route))

        assert server.connections_total == 2


def refuse_for_lack_of_a_certificate(listener, context):
    """Close as a server does that first waits until its response was read."""
    plain, _ = listener.accept()
    secure = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        secure.do_handshake()
    with socket.socket(fileno=secure.detach()) as left:
        while left.recv(1000):
            pass


async def test_a_missing_client_certificate_is_named_as_the_cause(trust):
    serving = trust.serving(wants_certificate=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refused = asyncio.ensure_future(
            asyncio.to_thread(refuse_for_lack_of_a_certificate, listener, serving)
        )
        route = route_to(listener.getsockname()[1], scheme="https", context=trust.trusting())
        async with HttpClient() as client:
            with pytest.raises(HttpError, match=r"the connection failed: .*certificate required"):
                await ask(client, route)
        await refused


@contextlib.asynccontextmanager
async def after_the_greeting(said):
    """A port that does not speak TLS."""
    left = asyncio.Event()

    async def reply(reader, writer):
        await reader.read(1)
        writer.write(said)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]
        await left.wait()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no connection: wrong version number"),
        (b"", "no connection: (closed by the other side|connection reset by peer)"),
    ],
)
async def test_a_server_without_tls_is_an_error(trust, said, words):
    async with after_the_greeting(said) as port, HttpClient() as client:
        with pytest.raises(HttpError, match=words):
            await ask(client, route_to(port, scheme="https", context=trust.trusting()))


# ------------------------------------------------------------------ proxies


async def test_plain_http_by_a_proxy_uses_absolute_urls():
    async with scripted(answer(200, OBJECT)) as proxy, HttpClient() as client:
        way = proxy.url.replace("http://", "http://me:secret@")
        await ask(client, route_to(80, host="cluster.invalid", proxy_url=way))

        [received] = proxy.received
        assert received.target == "http://cluster.invalid/x"
        assert received.headers["host"] == "cluster.invalid"
        assert received.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


@pytest.mark.parametrize("is_proxy_secure", [False, True])
async def test_tls_goes_through_a_tunnel_of_the_proxy(trust, is_proxy_secure):
    async with (
        scripted(answer(200, OBJECT)) as server,
        tls_in_front_of(server.port, trust.serving()) as port,
        tunnel(known={"cluster.invalid": "127.0.0.1"}) as proxy,
        tls_in_front_of(proxy.port, trust.serving()) as secure_port,
        HttpClient() as client,
    ):
        way = (
            f"https://me:secret@127.0.0.1:{secure_port}"
            if is_proxy_secure
            else f"http://me:secret@127.0.0.1:{proxy.port}"
        )
        route = route_to(
            port,
            scheme="https",
            host="cluster.invalid",
            context=trust.trusting(),
            server_name="kubernetes",
            proxy_url=way,
        )
        for _ in range(2):
            assert await body_of(await ask(client, route)) == b'{"kind": "Thing"}'

        assert proxy.asked == [f"cluster.invalid:{port}"]
        assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in proxy.heads[0]
        assert "proxy-authorization" not in server.received[0].headers


@pytest.mark.parametrize("is_proxy_secure", [False, True])
async def test_a_proxy_cannot_impersonate_the_server(trust, is_proxy_secure):
    async with (
        scripted(answer(200, OBJECT)) as server,
        tls_in_front_of(server.port, trust.serving()) as port,
        tunnel(known={"cluster.invalid": "127.0.0.1"}) as proxy,
        tls_in_front_of(proxy.port, trust.serving()) as secure_port,
        HttpClient() as client,
    ):
        way = f"https://127.0.0.1:{secure_port}" if is_proxy_secure else proxy.url
        route = route_to(
            port,
            scheme="https",
            host="cluster.invalid",
            context=trust.trusting(),
            proxy_url=way,
        )
        with pytest.raises(UntrustedError, match="hostname mismatch"):
            await ask(client, route)

        assert server.received == []


@pytest.mark.parametrize(
    "opened",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.0 200 Connection established\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ],
)
async def test_the_content_length_of_a_connect_response_is_ignored(trust, opened):
    async with (
        scripted(answer(200, OBJECT)) as server,
        tls_in_front_of(server.port, trust.serving()) as port,
        tunnel(opened=opened) as proxy,
        HttpClient() as client,
    ):
        route = route_to(port, scheme="https", context=trust.trusting(), proxy_url=proxy.url)
        assert await body_of(await ask(client, route)) == b'{"kind": "Thing"}'


async def test_without_a_context_a_tunnel_trusts_the_system_authorities(trust):
    async with (
        scripted(answer(200, OBJECT)) as server,
        tls_in_front_of(server.port, trust.serving()) as port,
        tunnel() as proxy,
        HttpClient() as client,
    ):
        with pytest.raises(UntrustedError):
            await ask(client, route_to(port, scheme="https", proxy_url=proxy.url))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (answer(407, "hunter2"), "^the proxy answered 407$"),
        (answer(302, "hunter2"), "^the proxy answered 302$"),
        (hang_up(), "^the connection was closed before the answer$"),
        (hang_up(b"HTTP/1.1 200 OK\r\n\r\n"), "^no connection: "),
        (hang_up(b"hunter2"), "^the answer is not valid HTTP$"),
    ],
)
async def test_a_proxy_that_refuses_the_tunnel_is_named_as_the_cause(trust, step, words):
    async with scripted(step) as proxy, HttpClient() as client:
        route = route_to(443, scheme="https", context=trust.trusting(), proxy_url=proxy.url)
        with pytest.raises(HttpError, match=words):
            await ask(client, route)


async def test_an_unreachable_proxy_is_named_as_the_cause():
    async with HttpClient() as client:
        for way in (f"http://127.0.0.1:{free_port()}", "http://proxy.invalid:1"):
            with pytest.raises(HttpError, match=r"the proxy cannot be reached: .+"):
                await ask(client, route_to(80, proxy_url=way))


async def test_an_untrusted_proxy_is_named_as_the_cause(trust):
    async with (
        scripted(answer(200, OBJECT)) as behind,
        tls_in_front_of(behind.port, trust.serving()) as port,
        HttpClient() as client,
    ):
        with pytest.raises(HttpError, match=r"the proxy cannot be reached: .*not trusted"):
            await ask(client, route_to(80, proxy_url=f"https://127.0.0.1:{port}"))


async def test_a_tunnel_that_never_opens_times_out():
    async with scripted(silence) as proxy, HttpClient(connect_seconds=0.05) as client:
        with pytest.raises(ConnectTimeoutError):
            await ask(client, route_to(443, scheme="https", proxy_url=proxy.url))


# ------------------------------------------------------------------ addresses


async def test_a_refused_connection_names_the_reason():
    async with HttpClient() as client:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(HttpError, match=r"^no connection: connection refused$"):
                await ask(client, route_to(free_port(), host=host))


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [("127.0.0.1", 70_000, ""), ("localhost", 70_000, ""), ("127.0.0.1", 1, "a\0b")],
)
async def test_an_invalid_address_is_an_http_error(trust, host, port, name):
    route = route_to(port, scheme="https", host=host, context=trust.trusting(), server_name=name)
    async with HttpClient() as client:
        with pytest.raises(HttpError):
            await ask(client, route)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64, "a..b", "x" * 300])
async def test_a_name_that_does_not_resolve_is_an_error(host):
    async with HttpClient() as client:
        with pytest.raises(HttpError, match="the server's name cannot be resolved"):
            await ask(client, route_to(80, host=host))


async def test_an_ipv6_address_is_reached_and_named_in_brackets():
    heads = []

    async def reply(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(reply, "::1", 0) as listener, HttpClient() as client:
        port = listener.sockets[0].getsockname()[1]
        assert (await ask(client, route_to(port, host="::1"))).status == 200

    assert f"Host: [::1]:{port}\r\n".encode() in heads[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EHOSTUNREACH, "secret"), os.strerror(errno.EHOSTUNREACH).lower()),
        (OSError("Multiple exceptions: [Errno 111] a, [Errno 101] b"), "connection refused"),
        (ConnectionResetError(), "closed by the other side"),
        (OSError("hunter2"), "it failed"),
        (ssl.SSLError(1, "hunter2"), "tls failed"),
    ],
)
def test_reasons_are_those_of_the_system_or_of_openssl(error, words):
    assert system_reason(error) == words
