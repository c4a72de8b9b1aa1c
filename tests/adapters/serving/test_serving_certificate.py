"""Certificates are replaced while requests are under way, and none of them notices."""

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.limits import ServerLimits
from bursar.adapters.serving.message import Response, Route, fixed
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from certificates import Authority, Pair, _draft, _write_key
from support.builders.reviews import put_pair, running
from support.http_peer import connected
from support.until import until

LIMITS = ServerLimits(linger_seconds=0.01)
ROUTES = {("GET", "/healthz"): Route(fixed(Response(b"OK")))}


@pytest.fixture(autouse=True)
def _every_level(caplog):
    caplog.set_level("INFO")


async def shown(port: int, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """Whose certificate a client is shown now that does not say which server it wants."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = version
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return x509.load_der_x509_certificate(der).subject.rfc4514_string()


def rsa_pair(folder, authority: Authority) -> Pair:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rsa")])
    signed = _draft(name, authority._name, key.public_key()).sign(authority._key, hashes.SHA256())
    pair = Pair(folder / "rsa.crt", folder / "rsa.key")
    pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    _write_key(pair.key, key)
    return pair


async def test_a_new_certificate_is_used_in_the_next_handshake(tmp_path, caplog):
    async with running(tmp_path, ROUTES, LIMITS) as server:
        assert await shown(server.port) == "CN=webhook"

        put_pair(tmp_path, Authority(tmp_path).server("second"))
        assert await shown(server.port) == "CN=webhook"
        server.certificate.reload()

        assert await shown(server.port) == "CN=second"
        assert caplog.messages == ["a certificate was read", "a new certificate"]


async def test_a_handshake_uses_the_certificate_of_its_beginning_not_of_the_connection(tmp_path):
    async with running(tmp_path, ROUTES, LIMITS) as server, connected(server.port) as early:
        await until(lambda: server.server._state.connections)
        put_pair(tmp_path, Authority(tmp_path).server("second"))
        server.certificate.reload()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        await early.writer.start_tls(tls)
        der = early.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

        assert x509.load_der_x509_certificate(der).subject.rfc4514_string() == "CN=second"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_with_another_type_of_key_replaces_the_old_one(tmp_path, version):
    """One TLS context holds a certificate for each type of key, and would go on showing both."""
    async with running(tmp_path, ROUTES, LIMITS) as server:
        put_pair(tmp_path, rsa_pair(tmp_path, Authority(tmp_path)))
        server.certificate.reload()
        assert await shown(server.port, version) == "CN=rsa"

        put_pair(tmp_path, Authority(tmp_path).server("elliptic"))
        server.certificate.reload()
        assert await shown(server.port, version) == "CN=elliptic"


def hello_to(name: bytes) -> bytes:
    """A ClientHello with a server name of any bytes, which Python's own client would refuse."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent, placeholder = ssl.MemoryBIO(), "a" * len(name)
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=placeholder)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read().replace(placeholder.encode(), name)


@contextlib.contextmanager
def printed_tracebacks() -> Iterator[list[object]]:
    """The exceptions that Python would print because it cannot raise them."""
    found: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, found.append
    try:
        yield found
    finally:
        sys.unraisablehook = before


async def test_a_server_name_that_is_not_ascii_prints_nothing(tmp_path, caplog):
    async with (
        running(tmp_path, ROUTES, LIMITS) as server,
        connected(server.port) as peer,
    ):
        with printed_tracebacks() as printed:
            await peer.send(hello_to(b"a name\nthat \xe4\xf6\xfc forges a line of the log"))
            await peer.reader.read(1)

        assert (printed, caplog.messages) == ([], ["a certificate was read"])
        assert await server.get("/healthz") == (200, "OK")


async def test_open_connections_outlive_their_certificate(tmp_path):
    async with running(tmp_path, ROUTES, LIMITS) as server:
        assert await server.get("/healthz") == (200, "OK")

        # Signed by somebody whom the client does not trust: a new handshake would fail.
        other = tmp_path / "other"
        other.mkdir()
        put_pair(tmp_path, Authority(other).server("stranger"))
        server.certificate.reload()

        assert await server.get("/healthz") == (200, "OK")
        assert await shown(server.port) == "CN=stranger"


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [b"", b"rubbish", None])
async def test_u_cm_05_an_invalid_certificate_is_reported_once_and_not_used(
    tmp_path, broken, content, caplog
):
    async with running(tmp_path, ROUTES, LIMITS) as server:
        if content is None:
            (tmp_path / broken).unlink()
        else:
            (tmp_path / broken).write_bytes(content)
        server.certificate.reload()
        server.certificate.reload()

        assert await shown(server.port) == "CN=webhook"
        assert len(caplog.messages) == 2
        assert caplog.records[1].fields["reason"] == "the one before stays in use"

        put_pair(tmp_path, Authority(tmp_path).server("mended"))
        server.certificate.reload()
        assert await shown(server.port) == "CN=mended"


async def test_a_certificate_is_not_used_without_its_key(tmp_path):
    """The two files of a folder that is no mounted Secret do not change at the same instant."""
    async with running(tmp_path, ROUTES, LIMITS) as server:
        second = Authority(tmp_path).server("second")
        (tmp_path / "tls.crt").write_bytes(second.certificate.read_bytes())
        server.certificate.reload()
        assert await shown(server.port) == "CN=webhook"

        (tmp_path / "tls.key").write_bytes(second.key.read_bytes())
        server.certificate.reload()
        assert await shown(server.port) == "CN=second"


async def test_an_encrypted_key_is_refused_without_asking_for_a_password(tmp_path, caplog):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    async with running(tmp_path, ROUTES, LIMITS) as server:
        (tmp_path / "tls.key").write_bytes(locked)
        server.certificate.reload()

        assert caplog.messages[-1] == "the certificate cannot be used"


async def test_u_cm_04_the_server_waits_for_its_first_certificate(tmp_path, caplog):
    clock = VirtualClock()
    certificate = ServingCertificate(str(tmp_path), clock=clock)
    waiting = asyncio.create_task(certificate.wait_for_context())
    await clock.advance(60)
    assert not waiting.done()

    put_pair(tmp_path, Authority(tmp_path).server("late"))
    await clock.advance(5)

    assert (await waiting)().minimum_version is ssl.TLSVersion.TLSv1_2
    *waited, _ = caplog.records
    assert caplog.messages[-1] == "a certificate was read"
    assert len(waited) > 5
    assert {each.message for each in waited} == {"the certificate cannot be used"}
    assert waited[-1].fields == {
        "reason": "waiting for one",
        "error": "no such file or directory",
        "path": str(tmp_path),
    }
    assert certificate.newest.invalid == 1


async def test_changed_files_are_reloaded(tmp_path, caplog):
    clock = VirtualClock()
    authority = Authority(tmp_path)
    put_pair(tmp_path, authority.server("first"))
    certificate = ServingCertificate(str(tmp_path), clock=clock)
    await certificate.wait_for_context()
    following = asyncio.create_task(certificate.watch())

    put_pair(tmp_path, authority.server("second"))
    await clock.advance(5)

    assert caplog.messages[-1] == "a new certificate"
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
