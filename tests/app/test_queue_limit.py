"""A namespace in which too many pods wait gets no new ones until some have gone."""

import json

import pytest

from bursar.adapters.memory.quota_admission import QuotaAdmission
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.telemetry.controller.metrics import controller_metrics
from bursar.app.cluster.kinds import EVENTS, PODS, SERVICE_ACCOUNTS
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind, Query
from bursar.app.controller.queue_limit import NAMESPACES_MAX, full_text
from bursar.app.names import FULL_QUEUES_ANNOTATION
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import Targeting
from bursar.core.quota.views.queue import FullQueues, count_waiting
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.cluster.scripted_cluster import seeded
from support.metrics.printed_metrics import NoLimiter
from support.quota.aaq_controller import HOME, TEAM, AaqScene

ACCOUNT = Key(HOME, "aaq-controller")


@pytest.fixture
async def scene():
    scene = AaqScene()
    await scene.furnish()
    await scene.cluster.create(
        SERVICE_ACCOUNTS, {"metadata": {"name": "aaq-controller"}}, namespace=HOME
    )
    await scene.quota("pods=1")
    return scene


async def listed(scene):
    body = json.loads(await scene.cluster.get(SERVICE_ACCOUNTS, ACCOUNT))
    return body["metadata"].get("annotations", {}).get(FULL_QUEUES_ANNOTATION)


async def create(scene, *names, namespace=TEAM, gates=(GATE,)):
    for name in names:
        body = pod_manifest(f"{namespace}/{name}", *gates)
        await scene.cluster.create(PODS, body, namespace=namespace)


async def delete(scene, *names):
    for name in names:
        await scene.cluster.delete(PODS, Key(TEAM, name))


def named(*numbers):
    return [f"web-{number}" for number in numbers]


async def test_a_full_namespace_is_listed_until_nine_tenths_wait(scene):
    async with scene.started(waiting_pods_max=10) as controller:
        await create(scene, *named(*range(10)))
        await scene.moment(5)
        # One of them was released.
        assert await listed(scene) is None
        await create(scene, "last")
        await scene.moment(5)
        assert await listed(scene) == f"10,{TEAM},"
        waiting = count_waiting(controller.term.books)
        assert sum(waiting.by_reason.values()) == 10

        await delete(scene, "last")
        await scene.moment(5)
        assert await listed(scene) is None


async def test_a_full_namespace_does_not_flap(scene):
    async with scene.started(waiting_pods_max=20):
        await create(scene, *named(*range(21)))
        await scene.moment(5)
        assert await listed(scene) == f"20,{TEAM},"
        await delete(scene, "web-20")
        await scene.moment(5)
        assert await listed(scene) == f"20,{TEAM},"
        await delete(scene, "web-19")
        await scene.moment(5)
        assert await listed(scene) is None


async def test_pods_behind_gates_of_others_count_as_well(scene):
    """A tenant could otherwise store any number of pods behind a gate of his own."""
    async with scene.started(waiting_pods_max=5):
        await create(scene, *named(*range(5)), gates=(GATE, "example.com/own"))
        await scene.moment(5)

        assert await listed(scene) == f"5,{TEAM},"


async def test_gated_pods_that_a_finalizer_keeps_count_until_they_are_gone(scene):
    """A tenant could otherwise store any number of pods by deleting each of them."""
    names = named(*range(6))
    async with scene.started(waiting_pods_max=5):
        for name in names:
            body = pod_manifest(f"{TEAM}/{name}", GATE, "example.com/own")
            body["metadata"]["finalizers"] = ["example.com/kept"]
            await scene.cluster.create(PODS, body, namespace=TEAM)
        await delete(scene, *names)
        await scene.moment(5)
        assert await listed(scene) == f"5,{TEAM},"

        for name in names:
            patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": None}})
            await scene.cluster.patch(PODS, Key(TEAM, name), patch)
        await scene.moment(5)
        assert await listed(scene) is None


async def test_other_namespaces_are_not_listed(scene):
    async with scene.started(waiting_pods_max=3):
        await create(scene, *named(*range(5)))
        await create(scene, "one", namespace="other")
        await scene.moment(5)

        assert await listed(scene) == f"3,{TEAM},"


