"""What is known of certificates: CA certificates, the serving pair, and how long each may live."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

DAY: Final = timedelta(days=1)
LIFETIME_MAX: Final = 3650 * DAY
BACKDATE: Final = timedelta(minutes=5)
"""How long before its making a certificate is valid already, for clients whose clock is late."""
SETTLE_MAX: Final = timedelta(minutes=1)
"""How long API servers and webhooks may take at most to learn of a new CA."""
SETTLE_PART: Final = 10
"""Certificates of short life have less time: this part of the life."""
RENEW_PART: Final = 3
"""A certificate is renewed when this part of its life is left."""
URGENT_PART: Final = 6
"""When this part is left, a pair is renewed even if some client may not know the CA yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Raises `ValueError` for lifetimes that do not fit each other."""

    names: tuple[str, ...]
    """DNS names and IP addresses of the servers."""
    lifetime: timedelta = 30 * DAY
    """Life of the serving certificate. A third of it, ten days, is how long a webhook can be
    without an API server before its certificate expires; a stolen key is useless after all of
    it."""
    ca_lifetime: timedelta = 365 * DAY
    renew_before: timedelta | None = None
    """How long before its end a pair is renewed. None: when a third of its life is left."""
    ca_renew_before: timedelta | None = None
    """The same for the CA."""

    def __post_init__(self) -> None:
        if self.lifetime < timedelta(seconds=1):
            raise ValueError("a certificate must live for a second or longer")
        if self.ca_lifetime > LIFETIME_MAX:
            raise ValueError(f"a CA must not live for more than {LIFETIME_MAX.days} days")
        for margin, life in (
            (self.renew_before, self.lifetime),
            (self.ca_renew_before, self.ca_lifetime),
        ):
            if margin is not None and not timedelta(0) < margin < life:
                raise ValueError("a certificate must be renewed within its life")
        if self.ca_renew_before is None and self.ca_lifetime < RENEW_PART * self.lifetime:
            raise ValueError(
                f"a CA must live at least {RENEW_PART} times as long as the certificates it signs"
            )
        if self.ca_lifetime - self.ca_margin < self.margin:
            raise ValueError("a CA must sign for longer than its certificates are renewed ahead")

    @property
    def margin(self) -> timedelta:
        """How long before its end a pair is renewed."""
        return self.renew_before or self.lifetime // RENEW_PART

    @property
    def ca_margin(self) -> timedelta:
        """How long before its end the CA is renewed."""
        return self.ca_renew_before or self.ca_lifetime // RENEW_PART

    @property
    def urgent(self) -> timedelta:
        """How long before its end a pair is renewed even if some client may not know the CA."""
        return min(self.lifetime // URGENT_PART, self.margin // 2)

    @property
    def settle(self) -> timedelta:
        """How long a new CA is published before a certificate signed by it is served."""
        return min(SETTLE_MAX, self.lifetime // SETTLE_PART)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaCertificate:
    pem: str
    """The certificate in PEM; it identifies the CA."""
    not_after: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The CAs that Bursar vouches for."""

    signer: CaCertificate | None
    """The CA whose key Bursar has; None if there is none, or certificate and key do not fit."""
    retired: tuple[CaCertificate, ...] = ()
    """CAs that sign no more. Certificates that they signed may still be valid."""

    def trusted(self, now: datetime) -> tuple[CaCertificate, ...]:
        """The CAs that clients should trust: the signer first, each once, none that expired."""
        every = (*(() if self.signer is None else (self.signer,)), *self.retired)
        by_pem = {each.pem: each for each in every if each.not_after > now}
        return tuple(by_pem.values())

    def bundle(self, now: datetime) -> str:
        """`trusted` as a file of PEM certificates."""
        return "".join(each.pem for each in self.trusted(now))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPair:
    """A certificate whose private key is at hand."""

    names: frozenset[str]
    """DNS names and IP addresses."""
    not_after: datetime
    issuer: str
    """The PEM of the CA that signed it; empty if none of the known CAs did."""
