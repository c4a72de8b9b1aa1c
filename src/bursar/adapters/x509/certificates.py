"""Reads and makes certificates with the library `cryptography`.

The library costs several megabytes of memory, so only a controller that keeps certificates
imports this module.
"""

import ipaddress
import warnings
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID

from bursar.app.certificates.ports import KeyPair
from bursar.core.certificates.facts import CaCertificate, ServingPair

CA_NAME: Final = "bursar-ca"
SERVER_NAME: Final = "bursar"
PEM_BYTES_MAX: Final = 2**18
"""A longer file is not read. A Secret holds at most 1 MiB."""

_UNREADABLE: Final = (
    *(ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm),
    CryptographyDeprecationWarning,
    *(x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType),
    x509.InvalidVersion,
)
"""Errors that the library raises for certificates and keys that it cannot read."""
_NO_USAGE: Final = dict.fromkeys(
    (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ),
    False,
)


class Certificates:
    """`X509`: ECDSA keys on the curve P-256."""

    # ------------------------------------------------------------------ reading

    def authorities(self, pem: bytes) -> tuple[CaCertificate, ...]:
        return tuple(_ca(each) for each in _certificates(pem) if _is_ca(each))

    def signer(self, pair: KeyPair) -> CaCertificate | None:
        certificate = _certificate_of(pair)
        return None if certificate is None or not _is_ca(certificate) else _ca(certificate)

    def serving_pair(
        self, pair: KeyPair, authorities: Collection[CaCertificate]
    ) -> ServingPair | None:
        certificate = _certificate_of(pair)
        if certificate is None:
            return None
        signed = (each.pem for each in authorities if _has_signed(each.pem, certificate))
        return ServingPair(
            names=frozenset(_names(certificate)),
            not_after=certificate.not_valid_after_utc,
            issuer=next(signed, ""),
        )

    # ------------------------------------------------------------------ making

    def make_authority(self, not_before: datetime, not_after: datetime) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        serial = x509.random_serial_number()
        # Clients find the CA of a certificate by its name, so that each CA has its own.
        name = _name(f"{CA_NAME}-{serial:040x}"[:64])
        public = key.public_key()
        certificate = (
            _draft(name, name, public, serial, (not_before, not_after))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
            .sign(key, hashes.SHA256())
        )
        return _pair(certificate, key)

    def make_pair(
        self,
        signer: KeyPair,
        names: Collection[str],
        not_before: datetime,
        not_after: datetime,
    ) -> KeyPair:
        [issuer, *_] = x509.load_pem_x509_certificates(signer.certificate)
        issuer_key = _load_key(signer.key)
        key = ec.generate_private_key(ec.SECP256R1())
        serial, period = x509.random_serial_number(), (not_before, not_after)
        issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            _draft(_name(SERVER_NAME), issuer.subject, key.public_key(), serial, period)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature"), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
            .sign(issuer_key, hashes.SHA256())
        )
        return _pair(certificate, key)


# ------------------------------------------------------------------ reading


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a file; none if one of them cannot be read."""
    if len(pem) > PEM_BYTES_MAX:
        return []
    # The library only warns of a negative serial number, on standard error.
    with warnings.catch_warnings(), suppress(*_UNREADABLE):
        warnings.simplefilter("error", CryptographyDeprecationWarning)
        return x509.load_pem_x509_certificates(pem)
    return []


def _certificate_of(pair: KeyPair) -> x509.Certificate | None:
    """The first certificate, if the key is its private key."""
    found = _certificates(pair.certificate)
    if not found:
        return None
    with suppress(*_UNREADABLE):
        key = _load_key(pair.key)
        if _encoded(key.public_key()) == _encoded(found[0].public_key()):
            return found[0]
    return None


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises `ValueError` or `TypeError`, also for a key that is not elliptic."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an elliptic key")
    return key


def _encoded(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return b""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _is_ca(certificate: x509.Certificate) -> bool:
    with suppress(*_UNREADABLE):
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        return found.value.ca
    return False


def _ca(certificate: x509.Certificate) -> CaCertificate:
    return CaCertificate(
        pem=certificate.public_bytes(Encoding.PEM).decode("ascii"),
        not_after=certificate.not_valid_after_utc,
    )


def _has_signed(pem: str, certificate: x509.Certificate) -> bool:
    with suppress(*_UNREADABLE):
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pem.encode()))
        return True
    return False


def _names(certificate: x509.Certificate) -> list[str]:
    with suppress(*_UNREADABLE):
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = map(str, found.get_values_for_type(x509.IPAddress))
        return [*found.get_values_for_type(x509.DNSName), *addresses]
    return []


# ------------------------------------------------------------------ making


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    serial: int,
    period: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(period[0])
        .not_valid_after(period[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*used: str) -> x509.KeyUsage:
    return x509.KeyUsage(**_NO_USAGE | dict.fromkeys(used, True))


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate=certificate.public_bytes(Encoding.PEM),
        key=key.private_bytes(
            Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
