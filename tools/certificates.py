"""Certificates for a control plane on loopback: an authority, and whom it vouches for."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

LIFETIME = timedelta(days=7)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; its own is `ca.crt` in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-test-ca")])
        self.certificate = folder / "ca.crt"
        signed = (
            _draft(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_signing_only(), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, *reached_at: str) -> Pair:
        """A certificate for a server on this machine's loopback, and at further addresses."""
        names = [x509.DNSName(host) for host in SERVER_NAMES]
        addresses = [ipaddress.ip_address(text) for text in ("127.0.0.1", *reached_at)]
        san = x509.SubjectAlternativeName([*names, *(x509.IPAddress(a) for a in addresses)])
        return self._issue(name, (), ExtendedKeyUsageOID.SERVER_AUTH, san)

    def client(self, user: str, *groups: str) -> Pair:
        """A certificate that the API server takes for a user in groups."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def client_with_names(self, user: str, names: bytes) -> Pair:
        """A client certificate whose alternative names are these bytes, valid or not."""
        san = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names)
        return self._issue(user, (), ExtendedKeyUsageOID.CLIENT_AUTH, san)

    def _issue(
        self,
        common_name: str,
        groups: tuple[str, ...],
        usage: x509.ObjectIdentifier,
        san: x509.SubjectAlternativeName | x509.UnrecognizedExtension | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        draft = _draft(x509.Name(attributes), self._name, key.public_key())
        draft = draft.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        draft = draft.add_extension(signer, critical=False)
        if san is not None:
            draft = draft.add_extension(san, critical=False)
        stem = common_name.replace(":", "-")
        pair = Pair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        signed = draft.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def service_account_key(folder: Path) -> Path:
    """The key that signs service-account tokens; the API server checks with the same file."""
    path = folder / "service-account.key"
    _write_key(path, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return path


def _signing_only() -> x509.KeyUsage:
    """Python since 3.13 wants to be told that an authority may sign."""
    others = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **dict.fromkeys(others, False))


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    # A clock that is a little behind must not make a new certificate invalid.
    now = datetime.now(UTC) - timedelta(minutes=5)  # noqa: TID251 - certificates need the clock
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + LIFETIME)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
