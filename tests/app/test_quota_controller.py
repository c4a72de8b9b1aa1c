"""The controller on the embedded cluster: terms, the Lease, and what a term leaves behind."""

import asyncio
import json
import random
from contextlib import asynccontextmanager

import pytest

from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.events.document import EVENTS
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key, Patch, PatchKind, Resource
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.names import ADDRESS_ANNOTATION
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.app.quota.sources import EVERY_KIND
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.core.quota.targeting import GATING_LABEL, Targeting
from support.builders.manifests import DEFINITIONS, arq_manifest, namespace_manifest, pod_manifest

TEXT = "exceeded quota: limits, requested: pods=1, used: pods=1, limited: pods=1; missing: pods=1"
LEASE = Key("aaq", "aaq-controller")
TARGETING = Targeting(own_namespace="aaq")


def quota(name="limits", **hard):
    return arq_manifest(f"team/{name}", hard)


def pod(name, *gates):
    return pod_manifest(f"team/{name}", GATE, *gates)


@pytest.fixture
async def world():
    clock = VirtualClock()
    cluster = MemoryCluster(clock, source=random.Random(5))  # noqa: S311 - repeatable
    await load_manifests(
        cluster,
        [
            *DEFINITIONS,
            namespace_manifest("aaq"),
            namespace_manifest("team", **{GATING_LABEL: ""}),
        ],
    )
    return cluster, clock


@asynccontextmanager
async def at_work(cluster, clock, identity="one", kinds=EVERY_KIND, **settings):
    luck = random.Random(identity)  # noqa: S311 - repeatable
    synced = []
    controller = Controller(
        cluster,
        clock,
        luck,
        settings=ControllerSettings(namespace="aaq", identity=identity, **settings),
        open_sources=lambda: term_sources(cluster, clock, luck, TARGETING, kinds),
        on_synced=lambda: synced.append(clock.now()),
    )
    controller.synced = synced
    working = asyncio.create_task(controller.run())
    controller.working = working
    try:
        yield controller
    finally:
        working.cancel()
        while not working.done():
            await clock.advance(1)
        assert working.cancelled()


async def let_go(cluster):
    pods = [json.loads(body) for body in (await cluster.list(PODS)).items]
    return sorted(pod["metadata"]["name"] for pod in pods if not pod["spec"].get("schedulingGates"))


async def holder(cluster):
    return json.loads(await cluster.get(LEASES, LEASE))["spec"]["holderIdentity"]


async def test_the_first_leader_starts_at_once_and_says_where_it_is(world, caplog):
    caplog.set_level("INFO")
    cluster, clock = world
    await load_manifests(cluster, [quota(pods="2"), *(pod(f"p{each}") for each in range(5))])

    async with at_work(cluster, clock, address="https://10.0.0.1:8443") as controller:
        await clock.advance(1)

        assert await let_go(cluster) == ["p0", "p1"]
        lease = json.loads(await cluster.get(LEASES, LEASE))
        assert lease["metadata"]["annotations"] == {ADDRESS_ANNOTATION: "https://10.0.0.1:8443"}
        assert controller.resize_service is not None
        assert caplog.messages[0] == "leading as the holder of the Lease"
        assert caplog.records[0].fields == {"identity": "one"}
        assert len(controller.synced) == 1
    assert controller.term is None
    assert controller.resize_service is None
    assert await holder(cluster) == ""


async def test_a_successor_waits_out_what_its_predecessor_may_have_sent(world):
    cluster, clock = world
    async with at_work(cluster, clock, "one"):
        await clock.advance(1)
    await load_manifests(cluster, [quota(pods="1"), pod("p")])

    async with at_work(cluster, clock, "two") as controller:
        await clock.advance(controller.settings.timing.stop_seconds - 0.1)
        assert await holder(cluster) == "two"
        assert await let_go(cluster) == []
        await clock.advance(1)
        assert await let_go(cluster) == ["p"]


async def test_objects_that_cannot_be_decoded_are_logged(world, caplog):
    cluster, clock = world
    async with at_work(cluster, clock):
        await clock.advance(1)
        for name in ("a", "b", "c"):
            await load_manifests(cluster, [quota(name, pods="many")])
        await clock.advance(1)

        assert caplog.messages == ["an object cannot be decoded"] * 3
        fields = caplog.records[0].fields
        assert (fields["resource"], str(fields["object"])) == (APPLICATION_QUOTAS, "team/a")


async def test_only_one_of_two_works(world):
    cluster, clock = world
    async with at_work(cluster, clock, "one") as one, at_work(cluster, clock, "two") as two:
        await clock.advance(5)
        assert [controller.term is not None for controller in (one, two)] == [True, False]


async def test_every_waiting_pod_gets_one_event_with_the_numbers(world):
    cluster, clock = world
    await load_manifests(cluster, [quota(pods="1"), *(pod(f"p{each}") for each in range(3))])

    async with at_work(cluster, clock):
        await clock.advance(60)

    events = [json.loads(body) for body in (await cluster.list(EVENTS)).items]
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


async def test_pods_are_let_go_when_their_quota_is_deleted(world):
    cluster, clock = world
    await load_manifests(cluster, [quota(pods="0"), pod("p")])

    async with at_work(cluster, clock):
        await clock.advance(1)
        assert await let_go(cluster) == []
        await cluster.delete(APPLICATION_QUOTAS, Key("team", "limits"))
        await clock.advance(1)
        assert await let_go(cluster) == ["p"]


async def test_pods_are_let_go_when_their_namespace_is_no_longer_selected(world):
    cluster, clock = world
    await load_manifests(cluster, [quota(pods="0"), pod("p"), pod("held", "example.com/other")])

    async with at_work(cluster, clock) as controller:
        await clock.advance(1)
        assert await let_go(cluster) == []
        unlabelled = Patch(
            kind=PatchKind.MERGE, body={"metadata": {"labels": {GATING_LABEL: None}}}
        )
        namespaces = controller.term.sources.books.namespaces.resource
        await cluster.patch(namespaces, Key("", "team"), unlabelled)
        await clock.advance(1)
        assert await let_go(cluster) == ["p"]
        assert controller.term.loop.counters.exempt == 1


async def test_drift_is_looked_for_and_is_nothing(world):
    cluster, clock = world
    await load_manifests(cluster, [quota(pods="2"), *(pod(f"p{each}") for each in range(5))])

    async with at_work(cluster, clock) as controller:
        await clock.advance(130)
        drift = controller.term.drift
        assert drift.counts == 2
        assert drift.latest.accounts == 0


async def test_kinds_that_are_not_installed_are_named_and_can_be_left_out(world, caplog):
    caplog.set_level("INFO")
    cluster, clock = world
    crds = Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        is_namespaced=False,
    )
    for kind in ("cluster", "appliedcluster"):
        name = f"applicationaware{kind}resourcequotas.aaq.kubevirt.io"
        await cluster.delete(crds, Key("", name))
    await load_manifests(cluster, [quota(pods="1"), pod("p")])

    async with at_work(cluster, clock, "whole"):
        await clock.advance(15)
        waiting = [each for each in caplog.records if each.msg == "waiting for the first list"]
        assert "applicationawareclusterresourcequotas" in str(waiting[0].fields["resource"])
        assert await let_go(cluster) == []
    async with at_work(cluster, clock, "partial", kinds=(QuotaKind.NAMESPACED,)):
        await clock.advance(15)
        assert await let_go(cluster) == ["p"]
