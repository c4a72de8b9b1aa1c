"""The decision which certificates are made anew, and which CAs stay trusted.

A new CA is published first: clients trust the old and the new one. Only after a while a pair that
the new CA signed is served. The old CA stays trusted until it has expired, and so has every
certificate that it signed, because none outlives its CA. The key of the old CA is not kept.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from bursar.core.certificates.facts import (
    BACKDATE,
    Authority,
    CaCertificate,
    CertificateSettings,
    ServingPair,
)


class Reason(Enum):
    """Why a certificate is made."""

    MISSING = "Missing"
    """There is no certificate, or it cannot be used."""
    EXPIRES = "Expires"
    """The certificate expires soon."""
    LIFETIME = "Lifetime"
    """The certificate lives longer than the settings allow."""
    NAMES = "Names"
    """The certificate lacks a name of a server."""
    UNTRUSTED = "Untrusted"
    """None of Bursar's CAs signed the certificate."""
    REQUESTED = "Requested"
    """An administrator asked for a new certificate."""
    NEW_CA = "NewCa"
    """An older CA signed the certificate, which signs no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityPlan:
    reason: Reason | None
    """Why a new CA is made; None if the signer stays."""
    retired: tuple[CaCertificate, ...]
    """The older CAs that stay trusted."""
    due: datetime
    """When to decide again, if nothing changes before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPlan:
    reason: Reason | None
    """Why a new pair is made; None if the present one stays for now."""
    due: datetime
    """When to decide again, if nothing changes before."""


def decide_authority(
    authority: Authority,
    now: datetime,
    settings: CertificateSettings,
    *,
    is_requested: bool = False,
) -> AuthorityPlan:
    """Whether a new CA is needed, or `is_requested`."""
    signer, life = authority.signer, settings.ca_lifetime
    trusted = authority.trusted(now)
    renewal = now if signer is None else signer.not_after - settings.ca_margin
    if signer is None:
        reason = Reason.MISSING
    elif renewal <= now:
        reason = Reason.EXPIRES
    elif signer.not_after - now > life + BACKDATE:
        reason = Reason.LIFETIME
    elif is_requested:
        reason = Reason.REQUESTED
    else:
        retired = tuple(each for each in trusted if each.pem != signer.pem)
        due = min((renewal, *(each.not_after for each in retired)))
        return AuthorityPlan(reason=None, retired=retired, due=due)
    return AuthorityPlan(reason=reason, retired=trusted, due=now)


def decide_pair(
    pair: ServingPair | None,
    authority: Authority,
    published_for: timedelta | None,
    now: datetime,
    settings: CertificateSettings,
    *,
    is_requested: bool = False,
) -> PairPlan:
    """Whether a new serving pair is signed now, because one is needed or `is_requested`.

    `published_for` is how long all clients could have learned of the signer; None if it is not
    published everywhere yet. There must be a signer.
    """
    signer = authority.signer
    assert signer is not None
    if pair is None or pair.not_after <= now:
        return PairPlan(reason=Reason.MISSING, due=now)
    if pair.issuer not in {each.pem for each in authority.trusted(now)}:
        return PairPlan(reason=Reason.UNTRUSTED, due=now)
    wish = Reason.REQUESTED if is_requested else None
    reason = _why_renewed(pair, signer, now, settings) or wish
    if reason is None:
        return PairPlan(reason=None, due=pair.not_after - settings.margin)
    urgent_at = pair.not_after - settings.urgent
    if pair.issuer == signer.pem or urgent_at <= now:
        return PairPlan(reason=reason, due=now)
    if published_for is None:
        return PairPlan(reason=None, due=urgent_at)
    if published_for < settings.settle:
        return PairPlan(reason=None, due=min(urgent_at, now + settings.settle - published_for))
    return PairPlan(reason=reason, due=now)


def _why_renewed(
    pair: ServingPair, signer: CaCertificate, now: datetime, settings: CertificateSettings
) -> Reason | None:
    if not pair.names.issuperset(settings.names):
        return Reason.NAMES
    if pair.issuer != signer.pem:
        return Reason.NEW_CA
    left = pair.not_after - now
    if left > settings.lifetime + BACKDATE:
        return Reason.LIFETIME
    # A signer that expires soon cannot sign for longer, so another pair would gain nothing.
    is_gain = end_of_pair(signer, now, settings) > pair.not_after
    return Reason.EXPIRES if left <= settings.margin and is_gain else None


def end_of_pair(signer: CaCertificate, now: datetime, settings: CertificateSettings) -> datetime:
    """When a pair that is signed now expires. It does not outlive its CA."""
    return min(now + settings.lifetime, signer.not_after)
