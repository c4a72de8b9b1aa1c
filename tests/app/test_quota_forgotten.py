"""What controllers remember of an object ends with it, even if it ends while they write it."""

from typing import Any

import pytest

from bursar.app.cluster.kinds import RESOURCE_QUOTAS
from bursar.app.cluster.ports import Key, Resource
from bursar.app.quota.kinds import APPLICATION_QUOTAS, APPLIED_CLUSTER_QUOTAS, CLUSTER_QUOTAS
from support.faults.line import Line, Request
from support.quota.aaq_controller import TEAM, AaqScene

MANAGED = "q-non-schedulable-resources-managed-rq-x"
SEEN_S = 0.5
"""Within this time the watch has shown what was deleted."""


class LateAnswers(Line):
    """The watch shows that objects were deleted before the answer to a write arrives."""

    written: Resource | None = None
    """Writes of this kind are answered late."""
    doomed: tuple[Resource, Key] | None = None
    """What is deleted meanwhile, with all that it owns."""

    def __init__(self, scene: AaqScene) -> None:
        super().__init__(scene.cluster)
        self._clock = scene.clock

    async def pass_on(self, request: Request) -> Any:
        answer = await request.send()
        if request.verb in {"patch", "create"} and request.resource == self.written:
            if self.doomed is not None:
                doomed, self.doomed = self.doomed, None
                await self.cluster.delete(*doomed)
            await self._clock.sleep(SEEN_S)
        return answer


@pytest.fixture
async def scene():
    scene = AaqScene()
    await scene.furnish()
    scene.writer = LateAnswers(scene)
    return scene


async def test_nothing_is_remembered_of_a_quota_that_is_deleted_while_its_status_is_written(scene):
    scene.writer.written = APPLICATION_QUOTAS
    scene.writer.doomed = (APPLICATION_QUOTAS, Key(TEAM, "q"))

    async with scene.at_work() as controller:
        await scene.quota("cpus=1 pods=-1")
        await scene.moment(5)
        assert not await scene.exists(APPLICATION_QUOTAS, "q")
        statuses = controller.term.statuses
        assert (statuses._pending._writes, statuses._told) == ({}, {})


async def test_nothing_is_remembered_of_a_managed_quota_that_is_deleted_while_it_is_written(scene):
    await scene.quota("services=1")

    async with scene.at_work() as controller:
        scene.writer.written = RESOURCE_QUOTAS
        scene.writer.doomed = (APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.limit(services="2")
        await scene.moment(5)
        assert not await scene.exists(RESOURCE_QUOTAS, MANAGED)
        assert controller.term.managed._pending._writes == {}


async def test_nothing_is_remembered_of_a_copy_that_is_deleted_while_it_is_written(scene):
    await scene.cluster_quota("pods=1")

    async with scene.at_work() as controller:
        scene.writer.written = APPLIED_CLUSTER_QUOTAS
        scene.writer.doomed = (CLUSTER_QUOTAS, Key("", "wide"))
        await scene.gated_pod("p")
        await scene.moment(30)
        assert not await scene.exists(APPLIED_CLUSTER_QUOTAS, "wide")
        applied = controller.term.applied
        assert (applied._pending._writes, applied._own_versions, applied._namespaces) == (
            {},
            {},
            {},
        )


async def test_nothing_is_remembered_of_a_managed_quota_that_is_deleted_after_its_quota(scene):
    """The garbage collector deletes it, and no quota is left that it could be created for."""
    await scene.quota("services=1")

    async with scene.at_work() as controller:
        managed = controller.term.managed
        await scene.cluster.delete(APPLICATION_QUOTAS, Key(TEAM, "q"))
        await scene.moment(5)
        assert not await scene.exists(RESOURCE_QUOTAS, MANAGED)
        assert (managed._deletions, managed._deleted_uids) == ({}, set())
