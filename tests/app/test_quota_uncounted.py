"""A quota with a name that nothing counts says so, and how a pod that waits is counted."""

import json

from bursar.adapters.memory.manifests import load_manifests
from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.counting.kind_feed import PROBE_SECONDS
from bursar.app.quota.kinds import APPLICATION_QUOTAS, APPLIED_CLUSTER_QUOTAS, CLUSTER_QUOTAS
from bursar.app.quota.views.read_model import view_of
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from support.builders.manifests import pod_manifest
from support.counting.plan_counter import (
    DEFINITION,
    SEATS,
    a_plan,
    plan_counting,
    with_plan,
)

LIMITS = Key("team", "q")


async def ready(scene, resource=APPLICATION_QUOTAS, key=LIMITS):
    quota = json.loads(await scene.cluster.get(resource, key))
    [found] = [each for each in quota["status"]["conditions"] if each["type"] == "Ready"]
    return found["status"], found["reason"], found["message"]


async def events(scene):
    """Name, reason, note and count of each event."""
    bodies = map(json.loads, (await scene.cluster.list(EVENTS)).items)
    return sorted(
        (
            *(each["regarding"]["kind"], each["regarding"]["name"], each["reason"], each["note"]),
            (each.get("series") or {}).get("count", 1),
        )
        for each in bodies
    )


SHORT = (
    "exceeded quota: q, requested: seats/plan=3, used: seats/plan=3, limited: seats/plan=5; "
    "missing: seats/plan=1"
)
HINT = "counted only with --vmi-mode DedicatedVirtualResources"


async def test_a_quota_whose_names_nothing_counts_is_not_ready(scene):
    await scene.quota("requests.cpu/vmi=1 pods=5")
    await scene.cluster_quota("cpu/vmi=1")
    await scene.quota("pods=1", name="plain")

    async with scene.at_work():
        text = f"requests.cpu/vmi: {HINT}"
        assert await ready(scene) == (
            *("False", "NotCounted"),
            f"not in force, because nothing counts them: {text}",
        )
        wide = await ready(scene, CLUSTER_QUOTAS, Key("", "wide"))
        assert wide[:2] == ("False", "NotCounted")
        # What the tenants of a namespace can read says the same.
        assert await ready(scene, APPLIED_CLUSTER_QUOTAS, Key("team", "wide")) == wide
        assert (await ready(scene, key=Key("team", "plain")))[0] == "True"
    assert await events(scene) == [
        (CLUSTER_QUOTAS.kind, "wide", "NotCounted", f"cpu/vmi: {HINT}", 1),
        (APPLICATION_QUOTAS.kind, "q", "NotCounted", text, 1),
    ]


async def test_the_next_leader_does_not_repeat_the_event(scene):
    await scene.quota("cpu/vmi=1 pods=9")
    async with scene.at_work("one"):
        pass
    async with scene.at_work("two"):
        # Another change of the status is no reason to say it again either.
        await scene.pod("web")
        await scene.moment(5)

    assert [each[-1] for each in await events(scene)] == [1]


async def test_an_unknown_order_is_still_mentioned(scene):
    await scene.quota("cpu/vmi=1")
    patch = {"metadata": {"annotations": {"bursar.io/order": "sideways"}}}
    await scene.cluster.patch(APPLICATION_QUOTAS, LIMITS, Patch(kind=PatchKind.MERGE, body=patch))

    async with scene.at_work():
        status, reason, message = await ready(scene)
        assert (status, reason) == ("False", "NotCounted")
        assert "sideways" in message


async def test_a_quota_becomes_ready_when_a_counter_charges_its_names(scene):
    await scene.quota(f"{SEATS}=5")
    await scene.cluster_quota(f"{SEATS}=5")

    async with scene.started(open_counting=plan_counting):
        await scene.moment(PROBE_SECONDS)
        assert (await ready(scene))[:2] == ("False", "NotCounted")

        await load_manifests(scene.cluster, [DEFINITION])
        await scene.moment(2 * PROBE_SECONDS)
        assert (await ready(scene))[:2] == ("True", "LimitsInForce")
        copy = await ready(scene, APPLIED_CLUSTER_QUOTAS, Key("team", "wide"))
        assert copy[:2] == ("True", "LimitsInForce")
        assert len(await events(scene)) == 2


async def test_a_pod_that_waits_is_told_how_it_is_counted(scene):
    await scene.quota(f"{SEATS}=5")
    gold = with_plan("gold")
    pods = [pod_manifest(f"team/p{each}", GATE, metadata=gold) for each in range(2)]
    lost = pod_manifest("team/p3", GATE, metadata=with_plan("tin"))
    await load_manifests(scene.cluster, [DEFINITION, a_plan("team/gold", 3), *pods, lost])

    async with scene.started(open_counting=plan_counting) as controller:
        await scene.moment(2 * PROBE_SECONDS)

        assert await scene.released() == ["p0"]
        term = controller.term
        sources = term.sources.books
        view = view_of(term.books, sources.explain, sources.counter)
        assert [line.uncounted for line in view.quotas] == [()]
        # Natively, nothing charges seats.
        assert [line.uncounted for line in view_of(term.books).quotas] == [(SEATS,)]
        assert view.reasons[PodKey("team", "p1")].endswith("counted as plans: plan gold: 3 seats")
    assert [each[1:4] for each in await events(scene)] == [
        (
            *("p1", "QuotaExceeded"),
            f"{SHORT}; counted as plans: plan gold: 3 seats",
        ),
        (
            *("p3", "NotCounted"),
            "what the pod costs is not known yet: plans: there is no plan tin",
        ),
    ]
