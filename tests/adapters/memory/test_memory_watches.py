"""Watches of the embedded cluster: bookmarks, ends and lag, on a clock that is told to move."""

import asyncio
import contextlib
import json
import random

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.memory.watches import WatchLimits
from bursar.app.cluster.kinds import LEASES, SECRETS
from bursar.app.cluster.ports import EventKind, ExpiredError, Key, Query, UnavailableError


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def a_cluster(clock, **options):
    return MemoryCluster(clock, source=random.Random(1), **options)  # noqa: S311


async def lease(cluster, name):
    await cluster.create(LEASES, {"metadata": {"name": name}}, namespace="default")


class Follower:
    """Takes events from a watch as they come."""

    def __init__(self, cluster, **options):
        self.events = []
        self.task = asyncio.ensure_future(self._follow(cluster.watch(LEASES, **options)))

    async def _follow(self, stream):
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                self.events.append(event)

    @property
    def kinds(self):
        return [event.kind.value for event in self.events]


async def test_a_quiet_watch_is_told_the_time_by_bookmarks(clock):
    cluster = a_cluster(clock)
    follower = Follower(cluster, resource_version=cluster.revision)
    await clock.advance(59)
    before = follower.kinds
    await cluster.create(SECRETS, {"metadata": {"name": "s"}}, namespace="default")
    await clock.advance(1)

    assert before == []
    assert follower.kinds == ["BOOKMARK"]
    assert follower.events[0].resource_version == cluster.revision
    assert not follower.events[0].ends_initial
    assert json.loads(follower.events[0].body)["kind"] == "Lease"
    await clock.advance(60)
    assert follower.kinds == ["BOOKMARK", "BOOKMARK"]
    follower.task.cancel()


async def test_a_watch_ends_quietly_after_its_lifetime(clock):
    cluster = a_cluster(clock, limits=WatchLimits(bookmark_seconds=60, lifetime_seconds=90))
    follower = Follower(cluster, resource_version=cluster.revision)
    await clock.advance(89)
    assert not follower.task.done()
    await clock.advance(1)

    assert follower.task.done()
    assert follower.task.exception() is None
    assert follower.kinds == ["BOOKMARK"]


async def test_a_slow_watch_is_ended_and_can_begin_again(clock):
    cluster = a_cluster(clock, limits=WatchLimits(lag_max=5))
    start = cluster.revision
    stream = cluster.watch(LEASES, resource_version=start)
    await lease(cluster, "first")
    first = await anext(stream)
    for number in range(10):
        await lease(cluster, f"l{number}")

    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    follower = Follower(cluster, resource_version=first.resource_version)
    await clock.settle()
    assert follower.kinds == ["ADDED"] * 10
    assert not follower.task.done()
    follower.task.cancel()


async def test_history_is_bounded(clock):
    cluster = a_cluster(clock, history_max=20)
    start = cluster.revision
    for number in range(40):
        await lease(cluster, f"l{number}")

    with pytest.raises(ExpiredError) as caught:
        await anext(cluster.watch(LEASES, resource_version=start))
    oldest = cluster.objects.compacted
    assert caught.value.message == f"too old resource version: {start} ({oldest})"
    assert 20 <= int(cluster.revision) - oldest <= 25
    recent = cluster.watch(LEASES, resource_version=str(oldest))
    assert (await anext(recent)).kind is EventKind.ADDED
    await recent.aclose()


async def test_compaction_ends_watches_that_are_behind_it(clock):
    cluster = a_cluster(clock)
    stream = cluster.watch(LEASES, resource_version=cluster.revision)
    await lease(cluster, "a")
    await anext(stream)
    await lease(cluster, "b")
    cluster.compact()

    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_watches_can_be_cut_with_a_fault(clock):
    cluster = a_cluster(clock)
    quiet = Follower(cluster, resource_version=cluster.revision)
    await clock.settle()
    cluster.cut_watches()
    await clock.settle()
    assert quiet.task.exception() is None

    loud = Follower(cluster, resource_version=cluster.revision)
    await clock.settle()
    cluster.cut_watches(is_fault=True)
    await clock.settle()
    assert isinstance(loud.task.exception(), UnavailableError)
    after = Follower(cluster, resource_version=cluster.revision)
    await lease(cluster, "a")
    await clock.settle()
    assert after.kinds == ["ADDED"]
    after.task.cancel()


async def test_ended_and_cancelled_watches_leave_nothing_waiting(clock):
    cluster = a_cluster(clock)
    before = asyncio.all_tasks()
    followers = [Follower(cluster, resource_version=cluster.revision) for _ in range(5)]
    await clock.settle()
    for follower in followers:
        follower.task.cancel()
    await asyncio.gather(*(each.task for each in followers), return_exceptions=True)

    assert asyncio.all_tasks() == before
    assert not cluster.objects.collection(cluster.objects.kinds.of(LEASES)).waiting


async def test_many_watches_see_the_same(clock):
    cluster = a_cluster(clock)
    followers = [Follower(cluster, resource_version=cluster.revision) for _ in range(3)]
    for number in range(50):
        await lease(cluster, f"l{number:02}")
    await cluster.delete(LEASES, Key("default", "l00"))
    await clock.settle()

    for follower in followers:
        assert follower.kinds == ["ADDED"] * 50 + ["DELETED"]
        follower.task.cancel()


async def test_a_moment_to_come_is_waited_for(clock):
    cluster = a_cluster(clock)
    soon = str(int(cluster.revision) + 1)
    follower = Follower(cluster, query=Query(namespace="default"), resource_version=soon)
    await clock.settle()
    await lease(cluster, "a")
    await lease(cluster, "b")
    await clock.settle()

    assert [json.loads(each.body)["metadata"]["name"] for each in follower.events] == ["b"]
    follower.task.cancel()
