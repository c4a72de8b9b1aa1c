"""The node's pods: kept for a moment, looked for when missed, and not lost with the source."""

import asyncio
from inspect import signature

from bursar.app.devices.freshness import FreshnessRules, NodePods
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod
from machine_time import MachineClock, run

A, B, C = (("team", name) for name in "abc")


def pod(name, uid="", **facts):
    return DevicePod(namespace="team", name=name, uid=uid or name, **facts)


class Source:
    """Pods as they are now; it takes its time, and fails while it is told to."""

    def __init__(self, clock):
        self.pods = [pod("a"), pod("b")]
        self.reads = 0
        self.takes_s = 0.0
        self.is_broken = False
        self._clock = clock

    async def read(self):
        self.reads += 1
        pods = list(self.pods)
        await self._clock.sleep(self.takes_s)
        if self.is_broken:
            raise SourceError("connection refused")
        return pods


def in_virtual_time(story):
    def test():
        async def main():
            clock = MachineClock()
            source = Source(clock)
            given = {"clock": clock, "source": source}
            pods = NodePods(source, clock, FreshnessRules())
            wanted = signature(story).parameters
            await story(pods=pods, **{name: given[name] for name in wanted if name in given})
            await pods.close()

        run(main())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


def uids(view):
    return None if view is None else sorted(each.uid for each in view.pods.values())


@in_virtual_time
async def test_pods_are_kept_for_a_second(clock, source, pods):
    for _ in range(8):
        await pods.current()
        await clock.sleep(0.09)
    kept = source.reads
    await clock.sleep(0.3)
    await pods.current()

    assert (kept, source.reads) == (1, 2)
    assert pods.age_s() == 0
    assert pods.fresh() is not None


@in_virtual_time
async def test_busy_clients_never_wait_once_pods_are_known(clock, source, pods):
    await pods.current()
    source.takes_s = 0.1
    waited = 0.0
    for _ in range(100):
        began = clock.monotonic()
        await pods.current()
        waited += clock.monotonic() - began
        await clock.sleep(0.05)

    assert waited == 0
    assert 5 <= source.reads <= 7
    assert pods.counts.failures == 0


@in_virtual_time
async def test_callers_of_one_moment_cost_one_read(source, pods):
    source.takes_s = 0.5
    views = await asyncio.gather(*(pods.current() for _ in range(50)))

    assert source.reads == 1
    assert {id(view) for view in views} == {id(views[0])}


@in_virtual_time
async def test_pod_that_is_born_now_is_looked_for_at_once(source, pods):
    view = await pods.current()
    source.pods.append(pod("c"))
    found = await pods.covering(view, [A, B, C])

    assert uids(found) == ["a", "b", "c"]
    assert (source.reads, pods.counts.misses) == (2, 1)


@in_virtual_time
async def test_read_that_was_under_way_does_not_count_for_a_pod_that_came_later(
    clock, source, pods
):
    source.takes_s = 0.5
    under_way = asyncio.create_task(pods.current())
    await clock.sleep(0.1)
    source.pods.append(pod("c"))
    found = await pods.covering(None, [C])

    assert uids(await under_way) is not None
    assert uids(found) == ["a", "b", "c"]


@in_virtual_time
async def test_every_new_pod_is_looked_for_however_shortly_after_another(clock, source, pods):
    view = await pods.current()
    source.pods.append(pod("c"))
    view = await pods.covering(view, [A, B, C])
    await clock.sleep(0.01)
    source.pods.append(pod("d"))
    view = await pods.covering(view, [A, B, C, ("team", "d")])

    assert uids(view) == ["a", "b", "c", "d"]


@in_virtual_time
async def test_pod_of_a_stateful_set_that_is_born_again_is_not_taken_for_its_predecessor(
    clock, source, pods
):
    for ending in ({"is_terminal": True}, {"is_terminating": True}):
        source.pods = [pod("a", "old", **ending)]
        await clock.sleep(2)
        view = await pods.current()
        source.pods.append(pod("a", "new", created="2026-11-16T00:00:00Z"))
        found = await pods.covering(view, [A])

        assert uids(found) == ["new"]


@in_virtual_time
async def test_pod_that_is_not_there_is_not_looked_for_at_every_call(clock, source, pods):
    """Old versions of kubelet list pods that have ended, and ending takes half a minute."""
    source.pods = [pod("a", is_terminating=True)]
    view = await pods.current()
    for _ in range(50):
        view = await pods.covering(view, [A, B])
        await clock.sleep(0.01)

    assert 5 <= source.reads <= 7
    assert uids(view) == ["a"]


@in_virtual_time
async def test_last_good_pods_serve_while_the_source_fails_and_then_no_longer(clock, source, pods):
    await pods.current()
    source.is_broken = True
    await clock.sleep(100)
    during = await pods.current()
    await clock.sleep(199)
    at_last = await pods.current()
    await clock.sleep(2)
    after = await pods.current()

    assert (uids(during), uids(at_last), after) == (["a", "b"], ["a", "b"], None)
    assert pods.counts.last_error == "connection refused"
    assert pods.counts.failing_since_s == 100
    source.is_broken = False
    await clock.sleep(10)
    assert uids(await pods.current()) == ["a", "b"]
    assert (pods.counts.last_error, pods.counts.failing_since_s) == ("", None)


@in_virtual_time
async def test_failing_source_is_asked_ever_less_often(clock, source, pods):
    source.is_broken = True
    for _ in range(6_000):
        await pods.current()
        await clock.sleep(0.01)

    assert 6 <= source.reads <= 10


@in_virtual_time
async def test_missing_pod_tries_a_failing_source_once_and_then_waits_as_others_do(
    clock, source, pods
):
    source.is_broken = True
    await pods.current()
    await clock.sleep(0.2)
    first = source.reads
    await pods.covering(None, [A])
    tried = source.reads
    for _ in range(50):
        await pods.covering(None, [A])
        await clock.sleep(0.01)

    assert (first, tried) == (1, 2)
    assert source.reads == 2


@in_virtual_time
async def test_new_pod_finds_the_source_that_has_come_back(clock, source, pods):
    source.is_broken = True
    for _ in range(5):
        await pods.current()
        await clock.sleep(10)
    await pods.current()
    source.is_broken = False
    await clock.sleep(0.1)

    assert uids(await pods.covering(None, [A])) == ["a", "b"]


@in_virtual_time
async def test_source_that_hangs_is_given_up_in_time(clock, source, pods):
    await pods.current()
    await clock.sleep(5)
    source.takes_s = 3600
    began = clock.monotonic()
    view = await pods.current()

    assert uids(view) == ["a", "b"]
    assert clock.monotonic() - began == 3
    assert pods.counts.last_error == "no answer within 3 s"


@in_virtual_time
async def test_before_the_first_read_there_is_no_age(pods):
    assert pods.age_s() is None
    assert pods.fresh() is None
