import asyncio
import base64
import contextlib
import os
import ssl

import pytest
from cryptography.hazmat.primitives import serialization

from bursar.adapters.client_auth.config_error import ConfigError
from certificates import Authority
from support.builders.kubeconfigs import HandClock, a_config, loaded, write


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


def data(path):
    return base64.b64encode(path.read_bytes()).decode()


def files(pair):
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def copies(pair, folder):
    """Replace a certificate and its key."""
    for source, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
        new = folder / f"{name}.new"
        new.write_bytes(source.read_bytes())
        new.replace(folder / name)
    return {"client-certificate": str(folder / "tls.crt"), "client-key": str(folder / "tls.key")}


@contextlib.asynccontextmanager
async def tls_server(authority, pair=None):
    """Sends every client the common name of its certificate."""
    pair = pair or authority.server("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(authority.certificate)

    async def answer(_reader, writer):
        subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
        writer.write(dict(part[0] for part in subject).get("commonName", "nobody").encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def name_seen(access, port, server_name="localhost"):
    await access.credentials.headers()
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=access.ssl_context, server_hostname=server_name
    )
    seen = await reader.read()
    writer.close()
    return seen.decode()


async def test_a_certificate_in_files_or_as_data_is_presented(tmp_path, authority):
    pair = authority.client("joe")
    trusted = {"certificate-authority-data": data(authority.certificate)}
    as_data = {"client-certificate-data": data(pair.certificate), "client-key-data": data(pair.key)}
    accesses = [
        loaded([write(tmp_path / "config", a_config(trusted, user))])
        for user in (files(pair), as_data, {})
    ]

    async with tls_server(authority) as port:
        seen = [await name_seen(access, port) for access in accesses]

    assert seen == ["joe", "joe", "nobody"]


async def test_data_wins_over_files(tmp_path, authority):
    pair = authority.client("data-first")
    cluster = {
        "certificate-authority": "/none",
        "certificate-authority-data": data(authority.certificate),
    }
    user = {
        "client-certificate": "/none",
        "client-certificate-data": data(pair.certificate),
        "client-key": "/none",
        "client-key-data": data(pair.key),
    }
    access = loaded([write(tmp_path / "config", a_config(cluster, user))])

    async with tls_server(authority) as port:
        assert await name_seen(access, port) == "data-first"


async def test_a_server_of_another_authority_is_refused(tmp_path, authority):
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    trusted = {"certificate-authority": str(other.certificate)}
    access = loaded([write(tmp_path / "config", a_config(trusted))])

    async with tls_server(authority) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await name_seen(access, port)


async def test_a_server_of_another_name_is_refused(tmp_path, authority):
    trusted = {"certificate-authority": str(authority.certificate)}
    access = loaded([write(tmp_path / "config", a_config(trusted))])

    async with tls_server(authority) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await name_seen(access, port, "example.org")


async def test_certificates_that_change_on_disk_are_used_on_new_connections(tmp_path, authority):
    clock = HandClock()
    user = copies(authority.client("first"), tmp_path)
    trusted = {"certificate-authority": str(authority.certificate)}
    access = loaded([write(tmp_path / "config", a_config(trusted, user))], clock=clock)
    old = access.ssl_context

    async with tls_server(authority) as port:
        seen = [await name_seen(access, port)]
        copies(authority.client("second"), tmp_path)
        seen.append(await name_seen(access, port))
        clock.seconds += 10
        seen.append(await name_seen(access, port))

    assert seen == ["first", "first", "second"]
    assert access.ssl_context is not old


async def test_an_unchanged_certificate_keeps_its_connections(tmp_path, authority):
    clock = HandClock()
    user = copies(authority.client("same"), tmp_path)
    access = loaded([write(tmp_path / "config", a_config({}, user))], clock=clock)
    context = access.ssl_context

    clock.seconds += 1000
    await access.credentials.headers()

    assert access.ssl_context is context


async def test_a_half_written_rotation_keeps_the_old_certificate(tmp_path, authority):
    clock = HandClock()
    user = copies(authority.client("whole"), tmp_path)
    access = loaded([write(tmp_path / "config", a_config({}, user))], clock=clock)
    context = access.ssl_context
    new = authority.client("half")
    (tmp_path / "tls.crt").write_bytes(new.certificate.read_bytes())

    clock.seconds += 10
    await access.credentials.headers()
    during = access.ssl_context
    (tmp_path / "tls.key").write_bytes(new.key.read_bytes())
    clock.seconds += 10
    await access.credentials.headers()

    assert during is context
    assert access.ssl_context is not context


async def test_an_authority_that_changes_on_disk_is_trusted(tmp_path, authority):
    clock = HandClock()
    bundle = tmp_path / "ca.crt"
    (tmp_path / "old").mkdir()
    bundle.write_bytes(Authority(tmp_path / "old").certificate.read_bytes())
    trusted = {"certificate-authority": str(bundle)}
    access = loaded([write(tmp_path / "config", a_config(trusted))], clock=clock)
    bundle.write_bytes(authority.certificate.read_bytes())
    clock.seconds += 10

    async with tls_server(authority) as port:
        assert await name_seen(access, port) == "nobody"


async def test_an_authority_with_a_comment_in_any_language_is_trusted(tmp_path, authority):
    commented = tmp_path / "commented.crt"
    commented.write_text(f"# für Köln\n{authority.certificate.read_text()}", encoding="utf-8")
    cluster = {"certificate-authority": str(commented)}
    access = loaded([write(tmp_path / "config", a_config(cluster))])

    async with tls_server(authority) as port:
        assert await name_seen(access, port) == "nobody"


async def test_a_server_certificate_itself_can_be_trusted(tmp_path, authority):
    """Go trusts any given certificate; OpenSSL needs the flag PARTIAL_CHAIN for it."""
    pair = authority.server("pinned")
    trusted = {"certificate-authority": str(pair.certificate)}
    access = loaded([write(tmp_path / "config", a_config(trusted))])

    async with tls_server(authority, pair) as port:
        assert await name_seen(access, port) == "nobody"


# ------------------------------------------------------------------ bad certificates


def complaint(tmp_path, user):
    with pytest.raises(ConfigError) as caught:
        loaded([write(tmp_path / "config", a_config(user=user))])
    return str(caught.value).removeprefix(f"{tmp_path}/config: users[0].user.")


def test_a_key_that_does_not_fit_is_refused(tmp_path, authority):
    user = files(authority.client("one")) | {"client-key": str(authority.client("two").key)}

    assert complaint(tmp_path, user) == "client-key: does not fit the client certificate"


def test_an_encrypted_key_is_refused_without_asking_for_a_password(tmp_path, authority):
    pair = authority.client("encrypted")
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hunter2"),
        )
    )
    user = files(pair) | {"client-key": str(encrypted)}

    assert complaint(tmp_path, user) == "client-key: the key is encrypted; use one that is not"


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("client-certificate", "hello", "client-certificate: no PEM certificate in it"),
        ("client-key", "hello", "client-key: no PEM private key in it"),
        (
            "client-certificate",
            "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n",
            "client-certificate: certificate or key cannot be read",
        ),
    ],
)
def test_a_file_without_pem_is_refused(tmp_path, authority, key, text, problem):
    (tmp_path / "bad").write_text(text)
    user = files(authority.client("bad")) | {key: str(tmp_path / "bad")}

    assert complaint(tmp_path, user) == problem


def test_keys_given_as_data_leave_no_file_open(tmp_path, authority):
    pair = authority.client("gone")
    user = {"client-certificate-data": data(pair.certificate), "client-key-data": data(pair.key)}
    path = write(tmp_path / "config", a_config(user=user))
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - descriptors, not paths

    loaded([path])

    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208 - descriptors, not paths
