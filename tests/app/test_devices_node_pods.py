"""The cached pods of a node: when they are read again, and what is used while reads fail."""

import asyncio
from inspect import signature

from bursar.app.devices.node_pods import FreshnessRules, NodePods, ReadDeadline
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod
from support.virtual_time import MachineClock, run

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


# ------------------------------------------------------------------ sources that hang or are slow


async def waited(clock, asking):
    """What it gave, and after how long."""
    began = clock.monotonic()
    return await asking, round(clock.monotonic() - began, 3)


@in_virtual_time
async def test_source_that_hangs_is_waited_for_a_moment_by_one_caller_and_then_by_nobody(
    clock, source, pods
):
    await pods.current()
    await clock.sleep(5)
    source.takes_s = 3600
    took = []
    for _ in range(30):
        view, seconds = await waited(clock, pods.current())
        took.append(seconds)
        assert uids(view) == ["a", "b"]
        await clock.sleep(0.1)

    assert took == [1.0] + [0.0] * 29
    assert (pods.counts.failures, pods.counts.last_error) == (1, "no answer within 3 s")
    assert round(pods.counts.failing_since_s, 6) == 8


@in_virtual_time
async def test_source_that_hangs_is_tried_ever_less_often_and_found_when_it_comes_back(
    clock, source, pods
):
    await pods.current()
    await clock.sleep(5)
    source.takes_s = 3600
    waits = 0
    for _ in range(100):
        _, seconds = await waited(clock, pods.current(ReadDeadline(clock.monotonic() + 0.7)))
        waits += seconds > 0
        await clock.sleep(1)
    source.takes_s = 0
    await clock.sleep(13)
    view = await pods.current()

    assert 7 <= source.reads <= 12
    assert waits <= source.reads
    assert (view.as_of_s, pods.counts.failing_since_s) == (clock.monotonic(), None)


@in_virtual_time
async def test_caller_waits_no_longer_than_it_can(clock, source, pods):
    source.takes_s = 3600
    unknown = await waited(clock, pods.current(ReadDeadline(clock.monotonic() + 0.3)))
    at_once = await waited(clock, pods.current(ReadDeadline(clock.monotonic())))

    assert (unknown, at_once) == ((None, 0.3), (None, 0.0))


@in_virtual_time
async def test_where_nothing_is_known_a_slow_source_is_worth_the_wait(clock, source, pods):
    source.takes_s = 2.5
    deadline = ReadDeadline(clock.monotonic() + 3)
    view, seconds = await waited(clock, pods.current(deadline))

    assert (uids(view), seconds, deadline.is_exceeded) == (["a", "b"], 2.5, False)


@in_virtual_time
async def test_read_goes_on_when_whoever_asked_has_left(clock, source, pods):
    source.takes_s = 2
    asking = asyncio.create_task(pods.current())
    await clock.sleep(0.5)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await clock.sleep(2)

    assert source.reads == 1
    assert pods.age_s() == 2.5


@in_virtual_time
async def test_read_that_fails_when_whoever_asked_has_left_is_a_failure_all_the_same(
    clock, source, pods
):
    source.takes_s = 3600
    for _ in range(10):
        deadline = ReadDeadline(clock.monotonic() + 0.7)
        assert await pods.current(deadline) is None
        await clock.sleep(0.3)

    assert (pods.counts.failures, pods.counts.failing_since_s) == (1, 3)
    assert pods.counts.read_seconds == 3


@in_virtual_time
async def test_whoever_closes_ends_what_is_read_and_what_waits_its_turn(clock, source, pods):
    source.takes_s = 3600
    await pods.current(ReadDeadline(0.1))
    await pods.covering(None, [A], ReadDeadline(0.2))
    await pods.close()
    await clock.sleep(10)

    assert (source.reads, pods.counts.failures) == (1, 0)


@in_virtual_time
async def test_new_pod_is_waited_for_longer_than_known_ones_are(clock, source, pods):
    await pods.current()
    await clock.sleep(5)
    source.takes_s = 1.4
    source.pods.append(pod("c"))
    deadline = ReadDeadline(clock.monotonic() + 3)
    view = await pods.current(deadline)
    found, seconds = await waited(clock, pods.covering(view, [A, B, C], deadline))

    assert uids(view) == ["a", "b"]
    assert (uids(found), seconds, deadline.is_exceeded) == (["a", "b", "c"], 1.8, False)


@in_virtual_time
async def test_new_pod_is_not_waited_for_by_every_caller_of_a_source_that_hangs(
    clock, source, pods
):
    await pods.current()
    await clock.sleep(5)
    source.takes_s = 3600
    took, over = [], 0
    for _ in range(100):
        deadline = ReadDeadline(clock.monotonic() + 0.7)
        began = clock.monotonic()
        view = await pods.covering(await pods.current(deadline), [A, B, C], deadline)
        took.append(clock.monotonic() - began)
        over += deadline.is_exceeded or pods.counts.failing_since_s is not None
        assert uids(view) == ["a", "b"]
        await clock.sleep(0.5)

    assert max(took) <= 0.701
    assert sum(each > 0.01 for each in took) <= 15
    assert over == 100


@in_virtual_time
async def test_caller_in_a_hurry_does_not_make_others_miss_a_new_pod(clock, source, pods):
    view = await pods.current()
    source.takes_s = 0.5
    source.pods.append(pod("c"))
    hurried = await pods.covering(view, [A, B, C], ReadDeadline(clock.monotonic()))
    patient, seconds = await waited(clock, pods.covering(hurried, [A, B, C]))

    assert uids(hurried) == ["a", "b"]
    assert uids(patient) == ["a", "b", "c"]
    assert seconds <= 1.0


@in_virtual_time
async def test_pod_that_was_sought_in_a_hurry_once_has_its_time_again_later(clock, source, pods):
    source.takes_s = 0.5
    view = await pods.current()
    await pods.covering(view, [C], ReadDeadline(clock.monotonic()))
    await clock.sleep(20)
    source.pods.append(pod("c"))

    assert uids(await pods.covering(view, [C])) == ["a", "b", "c"]


@in_virtual_time
async def test_who_asks_later_for_the_same_pod_waits_only_for_what_is_left_of_its_time(
    clock, source, pods
):
    view = await pods.current()
    source.takes_s = 3600
    await pods.covering(view, [C], ReadDeadline(clock.monotonic()))
    await clock.sleep(2.5)
    _, seconds = await waited(clock, pods.covering(view, [C]))
    _, again = await waited(clock, pods.covering(view, [C]))

    assert (seconds, again) == (0.5, 0.0)


@in_virtual_time
async def test_pod_that_was_sought_while_the_source_failed_is_sought_again_once_it_does_not(
    clock, source, pods
):
    view = await pods.current()
    source.takes_s = 3600
    await pods.covering(view, [C])
    await clock.sleep(5)
    source.takes_s = 0
    view = await pods.current()
    source.pods.append(pod("c"))

    assert uids(view) == ["a", "b"]
    assert uids(await pods.covering(view, [C])) == ["a", "b", "c"]


@in_virtual_time
async def test_pod_whose_seeker_was_cancelled_at_once_is_read_all_the_same(clock, source, pods):
    view = await pods.current()
    source.pods.append(pod("c"))
    asking = asyncio.create_task(pods.covering(view, [C]))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await clock.sleep(0.1)

    assert uids(pods.fresh()) == ["a", "b", "c"]


@in_virtual_time
async def test_before_the_first_read_there_is_no_age(pods):
    assert pods.age_s() is None
    assert pods.fresh() is None
