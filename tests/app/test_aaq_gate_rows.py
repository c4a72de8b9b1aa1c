"""AAQ's own tests of its gate controller (U-GATE), on an embedded cluster with the real one.

AAQ writes down which pods it is about to release, and locks the namespace until they are
counted. Ours reserves in its books instead, so nothing of the kind is written; what becomes
of the pods is the same.
"""

import pytest

from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import Key
from bursar.app.quota.kinds import JOB_QUEUE_CONFIGS
from bursar.core.quota.quota import GATE

FOREIGN = "example.com/licence"


async def test_u_gate_01_no_record_is_needed_and_none_is_made(scene):
    await scene.gated_pod("p")

    async with scene.at_work():
        assert await scene.released() == ["p"]
        assert await scene.names(JOB_QUEUE_CONFIGS) == []


async def test_u_gate_02_a_namespace_that_is_gone_holds_nobody_up(scene):
    await scene.quota("pods=0")
    await scene.gated_pod("held")
    async with scene.at_work():
        await scene.cluster.delete(NAMESPACES, Key("", "team"))
        await scene.moment()
        assert await scene.names(PODS) == []

        await scene.gated_pod("p", namespace="other")
        await scene.moment()
        assert await scene.gates("p", "other") == []


async def test_u_gate_03_what_a_leader_left_undone_is_done_by_the_next(scene):
    async with scene.at_work("one"):
        pass
    await scene.quota("pods=1")
    await scene.gated_pod("p")

    async with scene.at_work("two"):
        assert await scene.released() == ["p"]
        assert await scene.used() == {"pods": "1"}


async def test_u_gate_04_what_a_leader_has_done_is_not_done_again(scene):
    await scene.quota("pods=1")
    await scene.gated_pod("p")
    async with scene.at_work("one"):
        assert await scene.released() == ["p"]
    before = await scene.version(PODS, "p")

    async with scene.at_work("two"):
        assert await scene.version(PODS, "p") == before


async def test_u_gate_05_without_pods_there_is_nothing_to_do(scene):
    await scene.quota("pods=1")

    async with scene.at_work():
        assert await scene.names(PODS) == []
        assert await scene.notes() == {}


@pytest.mark.parametrize(
    "gates",
    [
        pytest.param((), id="U-GATE-06 no gate"),
        pytest.param((FOREIGN,), id="U-GATE-07 a foreign gate"),
        pytest.param((FOREIGN, GATE), id="U-GATE-08 a foreign gate and ours"),
    ],
)
async def test_pods_that_do_not_wait_for_us_alone_are_left_as_they_are(scene, gates):
    await scene.pod("p", gates=gates)
    before = await scene.version(PODS, "p")

    async with scene.at_work():
        assert await scene.version(PODS, "p") == before
        assert await scene.gates("p") == [*gates]


async def test_u_gate_09_without_a_quota_a_pod_goes(scene):
    await scene.gated_pod("p")

    async with scene.at_work():
        assert await scene.released() == ["p"]
        assert await scene.notes() == {}


async def test_u_gate_10_with_room_in_the_quota_a_pod_goes(scene):
    await scene.quota("requests.memory=1Gi")
    await scene.gated_pod("p", "memory=1Gi")

    async with scene.at_work():
        assert await scene.released() == ["p"]


async def test_u_gate_11_without_room_a_pod_waits_and_is_told(scene):
    await scene.quota("requests.memory=1Gi")
    await scene.gated_pod("p", "memory=2Gi")

    async with scene.at_work():
        assert await scene.released() == []
        assert "exceeded quota: q" in (await scene.notes())["p"]


async def test_u_gate_12_one_full_quota_of_two_is_enough_to_wait(scene):
    await scene.quota("requests.memory=4Gi", "wide")
    await scene.quota("requests.memory=1Gi", "narrow")
    await scene.gated_pod("p", "memory=2Gi")

    async with scene.at_work():
        assert await scene.released() == []
        assert "exceeded quota: narrow" in (await scene.notes())["p"]


async def test_u_gate_13_with_room_in_both_quotas_a_pod_goes(scene):
    await scene.quota("requests.memory=4Gi", "wide")
    await scene.quota("requests.memory=2Gi", "narrow")
    await scene.gated_pod("p", "memory=2Gi")

    async with scene.at_work():
        assert await scene.released() == ["p"]
        assert await scene.used("narrow") == {"requests.memory": "2Gi"}


async def test_u_gate_14_of_two_pods_the_one_that_fits_goes(scene):
    await scene.quota("requests.memory=1Gi")
    await scene.gated_pod("large", "memory=2Gi")
    await scene.gated_pod("small", "memory=1Gi")

    async with scene.at_work():
        assert await scene.released() == ["small"]
        assert [*await scene.notes()] == ["large"]


async def test_u_gate_15_pods_held_back_by_different_quotas_are_both_told(scene):
    await scene.quota("requests.memory=1Gi", "memory")
    await scene.quota("requests.cpu=1", "cpu")
    await scene.gated_pod("hungry", "memory=2Gi")
    await scene.gated_pod("busy", "cpu=2")

    async with scene.at_work():
        assert await scene.released() == []
        notes = await scene.notes()
        assert "exceeded quota: memory" in notes["hungry"]
        assert "exceeded quota: cpu" in notes["busy"]
