"""The keeper makes certificates, renews them, publishes its CA, and heals what others spoil."""

import asyncio
from datetime import timedelta

import pytest

from bursar.app.cluster.kinds import (
    MUTATING_WEBHOOKS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.ports import Key, UnavailableError
from bursar.core.certificates.decision import Reason
from support.cluster.kept_certificates import (
    CA,
    GATER,
    HOME,
    SERVICE,
    SHORT,
    TLS,
    VALIDATOR,
    Scene,
    on_scene,
)

MINUTE = timedelta(minutes=1)


async def started(scene: Scene):
    keeper = scene.start()
    await scene.pass_time(seconds=10)
    return keeper


# ------------------------------------------------------------------ the first start


@on_scene
async def test_a_ca_and_a_pair_are_made(scene):
    keeper = await started(scene)

    signer, pair = await scene.signer(), await scene.pair()
    assert pair.issuer == signer.pem
    assert pair.names == frozenset(SHORT.names)
    assert signer.not_after - pair.not_after == SHORT.ca_lifetime - SHORT.lifetime
    assert await scene.trusted() == (signer,)
    assert set(await scene.secret(TLS)) == {"tls.crt", "tls.key", "ca.crt"}
    assert keeper.counters.authorities == {Reason.MISSING: 1}
    assert keeper.counters.pairs == {Reason.MISSING: 1}
    assert keeper.not_after == {"ca": signer.not_after, "serving": pair.not_after}


@on_scene
async def test_both_secrets_go_with_the_account_of_the_controller(scene):
    account = {"metadata": {"name": "aaq-controller"}}
    await scene.cluster.create(SERVICE_ACCOUNTS, account, namespace=HOME)
    await started(scene)
    # One that is made again has the owner too.
    await scene.cluster.delete(SECRETS, TLS)
    await scene.pass_time(seconds=10)
    assert await scene.secret(TLS)
    await scene.stop()

    await scene.cluster.delete(SERVICE_ACCOUNTS, Key(HOME, "aaq-controller"))
    await scene.pass_time(seconds=10)

    assert await scene.secret(CA) == await scene.secret(TLS) == {}


@on_scene
async def test_nothing_is_written_without_the_lease(scene):
    scene.is_leader = False
    await started(scene)

    assert scene.line.writes == []


@on_scene
async def test_a_stored_certificate_is_kept_by_the_next_leader(scene):
    await started(scene)
    before = await scene.secret(CA), await scene.secret(TLS)
    await scene.stop()
    await started(scene)

    assert (await scene.secret(CA), await scene.secret(TLS)) == before


@on_scene
async def test_two_leaders_do_not_fight(scene):
    """Neither knows of the other: one of them was paused when it lost the Lease."""
    scene.start()
    scene.start()
    await scene.pass_time(minutes=5)
    written = len(scene.line.writes)
    before = await scene.secret(CA), await scene.secret(TLS)
    await scene.pass_time(minutes=20)

    assert len(scene.line.writes) == written
    assert (await scene.secret(CA), await scene.secret(TLS)) == before
    assert (await scene.pair()).issuer == (await scene.signer()).pem


# ------------------------------------------------------------------ rotation


@pytest.mark.slow
@on_scene
async def test_pair_and_ca_rotate_and_every_old_bundle_still_verifies(scene):
    """Clients know a bundle for as long as a new CA settles; no pair is unknown to them."""
    await scene.configure(MUTATING_WEBHOOKS, GATER, {"service": SERVICE})
    keeper = await started(scene)
    lag = SHORT.settle - timedelta(seconds=2)
    known: list[tuple[float, bytes]] = []
    signers, pairs, trusted_most = set(), set(), 0
    loop = asyncio.get_running_loop()
    for _ in range(60 * 60):
        [bundle] = await scene.bundles(MUTATING_WEBHOOKS, GATER)
        if not known or known[-1][1] != bundle:
            known.append((loop.time(), bundle))
        old = [text for since, text in known if since <= loop.time() - lag.total_seconds()]
        pair = await scene.pair()
        assert pair.not_after > scene.clock.now()
        assert pair.issuer in (old[-1] if old else known[0][1]).decode()
        signers.add((await scene.signer()).pem)
        pairs.add((await scene.secret(TLS))["tls.crt"])
        trusted_most = max(trusted_most, len(await scene.trusted()))
        await scene.pass_time(seconds=30)

    assert len(signers) > 2
    assert len(pairs) > 3 * len(signers)
    assert trusted_most == 2
    assert keeper.counters.pairs[Reason.NEW_CA] == len(signers) - 1
    assert keeper.counters.pairs[Reason.EXPIRES] > 0


@on_scene
async def test_an_old_ca_is_dropped_when_it_has_expired(scene):
    await started(scene)
    first = await scene.signer()
    await scene.pass_time(hours=9)
    assert first in await scene.trusted()
    assert await scene.signer() != first

    await scene.pass_time(hours=4)
    assert first not in await scene.trusted()


@on_scene
async def test_a_pair_of_a_ca_that_is_not_published_everywhere_is_not_served(scene):
    await scene.configure(MUTATING_WEBHOOKS, GATER, {"service": SERVICE})
    await started(scene)
    first = await scene.pair()
    await scene.pass_time(hours=1, minutes=30)
    assert await scene.pair() != first
    scene.line.refused = {MUTATING_WEBHOOKS}
    signer = await scene.signer()
    while await scene.signer() == signer:
        await scene.pass_time(minutes=1)
    await scene.pass_time(minutes=5)
    assert (await scene.pair()).issuer == signer.pem

    scene.line.refused = set()
    await scene.pass_time(minutes=5)
    assert (await scene.pair()).issuer == (await scene.signer()).pem


# ------------------------------------------------------------------ healing


@on_scene
async def test_a_deleted_pair_comes_back_signed_by_the_same_ca(scene):
    await started(scene)
    signer = await scene.signer()
    await scene.cluster.delete(SECRETS, TLS)
    await scene.pass_time(seconds=5)

    assert (await scene.pair()).issuer == signer.pem
    assert await scene.signer() == signer


@pytest.mark.parametrize("spoiled", [{"ca_key": b"x"}, {"ca_crt": b"x"}, None])
@on_scene
async def test_a_lost_ca_is_followed_by_one_that_clients_learn_of_first(scene, spoiled):
    await scene.configure(MUTATING_WEBHOOKS, GATER, {"service": SERVICE})
    await started(scene)
    first, pair = await scene.signer(), await scene.pair()
    if spoiled is None:
        await scene.cluster.delete(SECRETS, CA)
    else:
        await scene.write_secret(CA, **spoiled)
    await scene.pass_time(seconds=5)

    second = await scene.signer()
    assert second != first
    assert await scene.trusted() == (second, first)
    [bundle] = await scene.bundles(MUTATING_WEBHOOKS, GATER)
    assert bundle.decode() == second.pem + first.pem
    assert await scene.pair() == pair
    await scene.pass_time(minutes=2)
    assert (await scene.pair()).issuer == second.pem


@pytest.mark.parametrize(
    "spoiled", [{"tls_crt": b"x"}, {"tls_key": b""}, {"tls_crt": b"", "tls_key": b"x"}]
)
@on_scene
async def test_garbage_in_the_serving_secret_is_replaced(scene, spoiled):
    await started(scene)
    signer = await scene.signer()
    await scene.write_secret(TLS, **spoiled)
    await scene.pass_time(seconds=5)

    assert (await scene.pair()).issuer == signer.pem


@on_scene
async def test_a_pair_of_somebody_elses_ca_is_replaced_and_that_ca_never_trusted(scene):
    await started(scene)
    signer, x509, now = await scene.signer(), scene.x509, scene.clock.now()
    foreign = x509.make_authority(now - MINUTE, now + timedelta(days=9))
    stolen = x509.make_pair(foreign, SHORT.names, now - MINUTE, now + timedelta(hours=2))
    await scene.write_secret(
        TLS, tls_crt=stolen.certificate, tls_key=stolen.key, ca_crt=foreign.certificate
    )
    await scene.pass_time(seconds=5)

    assert (await scene.pair()).issuer == signer.pem
    assert await scene.trusted() == (signer,)


@on_scene
async def test_a_cas_list_that_others_changed_is_written_again(scene):
    keeper = await started(scene)
    await scene.write_secret(TLS, ca_crt=b"nothing")
    await scene.pass_time(seconds=5)

    assert await scene.trusted() == (await scene.signer(),)
    assert sum(keeper.counters.pairs.values()) == 1


@on_scene
async def test_writes_that_fail_are_tried_again(scene):
    scene.line.trouble = lambda: UnavailableError("away")
    scene.start()
    await scene.pass_time(minutes=3)
    assert await scene.pair() is None

    scene.line.trouble = lambda: None
    await scene.pass_time(minutes=1)
    assert (await scene.pair()).issuer == (await scene.signer()).pem


# ------------------------------------------------------------------ webhook configurations


@on_scene
async def test_only_webhooks_of_our_server_get_the_bundle(scene):
    url = {"url": f"https://{SHORT.names[0]}/x"}
    other = {"service": {**SERVICE, "name": "other"}, "caBundle": "b3RoZXI="}
    elsewhere = {"url": "https://elsewhere.example.com/x"}
    await scene.configure(
        VALIDATING_WEBHOOKS, VALIDATOR, {"service": SERVICE}, other, elsewhere, url
    )
    await scene.configure(MUTATING_WEBHOOKS, Key("", "somebodys"), {"service": SERVICE})
    await started(scene)

    ours = (await scene.secret(TLS))["ca.crt"]
    found = await scene.bundles(VALIDATING_WEBHOOKS, VALIDATOR)
    assert found == [ours, b"other", None, ours]
    assert await scene.bundles(MUTATING_WEBHOOKS, Key("", "somebodys")) == [None]


@on_scene
async def test_a_bundle_that_another_writer_removed_comes_back_and_nothing_else_changes(scene):
    await started(scene)
    await scene.configure(MUTATING_WEBHOOKS, GATER, {"service": SERVICE})
    await scene.pass_time(seconds=5)
    ours = (await scene.secret(TLS))["ca.crt"]
    assert await scene.bundles(MUTATING_WEBHOOKS, GATER) == [ours]

    hooks = [{"name": "hook-0.x", "clientConfig": {"service": SERVICE}, "timeoutSeconds": 7}]
    await scene.write(MUTATING_WEBHOOKS, GATER, {"webhooks": hooks})
    assert await scene.bundles(MUTATING_WEBHOOKS, GATER) == [None]
    await scene.pass_time(seconds=5)

    assert await scene.bundles(MUTATING_WEBHOOKS, GATER) == [ours]
    stored = await scene.cluster.get(MUTATING_WEBHOOKS, GATER)
    assert b'"timeoutSeconds":7' in stored
    assert HOME in stored.decode()
