"""The controller on the embedded cluster: terms, the Lease, and what a term leaves behind."""

import asyncio
import json

import pytest

from bursar.adapters.memory.manifests import load_manifests
from bursar.app.cluster.kinds import CRDS, EVENTS, LEASES, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import Key, NotFoundError, Patch, PatchKind
from bursar.app.counting.feeds import Counting
from bursar.app.names import ADDRESS_ANNOTATION
from bursar.core.counting.counters import Counters
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.core.quota.targeting import GATING_LABEL
from support.builders.manifests import arq_manifest, pod_manifest

TEXT = "exceeded quota: limits, requested: pods=1, used: pods=1, limited: pods=1; missing: pods=1"
LEASE = Key("aaq", "aaq-controller")


def quota(name="limits", **hard):
    return arq_manifest(f"team/{name}", hard)


def pod(name, *gates):
    return pod_manifest(f"team/{name}", GATE, *gates)


async def holder(cluster):
    return json.loads(await cluster.get(LEASES, LEASE))["spec"]["holderIdentity"]


async def test_the_first_leader_starts_at_once_and_says_where_it_is(scene, caplog):
    caplog.set_level("INFO")
    await load_manifests(scene.cluster, [quota(pods="2"), *(pod(f"p{each}") for each in range(5))])

    async with scene.started(address="https://10.0.0.1:8443") as controller:
        await scene.moment(1)

        assert await scene.released() == ["p0", "p1"]
        lease = json.loads(await scene.cluster.get(LEASES, LEASE))
        assert lease["metadata"]["annotations"] == {ADDRESS_ANNOTATION: "https://10.0.0.1:8443"}
        assert controller.resize_service is not None
        assert caplog.messages[0] == "leading as the holder of the Lease"
        assert caplog.records[0].fields == {"identity": "one"}
        assert len(controller.synced) == 1
    assert controller.term is None
    assert controller.resize_service is None
    assert await holder(scene.cluster) == ""


async def test_the_lease_goes_with_the_account_of_the_controller(scene):
    account = {"metadata": {"name": "aaq-controller"}}
    await scene.cluster.create(SERVICE_ACCOUNTS, account, namespace=LEASE.namespace)
    async with scene.started():
        await scene.moment(1)
        lease = json.loads(await scene.cluster.get(LEASES, LEASE))
        (owner,) = lease["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("ServiceAccount", "aaq-controller")

    await scene.cluster.delete(SERVICE_ACCOUNTS, LEASE)
    await scene.moment(1)
    with pytest.raises(NotFoundError):
        await scene.cluster.get(LEASES, LEASE)


async def test_a_successor_waits_out_what_its_predecessor_may_have_sent(scene):
    async with scene.started("one"):
        await scene.moment(1)
    await load_manifests(scene.cluster, [quota(pods="1"), pod("p")])

    async with scene.started("two") as controller:
        await scene.moment(controller.settings.timing.stop_seconds - 0.1)
        assert await holder(scene.cluster) == "two"
        assert await scene.released() == []
        await scene.moment(1)
        assert await scene.released() == ["p"]


async def test_quotas_that_cannot_be_read_are_logged(scene, caplog):
    async with scene.started():
        await scene.moment(1)
        for name in ("a", "b", "c"):
            await load_manifests(scene.cluster, [quota(name, pods="many")])
        await scene.moment(1)

        warnings = [each for each in caplog.records if each.levelname == "WARNING"]
        assert [each.message for each in warnings] == ["a quota is not in force"] * 3
        fields = warnings[0].fields
        assert str(fields["quota"]) == "ApplicationAwareResourceQuota team/a"
        assert "spec.hard[pods]" in fields["error"]


async def test_only_one_of_two_works(scene):
    async with scene.started("one") as one, scene.started("two") as two:
        await scene.moment(5)
        assert [controller.term is not None for controller in (one, two)] == [True, False]


async def test_every_waiting_pod_gets_one_event_with_the_numbers(scene):
    await load_manifests(scene.cluster, [quota(pods="1"), *(pod(f"p{each}") for each in range(3))])

    async with scene.started():
        await scene.moment(60)

    events = [json.loads(body) for body in (await scene.cluster.list(EVENTS)).items]
    assert sorted(
        (event["regarding"]["name"], event["reason"], event["type"], event["note"])
        for event in events
    ) == [
        (
            name,
            "QuotaExceeded",
            "Warning",
            TEXT,
        )
        for name in ("p1", "p2")
    ]


async def test_pods_are_let_go_when_their_namespace_is_no_longer_selected(scene):
    await load_manifests(
        scene.cluster, [quota(pods="0"), pod("p"), pod("held", "example.com/other")]
    )

    async with scene.started() as controller:
        await scene.moment(1)
        assert await scene.released() == []
        unlabelled = Patch(
            kind=PatchKind.MERGE, body={"metadata": {"labels": {GATING_LABEL: None}}}
        )
        namespaces = controller.term.sources.books.namespaces.resource
        await scene.cluster.patch(namespaces, Key("", "team"), unlabelled)
        await scene.moment(1)
        assert await scene.released() == ["p"]
        assert controller.term.loop.counters.exempt == 1


async def test_drift_is_looked_for_and_is_nothing(scene):
    await load_manifests(scene.cluster, [quota(pods="2"), *(pod(f"p{each}") for each in range(5))])

    async with scene.started() as controller:
        await scene.moment(130)
        drift = controller.term.drift
        assert drift.counts == 2
        assert drift.latest.accounts == 0


async def test_kinds_that_are_not_installed_are_named_and_can_be_left_out(scene, caplog):
    caplog.set_level("INFO")
    for kind in ("cluster", "appliedcluster"):
        name = f"applicationaware{kind}resourcequotas.aaq.kubevirt.io"
        await scene.cluster.delete(CRDS, Key("", name))
    await load_manifests(scene.cluster, [quota(pods="1"), pod("p")])

    async with scene.started("whole"):
        await scene.moment(15)
        waiting = [each for each in caplog.records if each.msg == "waiting for the first list"]
        assert "applicationawareclusterresourcequotas" in str(waiting[0].fields["resource"])
        assert await scene.released() == []
    async with scene.started("partial", kinds=(QuotaKind.NAMESPACED,)):
        await scene.moment(15)
        assert await scene.released() == ["p"]


async def test_a_replica_is_ready_if_it_or_another_leads_with_complete_books(scene):
    async with scene.started("one") as first:
        assert first.readiness_problem == "no controller leads yet"
        await scene.moment(1)
        assert first.readiness_problem == ""

        async with scene.started("two") as second:
            assert second.readiness_problem == "no controller leads yet"
            await scene.moment(5)
            assert second.term is None
            assert second.readiness_problem == ""


async def test_a_leader_without_complete_books_is_not_ready(scene):
    stuck = asyncio.Event()

    class Slow:
        is_named_by_pods = True

        def feed(self, *_):
            return self

        async def wait_known(self):
            await stuck.wait()

        async def run(self, _):
            await stuck.wait()

    counting = Counting(counter=Counters(()), kinds=(Slow(),))
    async with scene.started(open_counting=lambda: counting) as controller:
        await scene.moment(1)
        assert controller.readiness_problem == "the books are not complete yet"

        stuck.set()
        await scene.moment(1)
        assert controller.readiness_problem == ""
