"""The ports to X.509: reading certificates, and making them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from bursar.core.certificates.facts import CaCertificate, ServingPair


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class CertificateReader(Protocol):
    """Reads PEM. Text that cannot be read counts as no certificate."""

    def authorities(self, pem: bytes) -> tuple[CaCertificate, ...]:
        """The CA certificates of a bundle."""

    def signer(self, pair: KeyPair) -> CaCertificate | None:
        """The CA certificate of a pair; None if it is not a CA's, or the key does not fit."""

    def serving_pair(
        self, pair: KeyPair, authorities: Collection[CaCertificate]
    ) -> ServingPair | None:
        """The facts of a pair for servers; None if it cannot be used, or the key does not fit."""


class CertificateMaker(Protocol):
    """Makes private keys and certificates."""

    def make_authority(self, not_before: datetime, not_after: datetime) -> KeyPair:
        """A new CA, which signs itself."""

    def make_pair(
        self,
        signer: KeyPair,
        names: Collection[str],
        not_before: datetime,
        not_after: datetime,
    ) -> KeyPair:
        """A pair for a server of these names, signed by a CA."""


class X509(CertificateReader, CertificateMaker, Protocol):
    """Both ports: one library implements them."""
