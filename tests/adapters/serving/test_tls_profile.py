"""TLS versions and suites as upstream is told of them, and on real connections."""

import asyncio
import re
import ssl
from pathlib import Path

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.profile import SUITES, TlsProfile, tls_profile
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from certificates import Authority
from support.builders.reviews import put_pair

GCM, CBC = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"
T12, T13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("version", "suites", "least", "count"),
    [
        pytest.param("", "", None, 0, id="T1 both empty"),
        pytest.param("VersionTLS12", "", T12, 0, id="T2 1.2"),
        pytest.param("VersionTLS13", "", T13, 0, id="T3 1.3"),
        pytest.param("VersionTLS12", f"{GCM},{CBC}", T12, 2, id="T7 two suites"),
        pytest.param("", GCM, T12, 1, id="T10 no version and one suite"),
        pytest.param("VersionTLS12", f" {GCM} , {CBC} ", T12, 2, id="T11 suites with spaces"),
        pytest.param("VersionTLS12", f",{GCM},,", T12, 1, id="T12 empty suites"),
        pytest.param("  VersionTLS12 ", "", T12, 0, id="T13 version with spaces"),
        pytest.param("", "TLS_AES_128_GCM_SHA256", T12, 0, id="a suite of 1.3 has no effect"),
        pytest.param("", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", T12, 1, id="a legacy name"),
    ],
)
def test_tls_settings_are_parsed_as_upstream_parses_them(version, suites, least, count):
    profile = tls_profile(version, suites)

    assert (profile.least, len(profile.suites)) == (least, count)


@pytest.mark.parametrize(
    ("version", "suites", "complaint"),
    [
        pytest.param("VersionTLS10", "", "TLS 1.0 and 1.1 are not supported", id="T4 1.0"),
        pytest.param("VersionTLS11", "", "TLS 1.0 and 1.1 are not supported", id="T5 1.1"),
        pytest.param("VersionTLS99", "", 'invalid minVersion "VersionTLS99"', id="T6 unknown"),
        pytest.param("VersionTLS12", "X", "invalid cipherSuites: Cipher suite X", id="T8 bad"),
        pytest.param("VersionTLS13", GCM, "may not be specified when minVersion is", id="T9"),
        pytest.param("", "TLS_RSA_WITH_RC4_128_SHA", "not supported", id="gone from OpenSSL"),
    ],
)
def test_invalid_tls_settings_are_refused_with_upstreams_message(version, suites, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        tls_profile(version, suites)


def test_openssl_has_every_suite():
    for name in SUITES:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        profile = tls_profile("", name)
        profile.apply(context)

        assert set(profile.suites) < {each["name"] for each in context.get_ciphers()}


async def shaken(folder: Path, profile: TlsProfile, most: ssl.TLSVersion) -> tuple[str, str]:
    """Version and suite of a connection, after the certificate was replaced."""
    authority = Authority(folder)
    put_pair(folder, authority.server("webhook"))
    certificate = ServingCertificate(str(folder), clock=SYSTEM_CLOCK, profile=profile)
    server = HttpServer({}, clock=SYSTEM_CLOCK)
    port = await server.start("127.0.0.1", 0, await certificate.wait_for_context())
    put_pair(folder, authority.server("webhook"))
    certificate.reload()
    trust = ssl.create_default_context(cafile=str(authority.certificate))
    trust.maximum_version = most
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        connection = writer.get_extra_info("ssl_object")
        found = connection.version(), connection.cipher()[0]
        writer.close()
        await writer.wait_closed()
        return found
    finally:
        await server.stop()


async def test_minimum_version_and_suites_apply_after_a_reload(tmp_path):
    only = tls_profile("", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256")

    assert await shaken(tmp_path, only, T12) == ("TLSv1.2", "ECDHE-ECDSA-AES128-SHA256")
    assert (await shaken(tmp_path, tls_profile("VersionTLS13", ""), T13))[0] == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await shaken(tmp_path, tls_profile("VersionTLS13", ""), T12)
