"""A deleted quota stays in force for a while: `kubectl replace --force` releases no queue."""

import asyncio
from random import Random

import pytest

from bursar.adapters.memory.manifests import load_manifests
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS
from bursar.app.cluster.ports import (
    ForbiddenError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    UnavailableError,
)
from bursar.app.cluster.time_limit import end
from bursar.app.quota.departed_quotas import (
    GRACE_SECONDS,
    RESTORE_SECONDS,
    RETRY_SECONDS,
    TURN,
    DepartedQuotas,
    exists_in,
)
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.core.quota.quota import QuotaKey, QuotaKind
from support.builders.manifests import DEFINITIONS
from support.quota.aaq_controller import TEAM

WAITING = 100
[DEFINITION] = [
    each for each in DEFINITIONS if each["spec"]["names"]["kind"] == APPLICATION_QUOTAS.kind
]
Q = QuotaKey(QuotaKind.NAMESPACED, TEAM, "q")


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
        await scene.moment(RESTORE_SECONDS - 2)
        await put("pods=1")
        await scene.moment(RESTORE_SECONDS * 2)
        assert await waiting(scene) == WAITING
        assert departed.missing == set()
        assert len(departed) == 0

        await scene.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
        await scene.moment(GRACE_SECONDS * 5)
        await load_manifests(scene.cluster, [definition])
        await scene.moment(RESTORE_SECONDS + GRACE_SECONDS * 2)
        assert await waiting(scene) == 0, "the kind is back, and the quota is not"


async def test_a_definition_that_is_replaced_within_the_grace_period_leaves_time_to_restore(scene):
    await scene.quota("pods=1")
    await a_queue(scene)
    async with scene.at_work() as controller:
        await scene.cluster.delete(CRDS, Key("", str(APPLICATION_QUOTAS)))
        await scene.moment()
        await load_manifests(scene.cluster, [DEFINITION])
        await scene.moment(RESTORE_SECONDS - 2)
        assert await waiting(scene) == WAITING
        assert len(controller.term.loop.departed) == 1

        await scene.moment(GRACE_SECONDS * 2)
        assert await waiting(scene) == 0


async def test_a_kind_is_known_to_be_served_as_soon_as_all_its_quotas_are_back(scene):
    await scene.quota("pods=1")
    await scene.quota("pods=2", name="other")
    await a_queue(scene)
    async with scene.at_work() as controller:
        departed = controller.term.loop.departed
        await scene.cluster.delete(CRDS, Key("", str(APPLICATION_QUOTAS)))
        await scene.moment()
        assert departed.missing == {QuotaKind.NAMESPACED}
        await load_manifests(scene.cluster, [DEFINITION])
        await scene.quota("pods=1")
        await scene.moment()
        assert departed.missing == {QuotaKind.NAMESPACED}
        await scene.quota("pods=2", name="other")
        await scene.moment()
        assert (departed.missing, len(departed)) == (set(), 0)


async def test_quotas_stay_in_force_while_their_definition_is_being_deleted(scene):
    """The API server has deleted the quotas but one, and still serves the kind."""
    name = Key("", str(APPLICATION_QUOTAS))
    hold = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": ["bursar.io/hold"]}})
    await scene.quota("pods=1")
    await scene.quota("pods=5", name="held")
    await a_queue(scene)
    async with scene.at_work() as controller:
        await scene.cluster.patch(APPLICATION_QUOTAS, Key(TEAM, "held"), hold)
        await scene.cluster.delete(CRDS, name)
        await scene.moment(GRACE_SECONDS * 10)
        assert await waiting(scene) == WAITING
        assert controller.term.loop.departed.missing == {QuotaKind.NAMESPACED}


class Undiscoverable(MemoryCluster):
    async def verbs(self, resource):
        raise ForbiddenError("no", resource=str(resource))


async def test_without_the_right_to_discover_a_list_decides():
    cluster = Undiscoverable(VirtualClock(), source=Random(1))  # noqa: S311
    with pytest.raises(NotFoundError):
        await exists_in(cluster, Q)
    await load_manifests(cluster, DEFINITIONS)
    assert not await exists_in(cluster, Q)


async def test_a_controller_that_starts_without_the_kind_releases_nothing(scene):
    await a_queue(scene)
    for definition in DEFINITIONS:
        if definition["spec"]["names"]["kind"] == APPLICATION_QUOTAS.kind:
            await scene.cluster.delete(CRDS, Key("", definition["metadata"]["name"]))
    async with scene.at_work():
        await scene.moment(300)
        assert await waiting(scene) == WAITING


