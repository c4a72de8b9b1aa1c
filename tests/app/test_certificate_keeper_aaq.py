"""Certificates in AAQ's Secrets: AAQ's annotations, its ConfigMap, and renewals that it allows."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bursar.app.certificates.aaq import (
    BUNDLE_KEY,
    LIVES,
    NOT_AFTER,
    NOT_BEFORE,
    go_duration,
    is_renewal_requested,
)
from bursar.app.certificates.aaq_names import BUNDLE, CA_SECRET, TLS_SECRET
from bursar.app.certificates.ports import KeyPair
from bursar.app.cluster.kinds import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import Key
from bursar.core.certificates.decision import Reason
from bursar.core.certificates.facts import CertificateSettings
from support.cluster.kept_certificates import HOME, SHORT, on_scene

CA, TLS, TRUST = (Key(HOME, name) for name in (CA_SECRET, TLS_SECRET, BUNDLE))
DAY = timedelta(days=1)
AAQ = CertificateSettings(
    names=SHORT.names,
    lifetime=DAY,
    ca_lifetime=2 * DAY,
    renew_before=DAY / 2,
    ca_renew_before=DAY,
)
SHORTER = replace(
    AAQ,
    lifetime=timedelta(minutes=5),
    ca_lifetime=timedelta(minutes=20),
    renew_before=timedelta(minutes=2),
    ca_renew_before=timedelta(minutes=5),
)


async def started(scene, settings=AAQ):
    keeper = scene.start(settings, tls_secret=TLS_SECRET, ca_secret=CA_SECRET, is_like_aaq=True)
    await scene.pass_time(seconds=10)
    return keeper


async def annotations(scene, key):
    return json.loads(await scene.cluster.get(SECRETS, key))["metadata"]["annotations"]


async def trusted(scene):
    return json.loads(await scene.cluster.get(CONFIG_MAPS, TRUST)).get("data", {})


async def request_renewal(scene, key):
    """What AAQ's tests do: move the end of a certificate to just after its beginning."""
    begin = datetime.fromisoformat((await annotations(scene, key))[NOT_BEFORE])
    moved = (begin + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await scene.write(SECRETS, key, {"metadata": {"annotations": {NOT_AFTER: moved}}})


@on_scene
async def test_both_secrets_and_the_config_map_are_as_aaq_has_them(scene):
    await started(scene)

    ca, pair = await scene.secret(CA), await scene.secret(TLS)
    assert ca["tls.crt"] == ca["ca.crt"]
    assert ca["tls.key"] == ca["ca.key"]
    assert await trusted(scene) == {BUNDLE_KEY: pair["ca.crt"].decode()}
    written = await annotations(scene, CA)
    assert json.loads(written[LIVES]) == {"lifetime": "48h0m0s", "refresh": "24h0m0s"}
    assert json.loads((await annotations(scene, TLS))[LIVES]) == {
        "lifetime": "24h0m0s",
        "refresh": "12h0m0s",
    }


@on_scene
async def test_everything_goes_with_the_account_of_the_controller(scene):
    account = {"metadata": {"name": "aaq-controller"}}
    await scene.cluster.create(SERVICE_ACCOUNTS, account, namespace=HOME)
    await started(scene)

    body = json.loads(await scene.cluster.get(CONFIG_MAPS, TRUST))
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ServiceAccount", "aaq-controller")


@on_scene
async def test_e_op_08_the_config_map_is_filled_again(scene):
    await started(scene)
    before = await trusted(scene)

    await scene.write(CONFIG_MAPS, TRUST, {"data": None})
    await scene.pass_time(seconds=5)
    assert await trusted(scene) == before

    await scene.cluster.delete(CONFIG_MAPS, TRUST)
    await scene.pass_time(seconds=5)
    assert await trusted(scene) == before


@on_scene
async def test_e_op_09_other_lives_rotate_both_and_are_annotated(scene):
    await started(scene)
    before = {key: (await annotations(scene, key))[NOT_AFTER] for key in (CA, TLS)}
    await scene.stop()

    await started(scene, SHORTER)
    await scene.pass_time(minutes=1)

    for key, minutes, lives in (
        (CA, 20, {"lifetime": "20m0s", "refresh": "15m0s"}),
        (TLS, 5, {"lifetime": "5m0s", "refresh": "3m0s"}),
    ):
        found = await annotations(scene, key)
        assert found[NOT_AFTER] != before[key]
        begin, end = (datetime.fromisoformat(found[name]) for name in (NOT_BEFORE, NOT_AFTER))
        assert end - begin == timedelta(minutes=minutes)
        assert json.loads(found[LIVES]) == lives


@on_scene
async def test_e_cert_01_an_end_in_the_past_renews_the_pair(scene):
    keeper = await started(scene)
    before = await scene.secret(TLS)
    await scene.pass_time(minutes=1)

    await request_renewal(scene, TLS)
    await scene.pass_time(seconds=5)

    after = await scene.secret(TLS)
    assert after["tls.crt"] != before["tls.crt"]
    assert after["tls.key"] != before["tls.key"]
    assert keeper.counters.pairs[Reason.REQUESTED] == 1
    assert keeper.counters.authorities.total() == 1
    # Once: the annotation is the new certificate's.
    await scene.pass_time(minutes=5)
    assert keeper.counters.pairs[Reason.REQUESTED] == 1
    end = datetime.fromisoformat((await annotations(scene, TLS))[NOT_AFTER])
    assert end > scene.clock.now()


@on_scene
async def test_e_cert_02_an_end_in_the_past_renews_the_ca_and_both_are_trusted(scene):
    keeper = await started(scene)
    ca, bundle = await scene.secret(CA), (await trusted(scene))[BUNDLE_KEY]
    await scene.pass_time(minutes=1)

    await request_renewal(scene, CA)
    await scene.pass_time(seconds=30)

    after = await scene.secret(CA)
    assert after["tls.crt"] != ca["tls.crt"]
    assert after["tls.key"] != ca["tls.key"]
    assert keeper.counters.authorities[Reason.REQUESTED] == 1
    now_trusted = (await trusted(scene))[BUNDLE_KEY]
    assert now_trusted != bundle
    assert bundle in now_trusted
    # The pair follows when clients have had time to learn of the new CA.
    await scene.pass_time(minutes=2)
    pair = await scene.secret(TLS)
    issued = scene.x509.serving_pair(scene_pair(pair), scene.x509.authorities(after["tls.crt"]))
    assert issued.issuer.encode() == after["tls.crt"]


def scene_pair(data):
    return KeyPair(certificate=data["tls.crt"], key=data["tls.key"])


@on_scene
async def test_annotations_that_somebody_removed_are_written_again(scene):
    keeper = await started(scene)
    before = await annotations(scene, TLS)

    gone = dict.fromkeys((NOT_BEFORE, NOT_AFTER, LIVES))
    await scene.write(SECRETS, TLS, {"metadata": {"annotations": {**gone, "mine": "stays"}}})
    await scene.pass_time(seconds=5)

    assert await annotations(scene, TLS) == {**before, "mine": "stays"}
    assert keeper.counters.pairs.total() == 1


@on_scene
async def test_without_aaqs_names_the_annotation_asks_for_nothing(scene):
    keeper = scene.start(AAQ)
    await scene.pass_time(seconds=10)
    past = {"metadata": {"annotations": {NOT_AFTER: "2020-01-01T00:00:00Z"}}}
    await scene.write(SECRETS, Key(HOME, "bursar-tls"), past)
    await scene.pass_time(seconds=30)

    assert keeper.counters.pairs.total() == 1
    assert base64.b64encode((await scene.secret(Key(HOME, "bursar-ca"))).get("tls.key", b"")) == b""


@pytest.mark.parametrize(
    ("text", "is_requested"),
    [
        ("", False),
        ("soon", False),
        ("2026-01-01T00:00:00", False),
        ("2026-01-01T00:00:00Z", True),
        ("2027-01-01T00:00:00Z", False),
    ],
)
def test_only_a_time_in_the_past_asks_for_a_renewal(text, is_requested):
    now = datetime(2026, 6, 1, tzinfo=UTC)

    assert is_renewal_requested({NOT_AFTER: text}, now) is is_requested


def test_durations_are_written_as_go_writes_them():
    assert go_duration(timedelta(seconds=30)) == "30s"
    assert go_duration(timedelta(hours=1, seconds=5)) == "1h0m5s"
