"""Client certificates: reviews are answered to the API server alone, and probes to everybody."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.tls.client_authority import ClientAuthority, client_guard
from bursar.adapters.serving.tls.profile import TlsProfile
from certificates import Authority, Pair
from support.builders.reviews import (
    RunningServer,
    a_review,
    a_reviewer,
    raw_pod,
    routes_of,
    running,
)
from support.http_peer import request_bytes

LIMITS = ServerLimits(linger_seconds=0.01, finish_seconds=1)
REVIEW = json.dumps(a_review("Pod", "CREATE", raw_pod())).encode()
API_SERVER = "api-server"


@dataclass
class Webhook:
    server: RunningServer
    clients: ClientAuthority
    clock: VirtualClock
    file: Path

    async def review(self, client: Pair | None) -> tuple[int, str]:
        peer = await self.server.connect(client)
        answer = await peer.ask("POST", "/gate", REVIEW, Content_Type="application/json")
        return answer.code, answer.text


def an_authority(folder: Path, name: str) -> Authority:
    (folder / name).mkdir()
    return Authority(folder / name)


@pytest.fixture
def trusted(tmp_path):
    return an_authority(tmp_path, "trusted")


@contextlib.asynccontextmanager
async def webhook(folder: Path, authority: Authority, *names: str) -> AsyncIterator[Webhook]:
    file = folder / "client-ca.crt"
    file.write_bytes(authority.certificate.read_bytes())
    clock = VirtualClock()
    clients = ClientAuthority(str(file), clock=clock)
    routes, profile = routes_of(a_reviewer(), client_guard(names)), TlsProfile(clients=clients)
    (folder / "server").mkdir()
    async with running(folder / "server", routes, LIMITS, profile=profile) as server:
        watching = asyncio.create_task(clients.watch(server.certificate.newest.renew))
        try:
            yield Webhook(server, clients, clock, file)
        finally:
            watching.cancel()


async def test_the_api_server_is_answered_and_a_stranger_is_not(tmp_path, trusted):
    async with webhook(tmp_path, trusted) as made:
        code, text = await made.review(trusted.client(API_SERVER))
        assert (code, json.loads(text)["response"]["allowed"]) == (200, True)

        assert await made.review(None) == (403, "a client certificate is required")


async def test_a_stranger_is_refused_before_his_body_is_read(tmp_path, trusted):
    async with webhook(tmp_path, trusted) as made:
        peer = await made.server.connect()
        head = request_bytes("POST", "/gate", REVIEW, Content_Type="application/json")
        await peer.send(head.removesuffix(REVIEW))
        answer = await peer.answer()

        assert (answer.code, answer.is_last) == (403, True)


async def test_probes_need_no_certificate(tmp_path, trusted):
    async with webhook(tmp_path, trusted) as made:
        assert await made.server.get("/healthz") == (200, "OK")
        assert await made.server.get("/readyz") == (200, "OK")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_of_another_authority_cannot_connect(tmp_path, trusted, version):
    forged = an_authority(tmp_path, "other").client(API_SERVER)
    async with webhook(tmp_path, trusted) as made:
        made.server.trust.maximum_version = version
        # In TLS 1.3 a client learns of the refusal when it reads.
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await made.review(forged)
        assert await made.server.get("/healthz") == (200, "OK")


async def test_a_serving_certificate_is_no_client_certificate(tmp_path, trusted):
    async with webhook(tmp_path, trusted) as made:
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await made.review(trusted.server("a-service-of-a-tenant"))


async def test_only_allowed_names_are_answered(tmp_path, trusted):
    async with webhook(tmp_path, trusted, API_SERVER, "127.0.0.1") as made:
        assert (await made.review(trusted.client(API_SERVER)))[0] == 200
        assert await made.review(trusted.client("kubelet")) == (
            403,
            "the client certificate is not for an allowed name",
        )


@pytest.mark.parametrize("names", [(), (API_SERVER,)])
async def test_a_certificate_with_a_name_that_is_no_text_is_refused(
    tmp_path, trusted, names, caplog
):
    a_dns_name_of_two_bytes = b"\x30\x04\x82\x02\xff\xfe"
    client = trusted.client_with_names(API_SERVER, a_dns_name_of_two_bytes)
    async with webhook(tmp_path, trusted, *names) as made:
        assert (await made.review(client))[0] == 403
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_new_authority_replaces_the_one_before_and_its_sessions(tmp_path, trusted, version):
    new = an_authority(tmp_path, "new")
    before, after = trusted.client(API_SERVER), new.client(API_SERVER)
    async with webhook(tmp_path, trusted) as made:
        context = ssl.create_default_context(cafile=str(made.server.authority))
        context.maximum_version = version
        context.load_cert_chain(before.certificate, before.key)
        session = await _session(made, context)
        made.file.write_bytes(new.certificate.read_bytes())
        await made.clock.advance(1)

        assert (await made.review(after))[0] == 200
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await made.review(before)
        if session is not None:
            assert await asyncio.to_thread(_resumed, made.server.port, context, session) in {
                b"",
                b"HTTP/1.1 403",
            }


async def _session(made: Webhook, context: ssl.SSLContext) -> ssl.SSLSession | None:
    """A session of a client whose review was answered."""

    def ask() -> ssl.SSLSession | None:
        with (
            _blocking(made.server.port) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(request_bytes("POST", "/gate", REVIEW, Content_Type="application/json"))
            assert secure.recv(12) == b"HTTP/1.1 200"
            return secure.session

    return await asyncio.to_thread(ask)


def _resumed(port: int, context: ssl.SSLContext, session: ssl.SSLSession) -> bytes:
    try:
        with (
            _blocking(port) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
        ):
            secure.sendall(request_bytes("POST", "/gate", REVIEW, Content_Type="application/json"))
            return secure.recv(12)
    except OSError:
        return b""


def _blocking(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


async def test_an_authority_that_cannot_be_read_leaves_the_one_before_in_use(
    tmp_path, trusted, caplog
):
    client = trusted.client(API_SERVER)
    async with webhook(tmp_path, trusted) as made:
        for broken in ("rubbish", None):
            if broken is None:
                made.file.unlink()
            else:
                made.file.write_text(broken)
            await made.clock.advance(3)
            assert (await made.review(client))[0] == 200
        assert [each.fields["error"] for each in caplog.records if "clients" in each.message] == [
            "no CA certificates (PEM)",
            "No such file or directory",
        ]
        made.file.write_bytes(an_authority(tmp_path, "new").certificate.read_bytes())
        await made.clock.advance(1)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await made.review(client)


async def test_a_renewed_serving_certificate_keeps_the_authority_of_clients(tmp_path, trusted):
    async with webhook(tmp_path, trusted) as made:
        made.server.certificate.newest.renew()
        assert made.server.certificate.reload()

        assert (await made.review(trusted.client(API_SERVER)))[0] == 200
        assert await made.review(None) == (403, "a client certificate is required")


@pytest.mark.parametrize("content", ["", "rubbish", None])
def test_there_must_be_an_authority_at_the_start(tmp_path, content):
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)

    with pytest.raises((OSError, ValueError)):
        ClientAuthority(str(file), clock=VirtualClock())