class Server:
    """Answers whether a quota exists, in the order of `answers`; the last answer stays."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.asked: list[QuotaKey] = []
        self._answers = list(answers)

    async def exists(self, key: QuotaKey) -> bool:
        self.asked.append(key)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_while_the_api_server_cannot_be_asked_quotas_stay():
    clock, dropped = VirtualClock(), []
    server = Server(*[UnavailableError("down")] * 3, False)
    departed = DepartedQuotas(clock, server.exists, dropped.append)
    running = asyncio.create_task(departed.run())
    departed.on_delete(Q)
    await clock.advance(GRACE_SECONDS + RETRY_SECONDS)
    assert dropped == []
    await clock.advance(RETRY_SECONDS * 5)
    assert dropped == [Q]
    assert server.asked == [Q] * 4, "at the deletion, after the grace period, and twice again"
    await end(running)


async def test_a_quota_that_the_informer_has_not_seen_again_stays():
    """An informer that backs off may see a new quota later than the grace period ends."""
    clock, dropped = VirtualClock(), []
    server = Server(True)
    departed = DepartedQuotas(clock, server.exists, dropped.append)
    running = asyncio.create_task(departed.run())
    departed.on_delete(Q)
    await clock.advance(GRACE_SECONDS * 3 + 1)
    assert (dropped, len(departed)) == ([], 1)
    departed.on_change(Q)
    await clock.advance(GRACE_SECONDS * 5)
    assert (dropped, len(departed), len(server.asked)) == ([], 0, 4)
    await end(running)


async def test_a_quota_that_is_created_and_deleted_while_the_server_is_asked_has_its_grace_period():
    clock, dropped = VirtualClock(), []
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def exists(_key):
        asked.set()
        await may_answer.wait()
        return False

    departed = DepartedQuotas(clock, exists, dropped.append)
    running = asyncio.create_task(departed.run())
    departed.on_delete(Q)
    await clock.advance(GRACE_SECONDS)
    await asked.wait()
    departed.on_change(Q)
    departed.on_delete(Q)
    may_answer.set()
    await clock.advance(GRACE_SECONDS - 1)
    assert dropped == []
    await clock.advance(2)
    assert dropped == [Q]
    await end(running)


async def test_the_server_is_not_asked_again_for_a_quota_that_is_created_while_it_is_asked():
    clock, dropped = VirtualClock(), []
    asked = []

    async def exists(key):
        asked.append(key)
        if len(asked) == 2:
            departed.on_change(key)
        return True

    departed = DepartedQuotas(clock, exists, dropped.append)
    running = asyncio.create_task(departed.run())
    departed.on_delete(Q)
    await clock.advance(GRACE_SECONDS * 5)
    assert (dropped, len(departed)) == ([], 0)
    assert len(asked) == 2, "at the deletion, and after the grace period"
    await end(running)


async def test_quotas_that_others_delete_in_masses_delay_the_end_of_a_quota_little():
    clock, dropped = VirtualClock(), []

    async def exists(_key):
        await clock.sleep(1)
        return False

    departed = DepartedQuotas(clock, exists, dropped.append)
    running = asyncio.create_task(departed.run())
    many = [QuotaKey(QuotaKind.NAMESPACED, "hostile", f"q{number}") for number in range(5 * TURN)]
    for key in many:
        departed.on_delete(key)
    await clock.advance(1)
    departed.on_delete(Q)
    await clock.advance(GRACE_SECONDS + 2 * TURN + 1)
    assert Q in dropped
    assert len(dropped) < len(many)
    await clock.advance(5 * TURN)
    assert set(dropped) == {Q, *many}
    await end(running)


async def test_all_quotas_of_a_kind_are_asked_for_once_while_it_is_missing():
    clock, dropped = VirtualClock(), []
    server = Server(NotFoundError("no such kind"))
    departed = DepartedQuotas(clock, server.exists, dropped.append)
    running = asyncio.create_task(departed.run())
    for number in range(100):
        departed.on_delete(QuotaKey(QuotaKind.NAMESPACED, TEAM, f"q{number}"))
    await clock.advance(GRACE_SECONDS + 1)
    assert (dropped, len(server.asked)) == ([], 1)
    await clock.advance(GRACE_SECONDS * 2)
    assert (dropped, len(server.asked)) == ([], 3)
    await end(running)