async def test_a_list_that_another_writer_changes_is_restored(scene):
    async with scene.started(waiting_pods_max=3):
        await create(scene, *named(*range(5)))
        await scene.moment(5)
        for text in (None, "3,kube-system,"):
            change = {"metadata": {"annotations": {FULL_QUEUES_ANNOTATION: text}}}
            patch = Patch(kind=PatchKind.MERGE, body=change)
            await scene.cluster.patch(SERVICE_ACCOUNTS, ACCOUNT, patch)
            await scene.moment(5)
            assert await listed(scene) == f"3,{TEAM},"


async def test_a_new_leader_goes_on_with_the_list_of_the_one_before(scene):
    async with scene.started(waiting_pods_max=20):
        await create(scene, *named(*range(21)))
        await scene.moment(5)
    await delete(scene, "web-20")
    async with scene.started("two", waiting_pods_max=20):
        await scene.moment(60)
        # 19 of 20 wait, which is not full by itself.
        assert await listed(scene) == f"20,{TEAM},"


async def test_without_a_bound_a_former_list_is_removed(scene):
    async with scene.started(waiting_pods_max=3):
        await create(scene, *named(*range(5)))
        await scene.moment(5)
        assert await listed(scene) == f"3,{TEAM},"
    async with scene.started("two", waiting_pods_max=0) as controller:
        await scene.moment(60)
        assert await listed(scene) is None
        assert controller.full_queues.names == frozenset()
    assert controller.full_queues is None


async def test_a_namespace_that_becomes_full_gets_one_event(scene):
    async with scene.started(waiting_pods_max=3):
        await create(scene, *named(*range(5)))
        await scene.moment(30)
        page = await scene.cluster.list(EVENTS, Query(namespace=TEAM))

    events = [json.loads(body) for body in page.items]
    [event] = [each for each in events if each["reason"] == "TooManyWaitingPods"]
    assert event["regarding"]["kind"] == "Namespace"
    assert event["note"].startswith(
        f"3 pods of the namespace {TEAM} wait for quotas, which is the maximum"
    )


async def test_metrics_count_full_namespaces(scene):
    async with scene.started(waiting_pods_max=3) as controller:
        await create(scene, *named(*range(5)))
        await scene.moment(5)
        text = controller_metrics(controller, NoLimiter())

    assert b"bursar_full_queues 1" in text


# ------------------------------------------------------------------ the embedded cluster


async def test_the_embedded_cluster_refuses_pods_of_a_full_namespace(scene):
    targeting = Targeting(own_namespace=HOME)
    admission = QuotaAdmission(targeting, decode=PodRowDecoder().decode)
    cluster = MemoryCluster(scene.clock, source=seeded(1), mutating=(admission.gate,))
    admission.reader = cluster
    scene.cluster = scene.writer = scene.watched = cluster
    await scene.furnish()
    await scene.quota("pods=1")
    async with scene.started(waiting_pods_max=3) as controller:
        admission.find_full_queues = lambda: controller.full_queues
        await scene.moment(5)
        await create(scene, *named(*range(4)), gates=())
        await scene.moment(5)
        with pytest.raises(ForbiddenError, match=f"3 pods of the namespace {TEAM} wait"):
            await create(scene, "late", gates=())
        await create(scene, "elsewhere", namespace="other", gates=())


# ------------------------------------------------------------------ the list


def test_a_queue_is_full_at_the_bound_and_opens_at_nine_tenths():
    full = FullQueues(10)

    assert full.update({"a": 9, "b": 10, "c": 11}) == {"b", "c"}
    assert full.update({"a": 9, "b": 10, "c": 10}) == set()
    assert full.names == {"b", "c"}
    assert full.update({"a": 10, "b": 9}) == {"a"}
    assert full.names == {"a"}


def test_a_bound_of_one_opens_when_none_waits():
    full = FullQueues(1)
    full.update({"a": 1})
    assert full.names == {"a"}
    full.update({})
    assert full.names == set()


def test_without_a_bound_no_queue_is_full():
    full = FullQueues(0, full=["a"])

    assert full.update({"a": 10**6}) == set()
    assert full.names == set()


def test_the_list_is_bounded():
    names = [f"{number:063}" for number in range(2 * NAMESPACES_MAX)]
    text = full_text(FullQueues(10, full=names))

    assert len(text) < 100_000
    assert text.startswith(f"10,{names[0]},{names[1]},")
    assert text.endswith(",")
