"""A deleted quota stays in force for a while: `kubectl replace --force` releases no queue."""

import asyncio

import pytest

from bursar.adapters.memory.kinds import CRDS
from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.app.cluster.ports import Key, UnavailableError
from bursar.app.cluster.time_limit import end
from bursar.app.quota.departed_quotas import GRACE_SECONDS, RETRY_SECONDS, DepartedQuotas
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.quota import QuotaKey, QuotaKind
from support.builders.manifests import DEFINITIONS
from support.quota.aaq_controller import TEAM, AaqScene

WAITING = 100
Q = QuotaKey(QuotaKind.NAMESPACED, TEAM, "q")


@pytest.fixture
async def scene():
    scene = AaqScene()
    await scene.furnish()
    return scene


async def a_queue(scene):
    await scene.pod("running", phase="Running")
    for number in range(WAITING):
        await scene.gated_pod(f"w{number:03}")


async def waiting(scene):
    return WAITING + 1 - len(await scene.released())


async def test_a_quota_that_is_created_again_in_time_releases_nothing(scene):
    await scene.quota("pods=1")
    await a_queue(scene)
    async with scene.at_work() as controller:
        for _ in range(3):
            await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
            await scene.moment(GRACE_SECONDS - 1)
            assert await waiting(scene) == WAITING
            assert len(controller.term.loop.departed) == 1
            await scene.quota("pods=1")
            await scene.moment(GRACE_SECONDS * 3)
            assert await waiting(scene) == WAITING
            assert len(controller.term.loop.departed) == 0
        assert await scene.used() == {"pods": "1"}


async def test_a_quota_created_again_with_another_limit_is_in_force_at_once(scene):
    await scene.quota("pods=1")
    await a_queue(scene)
    async with scene.at_work():
        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.quota("pods=4")
        await scene.moment()
        assert await waiting(scene) == WAITING - 3


async def test_after_the_grace_period_the_queue_is_released(scene):
    await scene.quota("pods=1")
    await a_queue(scene)
    async with scene.at_work():
        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.moment(GRACE_SECONDS + 5)
        assert await waiting(scene) == 0


async def test_without_a_grace_period_the_queue_is_released_at_once(scene):
    await scene.quota("pods=1")
    await a_queue(scene)
    async with scene.started(quota_grace_s=0):
        await scene.moment()
        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.moment()
        assert await waiting(scene) == 0


@pytest.mark.parametrize("resource", [APPLICATION_QUOTAS, CLUSTER_QUOTAS])
async def test_quotas_stay_in_force_while_their_kind_is_not_served(scene, caplog, resource):
    [definition] = [each for each in DEFINITIONS if each["spec"]["names"]["kind"] == resource.kind]
    put = scene.quota if resource is APPLICATION_QUOTAS else scene.cluster_quota
    await put("pods=1")
    await a_queue(scene)
    async with scene.at_work() as controller:
        await scene.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
        await scene.moment(GRACE_SECONDS * 30)
        assert await waiting(scene) == WAITING
        departed = controller.term.loop.departed
        assert [kind.value for kind in departed.missing] == [resource.kind]
        said = "the API server does not serve the kind any more; its quotas stay in force"
        assert said in caplog.messages

        await load_manifests(scene.cluster, [definition])
        await scene.moment(GRACE_SECONDS - 2)
        await put("pods=1")
        await scene.moment(GRACE_SECONDS * 10)
        assert await waiting(scene) == WAITING
        assert departed.missing == set()
        assert len(departed) == 0

        await scene.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
        await scene.moment(GRACE_SECONDS * 5)
        await load_manifests(scene.cluster, [definition])
        await scene.moment(GRACE_SECONDS * 10)
        assert await waiting(scene) == 0, "the kind is back, and the quota is not"


async def test_a_controller_that_starts_without_the_kind_releases_nothing(scene):
    await a_queue(scene)
    for definition in DEFINITIONS:
        if definition["spec"]["names"]["kind"] == APPLICATION_QUOTAS.kind:
            await scene.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
    async with scene.at_work():
        await scene.moment(300)
        assert await waiting(scene) == WAITING


async def test_while_the_api_server_cannot_be_asked_quotas_stay():
    clock = VirtualClock()
    asked, dropped = [], []

    async def is_served(kind):
        asked.append(kind)
        if len(asked) <= 3:
            raise UnavailableError("down")
        return True

    departed = DepartedQuotas(clock, is_served, dropped.append)
    running = asyncio.create_task(departed.run())
    departed.on_delete(Q)
    await clock.advance(GRACE_SECONDS + RETRY_SECONDS)
    assert dropped == []
    await clock.advance(RETRY_SECONDS * 5)
    assert dropped == [Q]
    assert len(asked) == 4
    await end(running)
