"""When certificates are made, renewed and trusted: tables, and years of rotation."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

import pytest

from bursar.core.certificates.decision import (
    Reason,
    decide_authority,
    decide_pair,
    end_of_pair,
)
from bursar.core.certificates.facts import (
    BACKDATE,
    DAY,
    Authority,
    CaCertificate,
    CertificateSettings,
    ServingPair,
)
from bursar.core.certificates.webhooks import Server, WebhookClient, outdated

T = TypeVar("T")
NOW = datetime(2027, 3, 1, tzinfo=UTC)
SETTINGS = CertificateSettings(names=("a.svc", "b.svc"))
"""Thirty days and a year."""
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def a_ca(name: str, left: timedelta) -> CaCertificate:
    return CaCertificate(pem=f"{name}\n", not_after=NOW + left)


def a_pair(issuer: CaCertificate, left: timedelta, *names: str) -> ServingPair:
    named = frozenset(names or SETTINGS.names)
    return ServingPair(names=named, not_after=NOW + left, issuer=issuer.pem)


OLD = a_ca("old", 100 * DAY)
NEW = a_ca("new", 365 * DAY)
GONE = a_ca("gone", -MINUTE)
BOTH = Authority(signer=NEW, retired=(OLD,))


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("lifetime", "ca_lifetime", "problem"),
    [
        (timedelta(milliseconds=999), DAY, "a second or longer"),
        (DAY, 3 * DAY - timedelta(seconds=1), "at least 3 times as long"),
        (DAY, 3651 * DAY, "more than 3650 days"),
    ],
)
def test_lifetimes_have_to_fit(lifetime, ca_lifetime, problem):
    with pytest.raises(ValueError, match=problem):
        CertificateSettings(names=(), lifetime=lifetime, ca_lifetime=ca_lifetime)


AAQ = CertificateSettings(
    names=SETTINGS.names,
    lifetime=DAY,
    ca_lifetime=2 * DAY,
    renew_before=12 * HOUR,
    ca_renew_before=DAY,
)
"""AAQ's lives of certificates."""


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ({"renew_before": 30 * DAY}, "renewed within its life"),
        ({"ca_renew_before": timedelta(0)}, "renewed within its life"),
        ({"renew_before": 20 * DAY, "ca_renew_before": 350 * DAY}, "must sign for longer"),
    ],
)
def test_renewals_have_to_fit(chosen, problem):
    with pytest.raises(ValueError, match=problem):
        CertificateSettings(names=(), **chosen)


def test_certificates_are_renewed_as_long_before_their_end_as_was_chosen():
    young, old = a_ca("young", DAY + MINUTE), a_ca("old", DAY)

    assert decide_authority(Authority(signer=young), NOW, AAQ).due == NOW + MINUTE
    assert decide_authority(Authority(signer=old), NOW, AAQ).reason is Reason.EXPIRES
    signer = a_ca("signer", 2 * DAY)
    known = Authority(signer=signer)
    fresh = decide_pair(a_pair(signer, 12 * HOUR + MINUTE), known, DAY, NOW, AAQ)
    assert (fresh.reason, fresh.due) == (None, NOW + MINUTE)
    assert decide_pair(a_pair(signer, 12 * HOUR), known, DAY, NOW, AAQ).reason is Reason.EXPIRES


def test_an_administrator_can_ask_for_new_ones():
    known = Authority(signer=a_ca("signer", 2 * DAY))
    pair = a_pair(known.signer, DAY)

    plan = decide_authority(known, NOW, AAQ, is_requested=True)
    assert (plan.reason, plan.retired) == (Reason.REQUESTED, (known.signer,))
    wish = decide_pair(pair, known, None, NOW, AAQ, is_requested=True)
    assert wish.reason is Reason.REQUESTED


def test_a_pair_that_is_renewed_late_is_urgent_after_half_of_the_time():
    late = replace(AAQ, renew_before=2 * HOUR)

    assert (AAQ.urgent, late.urgent) == (4 * HOUR, HOUR)


def test_a_new_ca_settles_for_a_minute_but_not_for_most_of_a_short_life():
    short = CertificateSettings(names=(), lifetime=20 * timedelta(seconds=1), ca_lifetime=DAY)

    assert SETTINGS.settle == MINUTE
    assert short.settle == timedelta(seconds=2)


# ------------------------------------------------------------------ the CA


