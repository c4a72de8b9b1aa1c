"""Certificates that are made are those that TLS clients accept, and garbage is not there."""

import base64
import ssl
from datetime import timedelta
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory_file import in_memory
from bursar.adapters.serving.tls.trial_handshake import try_handshake
from bursar.adapters.x509.certificates import PEM_BYTES_MAX, Certificates
from bursar.app.certificates.ports import KeyPair

NAMES = ("aaq-server.aaq.svc", "aaq-server.aaq", "127.0.0.1", "fd00::1")
NOW = SYSTEM_CLOCK.now().replace(microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@pytest.fixture(scope="module")
def ca(certificates) -> KeyPair:
    return certificates.make_authority(NOW - HOUR, NOW + 3 * HOUR)


@pytest.fixture(scope="module")
def pair(certificates, ca) -> KeyPair:
    return certificates.make_pair(ca, NAMES, NOW - HOUR, NOW + HOUR)


def server_of(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with in_memory(pair.certificate) as certificate, in_memory(pair.key) as key:
        context.load_cert_chain(certificate, key)
    return context


def test_a_ca_signs_and_does_nothing_else(certificates, ca):
    [made] = x509.load_pem_x509_certificates(ca.certificate)
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)

    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign) == (True, True)
    assert not usage.value.digital_signature
    assert made.public_key().curve.name == "secp256r1"
    made.verify_directly_issued_by(made)
    assert certificates.signer(ca).not_after == NOW + 3 * HOUR
    assert certificates.authorities(ca.certificate) == (certificates.signer(ca),)


def test_a_pair_serves_its_names_and_does_nothing_else(certificates, ca, pair):
    [made] = x509.load_pem_x509_certificates(pair.certificate)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    purposes = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value

    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert made.not_valid_before_utc == NOW - HOUR
    read = certificates.serving_pair(pair, certificates.authorities(ca.certificate))
    assert read.names == frozenset(NAMES)
    assert read.not_after == NOW + HOUR
    assert read.issuer == ca.certificate.decode()
    assert certificates.signer(pair) is None
    assert certificates.authorities(pair.certificate) == ()


def test_clients_accept_the_pair_by_its_ca_alone(certificates, ca, pair):
    other = certificates.make_authority(NOW - HOUR, NOW + HOUR)
    server = server_of(pair)

    both = (other.certificate + ca.certificate).decode()
    assert try_handshake(server, both) == NOW + HOUR
    with pytest.raises(ssl.SSLCertVerificationError):
        try_handshake(server, other.certificate.decode())


def test_every_ca_and_every_pair_is_another(certificates, ca):
    cas = [certificates.make_authority(NOW, NOW + HOUR) for _ in range(5)]
    made = [x509.load_pem_x509_certificate(each.certificate) for each in cas]
    pairs = [certificates.make_pair(ca, NAMES, NOW, NOW + HOUR) for _ in range(5)]
    serials = {x509.load_pem_x509_certificate(each.certificate).serial_number for each in pairs}

    assert len({each.subject for each in made}) == 5
    assert len(serials | {each.serial_number for each in made}) == 10
    assert len({each.key for each in (*cas, *pairs)}) == 10


def test_a_key_is_not_shown(ca):
    assert "PRIVATE" not in repr(ca)


def test_a_certificate_without_its_key_is_not_there(certificates, ca, pair):
    other = certificates.make_authority(NOW, NOW + HOUR)

    for key in (other.key, b"", b"garbage", pair.certificate):
        assert certificates.signer(KeyPair(certificate=ca.certificate, key=key)) is None
        assert certificates.serving_pair(KeyPair(certificate=pair.certificate, key=key), ()) is None


def test_keys_of_other_kinds_are_not_there(certificates, ca):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )

    assert certificates.signer(KeyPair(certificate=ca.certificate, key=encoded)) is None


@pytest.mark.parametrize("pem", [b"", b"garbage", b"x" * (PEM_BYTES_MAX + 1)])
def test_garbage_holds_no_ca(certificates, ca, pem):
    assert certificates.authorities(pem) == ()
    assert certificates.signer(KeyPair(certificate=pem, key=ca.key)) is None


def test_damaged_certificates_are_never_an_error(certificates, ca, pair):
    """Every byte of a certificate may be wrong. It is then read differently, or not at all."""
    random = Random(1)  # noqa: S311 - the same damage in every run
    known = certificates.authorities(ca.certificate)
    for source in (ca, pair):
        der = bytearray(
            x509.load_pem_x509_certificate(source.certificate).public_bytes(
                serialization.Encoding.DER
            )
        )
        for _ in range(1500):
            damaged = bytearray(der)
            damaged[random.randrange(len(der))] = random.randrange(256)
            text = base64.encodebytes(bytes(damaged))
            pem = b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"
            certificates.authorities(pem)
            certificates.signer(KeyPair(certificate=pem, key=source.key))
            read = certificates.serving_pair(KeyPair(certificate=pem, key=source.key), known)
            if damaged != der and read is not None:
                assert read.issuer == ""
