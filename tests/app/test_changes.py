"""Work that is repeated when a cluster changes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.changes import REST_FACTOR, repeat_on_changes
from bursar.app.cluster.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from bursar.app.cluster.ports import ExpiredError, ForbiddenError, Resource, WatchEvent
from bursar.app.cluster.reading.collection import COALESCE_SECONDS, PAUSE_SECONDS
from bursar.app.cluster.reading.wanted import Wanted
from support.virtual_time import MachineClock, in_virtual_time

LONG_S = 60 * COALESCE_SECONDS


class Scene:
    """Work on a cluster that counts how often it is done, and takes as long as it is told."""

    def __init__(self) -> None:
        self.clock = MachineClock()
        self.cluster = Faulty(self.clock)
        self.done = 0
        self.takes_s = 0.0

    async def work(self) -> None:
        self.done += 1
        await self.clock.sleep(self.takes_s)

    async def add(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await self.cluster.create(CONFIG_MAPS, body, namespace="default")

    @contextlib.asynccontextmanager
    async def followed(self, *kinds: Resource) -> AsyncIterator[None]:
        watched = [Wanted(resource=each) for each in kinds or (CONFIG_MAPS, NAMESPACES)]
        task = asyncio.create_task(repeat_on_changes(self.cluster, watched, self.work, self.clock))
        await self.clock.sleep(LONG_S)
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


class Faulty(MemoryCluster):
    """Refuses secrets, and breaks the next watches if it is told to."""

    def __init__(self, clock: MachineClock) -> None:
        super().__init__(clock, source=Random(3))  # noqa: S311 - a seed
        self.expired = 0

    async def list(self, resource, *arguments, **named):
        if resource == SECRETS:
            raise ForbiddenError("secrets is forbidden")
        return await super().list(resource, *arguments, **named)

    async def watch(self, *arguments, **named) -> AsyncIterator[WatchEvent]:
        if self.expired:
            self.expired -= 1
            raise ExpiredError("too old")
        async for event in super().watch(*arguments, **named):
            yield event
            if self.expired:
                return


@in_virtual_time(on=Scene)
async def test_work_is_done_once_and_again_after_a_burst_of_changes(scene):
    async with scene.followed():
        assert scene.done == 1
        await scene.add("a")
        await scene.add("b")
        await scene.clock.sleep(LONG_S)

        assert scene.done == 2


@in_virtual_time(on=Scene)
async def test_long_work_leaves_the_cluster_alone_for_longer(scene):
    scene.takes_s = 10
    async with scene.followed():
        await scene.add("a")
        await scene.clock.sleep(scene.takes_s * REST_FACTOR - 1)
        assert scene.done == 1
        await scene.clock.sleep(2)

        assert scene.done == 2


@in_virtual_time(on=Scene)
async def test_a_kind_that_may_not_be_listed_is_not_watched(scene):
    async with scene.followed(SECRETS, CONFIG_MAPS):
        await scene.add("a")
        await scene.clock.sleep(LONG_S)

        assert scene.done == 2


@in_virtual_time(on=Scene)
async def test_changes_that_a_broken_watch_missed_lead_to_work(scene):
    async with scene.followed(CONFIG_MAPS):
        scene.cluster.expired = 1
        await scene.add("a")
        await scene.clock.sleep(LONG_S + 3 * PAUSE_SECONDS)
        before = scene.done
        await scene.add("b")
        await scene.clock.sleep(LONG_S)

        assert scene.cluster.expired == 0
        assert (before > 1, scene.done) == (True, before + 1)