@pytest.mark.parametrize(
    ("signer", "reason"),
    [
        (None, Reason.MISSING),
        (a_ca("ca", -MINUTE), Reason.EXPIRES),
        (a_ca("ca", 365 * DAY // 3), Reason.EXPIRES),
        (a_ca("ca", 365 * DAY // 3 + MINUTE), None),
        (a_ca("ca", 365 * DAY + BACKDATE), None),
        (a_ca("ca", 365 * DAY + 2 * BACKDATE), Reason.LIFETIME),
    ],
)
def test_when_a_new_ca_is_made(signer, reason):
    assert decide_authority(Authority(signer=signer), NOW, SETTINGS).reason is reason


def test_the_ca_before_stays_trusted_until_it_expires():
    signer = a_ca("signer", 100 * DAY)
    authority = Authority(signer=signer, retired=(OLD, GONE))

    plan = decide_authority(authority, NOW, SETTINGS)

    assert plan.reason is Reason.EXPIRES
    assert plan.retired == (signer, OLD)


def test_the_next_decision_is_at_the_renewal_or_when_an_old_ca_expires():
    alone = decide_authority(Authority(signer=NEW), NOW, SETTINGS)
    beside = decide_authority(Authority(signer=NEW, retired=(OLD, NEW)), NOW, SETTINGS)

    assert alone.due == NEW.not_after - SETTINGS.ca_lifetime // 3
    assert (beside.retired, beside.due) == ((OLD,), OLD.not_after)


def test_the_bundle_has_each_ca_once_and_none_that_expired():
    authority = Authority(signer=NEW, retired=(OLD, NEW, GONE))

    assert authority.bundle(NOW) == "new\nold\n"
    assert Authority(signer=None, retired=(OLD,)).bundle(NOW) == "old\n"


# ------------------------------------------------------------------ the pair


@pytest.mark.parametrize(
    ("pair", "published_for", "reason"),
    [
        (None, None, Reason.MISSING),
        (a_pair(NEW, timedelta()), None, Reason.MISSING),
        (a_pair(a_ca("stranger", DAY), 20 * DAY), None, Reason.UNTRUSTED),
        (a_pair(GONE, 20 * DAY), None, Reason.UNTRUSTED),
        (a_pair(NEW, 20 * DAY), None, None),
        (a_pair(NEW, 20 * DAY, "a.svc", "b.svc", "more.svc"), None, None),
        (a_pair(NEW, 20 * DAY, "a.svc"), None, Reason.NAMES),
        (a_pair(NEW, 10 * DAY), None, Reason.EXPIRES),
        (a_pair(NEW, 10 * DAY + MINUTE), None, None),
        (a_pair(NEW, 31 * DAY), None, Reason.LIFETIME),
        (a_pair(OLD, 20 * DAY), None, None),
        (a_pair(OLD, 20 * DAY), MINUTE - timedelta(seconds=1), None),
        (a_pair(OLD, 20 * DAY), MINUTE, Reason.NEW_CA),
        (a_pair(OLD, 20 * DAY, "a.svc"), MINUTE, Reason.NAMES),
        (a_pair(OLD, 5 * DAY + MINUTE), None, None),
        (a_pair(OLD, 5 * DAY), None, Reason.NEW_CA),
    ],
)
def test_when_a_new_pair_is_signed(pair, published_for, reason):
    assert decide_pair(pair, BOTH, published_for, NOW, SETTINGS).reason is reason


def test_a_ca_that_expires_soon_signs_no_second_pair_that_expires_as_soon():
    """Else a CA that cannot be renewed would sign a pair in each round."""
    signer = a_ca("ending", 8 * DAY)
    pair = a_pair(signer, 8 * DAY)

    assert end_of_pair(signer, NOW, SETTINGS) == signer.not_after
    assert decide_pair(pair, Authority(signer=signer), None, NOW, SETTINGS).reason is None


@pytest.mark.parametrize(
    ("pair", "published_for", "due"),
    [
        (a_pair(NEW, 20 * DAY), None, 10 * DAY),
        (a_pair(OLD, 20 * DAY), None, 15 * DAY),
        (a_pair(OLD, 20 * DAY), timedelta(seconds=20), timedelta(seconds=40)),
        (a_pair(OLD, 20 * DAY), MINUTE, timedelta()),
    ],
)
def test_when_the_pair_is_decided_about_again(pair, published_for, due):
    assert decide_pair(pair, BOTH, published_for, NOW, SETTINGS).due == NOW + due


# ------------------------------------------------------------------ webhooks


SERVER = Server(service=("aaq", "aaq-server"), names=("aaq-server.aaq.svc", "127.0.0.1"))


@pytest.mark.parametrize(
    ("client", "is_written"),
    [
        (WebhookClient(service=("aaq", "aaq-server")), True),
        (WebhookClient(service=("aaq", "aaq-server"), bundle=b"garbage"), True),
        (WebhookClient(service=("aaq", "aaq-server"), bundle=b"bundle"), False),
        (WebhookClient(service=("other", "aaq-server")), False),
        (WebhookClient(service=("aaq", "other")), False),
        (WebhookClient(host="127.0.0.1"), True),
        (WebhookClient(host="elsewhere.example.com"), False),
        (WebhookClient(), False),
    ],
)
def test_only_webhooks_of_our_server_get_our_bundle(client, is_written):
    other = WebhookClient(service=("aaq", "aaq-server"), bundle=b"bundle")

    assert outdated([other, client], SERVER, b"bundle") == ((1,) if is_written else ())


# ------------------------------------------------------------------ years of rotation


def newest(known: list[tuple[datetime, T]], moment: datetime) -> T:
    """What was known at that time; the first at least."""
    return next((each for since, each in reversed(known) if since <= moment), known[0][1])


@dataclass
class Client:
    """Trusts a bundle as it was some time ago."""

    lag: timedelta
    bundles: list[tuple[datetime, str]] = field(default_factory=list)

    def bundle(self, now: datetime) -> str:
        return newest(self.bundles, now - self.lag)


@dataclass
class Replica:
    """Serves the pair as it was some time ago."""

    lag: timedelta
    pairs: list[tuple[datetime, ServingPair]] = field(default_factory=list)

    def pair(self, now: datetime) -> ServingPair:
        return newest(self.pairs, now - self.lag)


class World:
    """A keeper that works now and then, and clients and servers that learn of it later."""

    def __init__(self, seed: int, settings: CertificateSettings | None = None) -> None:
        self.random = Random(seed)  # noqa: S311 - the same course for the same seed
        days = self.random.choice((1, 7, 30))
        self.settings = settings or CertificateSettings(
            names=SETTINGS.names,
            lifetime=days * DAY,
            ca_lifetime=days * DAY * self.random.choice((3, 5, 12)),
        )
        settle, left = self.settings.settle, self.settings.lifetime // 6
        lags = [settle * self.random.randrange(11) // 10 for _ in range(3)]
        self.clients = [Client(lag) for lag in lags]
        self.replicas = [Replica(left * self.random.randrange(10) // 10) for _ in range(3)]
        self.now = NOW
        self.authority = Authority(signer=None)
        self.pair: ServingPair | None = None
        self.published: tuple[str, datetime] | None = None
        self.made = 0
        self.signed = 0
        self.is_publishing = True

    def work(self) -> None:
        """What the leader does when it looks."""
        plan = decide_authority(self.authority, self.now, self.settings)
        if plan.reason is not None:
            self.made += 1
            made = CaCertificate(
                pem=f"ca-{self.made}\n", not_after=self.now + self.settings.ca_lifetime
            )
            self.authority = Authority(signer=made, retired=plan.retired)
        bundle, signer = self.authority.bundle(self.now), self.authority.signer
        assert signer is not None
        if self.is_publishing:
            for client in self.clients:
                if not client.bundles or client.bundles[-1][1] != bundle:
                    client.bundles.append((self.now, bundle))
            if self.published is None or self.published[0] != signer.pem:
                self.published = (signer.pem, self.now)
        is_known = self.published is not None and self.published[0] == signer.pem
        since = self.now - self.published[1] if self.published and is_known else None
        plan = decide_pair(self.pair, self.authority, since, self.now, self.settings)
        if plan.reason is not None:
            self.signed += 1
            end = end_of_pair(signer, self.now, self.settings)
            self.pair = ServingPair(
                names=frozenset(self.settings.names), not_after=end, issuer=signer.pem
            )
            for replica in self.replicas:
                replica.pairs.append((self.now, self.pair))

    def settle(self, times: int) -> None:
        for _ in range(times):
            self.now += self.settings.settle
            self.work()
            self.check()

    def check(self) -> None:
        """Every client can shake hands with every server."""
        for replica in self.replicas:
            pair = replica.pair(self.now)
            assert self.now < pair.not_after
            for client in self.clients:
                assert pair.issuer in client.bundle(self.now)


@pytest.mark.parametrize("settings", [None, AAQ])
@pytest.mark.parametrize("seed", range(12))
def test_no_handshake_fails_in_years_of_rotation(seed, settings):
    world = World(seed, settings)
    world.work()
    settle, life = world.settings.settle, world.settings.lifetime
    for _ in range(1500):
        pause = world.random.choice((settle // 3, life // 50, life // 20))
        for _ in range(2):
            world.now += pause // 2
            world.check()
        world.work()
        world.check()

    assert world.made > 2
    assert world.signed > world.made
    assert len(world.authority.trusted(world.now)) <= 2


def test_the_simulation_notices_a_ca_that_is_used_too_early():
    """It must: clients that learn of a CA late refuse a pair that is served at once."""
    world = World(1)
    world.clients = [Client(HOUR)]
    world.replicas = [Replica(timedelta())]
    world.work()
    signer = world.authority.signer
    world.now = signer.not_after - world.settings.ca_lifetime // 3 - MINUTE
    world.work()
    with pytest.raises(AssertionError):
        world.settle(10)


def test_if_a_ca_cannot_be_published_the_old_pair_is_served_as_long_as_it_may():
    world = World(2)
    world.work()
    first = world.pair
    world.is_publishing = False
    world.authority = replace(
        world.authority,
        signer=CaCertificate(pem="x", not_after=world.now + world.settings.ca_lifetime),
        retired=(world.authority.signer,),
    )
    left = world.settings.lifetime
    world.now = first.not_after - left // 6 - MINUTE
    world.work()
    assert world.pair is first

    world.now += 2 * MINUTE
    world.work()
    assert world.pair is not first
    assert world.pair.issuer == world.authority.signer.pem
