"""The cached pods of a node: when they are read again, and what is used while reads fail."""

import asyncio

from bursar.app.devices.node_pods import FreshnessRules, NodePods, ReadDeadline
from bursar.app.devices.ports import SourceError
from bursar.core.devices.pod import DevicePod
from support.virtual_time import MachineClock, in_virtual_time

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


class Node:
    """The pods of a node, their source, and its clock."""

    def __init__(self):
        self.clock = MachineClock()
        self.source = Source(self.clock)
        self.pods = NodePods(self.source, self.clock, FreshnessRules())

    def deadline(self, seconds):
        return ReadDeadline(self.clock.monotonic() + seconds)

    async def waited(self, asking):
        """What it gave, and after how long."""
        began = self.clock.monotonic()
        return await asking, round(self.clock.monotonic() - began, 3)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.pods.close()


def uids(view):
    return None if view is None else sorted(each.uid for each in view.pods.values())


@in_virtual_time(on=Node)
async def test_pods_are_kept_for_a_second(node):
    for _ in range(8):
        await node.pods.current()
        await node.clock.sleep(0.09)
    kept = node.source.reads
    await node.clock.sleep(0.3)
    await node.pods.current()

    assert (kept, node.source.reads) == (1, 2)
    assert node.pods.age_s() == 0
    assert node.pods.fresh() is not None


@in_virtual_time(on=Node)
async def test_busy_clients_never_wait_once_pods_are_known(node):
    await node.pods.current()
    node.source.takes_s = 0.1
    waited = 0.0
    for _ in range(100):
        began = node.clock.monotonic()
        await node.pods.current()
        waited += node.clock.monotonic() - began
        await node.clock.sleep(0.05)

    assert waited == 0
    assert 5 <= node.source.reads <= 7
    assert node.pods.counts.failures == 0


@in_virtual_time(on=Node)
async def test_callers_of_one_moment_cost_one_read(node):
    node.source.takes_s = 0.5
    views = await asyncio.gather(*(node.pods.current() for _ in range(50)))

    assert node.source.reads == 1
    assert {id(view) for view in views} == {id(views[0])}


@in_virtual_time(on=Node)
async def test_pod_that_is_born_now_is_looked_for_at_once(node):
    view = await node.pods.current()
    node.source.pods.append(pod("c"))
    found = await node.pods.covering(view, [A, B, C])

    assert uids(found) == ["a", "b", "c"]
    assert (node.source.reads, node.pods.counts.misses) == (2, 1)


@in_virtual_time(on=Node)
async def test_read_that_was_under_way_does_not_count_for_a_pod_that_came_later(node):
    node.source.takes_s = 0.5
    under_way = asyncio.create_task(node.pods.current())
    await node.clock.sleep(0.1)
    node.source.pods.append(pod("c"))
    found = await node.pods.covering(None, [C])

    assert uids(await under_way) is not None
    assert uids(found) == ["a", "b", "c"]


@in_virtual_time(on=Node)
async def test_every_new_pod_is_looked_for_however_shortly_after_another(node):
    view = await node.pods.current()
    node.source.pods.append(pod("c"))
    view = await node.pods.covering(view, [A, B, C])
    await node.clock.sleep(0.01)
    node.source.pods.append(pod("d"))
    view = await node.pods.covering(view, [A, B, C, ("team", "d")])

    assert uids(view) == ["a", "b", "c", "d"]


@in_virtual_time(on=Node)
async def test_pod_of_a_stateful_set_that_is_born_again_is_not_taken_for_its_predecessor(node):
    for ending in ({"is_terminal": True}, {"is_terminating": True}):
        node.source.pods = [pod("a", "old", **ending)]
        await node.clock.sleep(2)
        view = await node.pods.current()
        node.source.pods.append(pod("a", "new", created="2026-11-16T00:00:00Z"))
        found = await node.pods.covering(view, [A])

        assert uids(found) == ["new"]


@in_virtual_time(on=Node)
async def test_pod_that_is_not_there_is_not_looked_for_at_every_call(node):
    """Old versions of kubelet list pods that have ended, and ending takes half a minute."""
    node.source.pods = [pod("a", is_terminating=True)]
    view = await node.pods.current()
    for _ in range(50):
        view = await node.pods.covering(view, [A, B])
        await node.clock.sleep(0.01)

    assert 5 <= node.source.reads <= 7
    assert uids(view) == ["a"]


@in_virtual_time(on=Node)
async def test_last_good_pods_serve_while_the_source_fails_and_then_no_longer(node):
    await node.pods.current()
    node.source.is_broken = True
    await node.clock.sleep(100)
    during = await node.pods.current()
    await node.clock.sleep(199)
    at_last = await node.pods.current()
    await node.clock.sleep(2)
    after = await node.pods.current()

    assert (uids(during), uids(at_last), after) == (["a", "b"], ["a", "b"], None)
    assert node.pods.counts.last_error == "connection refused"
    assert node.pods.counts.failing_since_s == 100
    node.source.is_broken = False
    await node.clock.sleep(10)
    assert uids(await node.pods.current()) == ["a", "b"]
    assert (node.pods.counts.last_error, node.pods.counts.failing_since_s) == ("", None)


@in_virtual_time(on=Node)
async def test_failing_source_is_asked_ever_less_often(node):
    node.source.is_broken = True
    for _ in range(6_000):
        await node.pods.current()
        await node.clock.sleep(0.01)

    assert 6 <= node.source.reads <= 10


@in_virtual_time(on=Node)
async def test_missing_pod_tries_a_failing_source_once_and_then_waits_as_others_do(node):
    node.source.is_broken = True
    await node.pods.current()
    await node.clock.sleep(0.2)
    first = node.source.reads
    await node.pods.covering(None, [A])
    tried = node.source.reads
    for _ in range(50):
        await node.pods.covering(None, [A])
        await node.clock.sleep(0.01)

    assert (first, tried) == (1, 2)
    assert node.source.reads == 2


@in_virtual_time(on=Node)
async def test_new_pod_finds_the_source_that_has_come_back(node):
    node.source.is_broken = True
    for _ in range(5):
        await node.pods.current()
        await node.clock.sleep(10)
    await node.pods.current()
    node.source.is_broken = False
    await node.clock.sleep(0.1)

    assert uids(await node.pods.covering(None, [A])) == ["a", "b"]


# ------------------------------------------------------------------ sources that hang or are slow


@in_virtual_time(on=Node)
async def test_source_that_hangs_is_waited_for_a_moment_by_one_caller_and_then_by_nobody(node):
    await node.pods.current()
    await node.clock.sleep(5)
    node.source.takes_s = 3600
    took = []
    for _ in range(30):
        view, seconds = await node.waited(node.pods.current())
        took.append(seconds)
        assert uids(view) == ["a", "b"]
        await node.clock.sleep(0.1)

    assert took == [1.0] + [0.0] * 29
    assert (node.pods.counts.failures, node.pods.counts.last_error) == (1, "no answer within 3 s")
    assert round(node.pods.counts.failing_since_s, 6) == 8


@in_virtual_time(on=Node)
async def test_source_that_hangs_is_tried_ever_less_often_and_found_when_it_comes_back(node):
    await node.pods.current()
    await node.clock.sleep(5)
    node.source.takes_s = 3600
    waits = 0
    for _ in range(100):
        _, seconds = await node.waited(node.pods.current(node.deadline(0.7)))
        waits += seconds > 0
        await node.clock.sleep(1)
    node.source.takes_s = 0
    await node.clock.sleep(13)
    view = await node.pods.current()

    assert 7 <= node.source.reads <= 12
    assert waits <= node.source.reads
    assert (view.as_of_s, node.pods.counts.failing_since_s) == (node.clock.monotonic(), None)


@in_virtual_time(on=Node)
async def test_caller_waits_no_longer_than_it_can(node):
    node.source.takes_s = 3600
    unknown = await node.waited(node.pods.current(node.deadline(0.3)))
    at_once = await node.waited(node.pods.current(node.deadline(0)))

    assert (unknown, at_once) == ((None, 0.3), (None, 0.0))


@in_virtual_time(on=Node)
async def test_where_nothing_is_known_a_slow_source_is_worth_the_wait(node):
    node.source.takes_s = 2.5
    deadline = node.deadline(3)
    view, seconds = await node.waited(node.pods.current(deadline))

    assert (uids(view), seconds, deadline.is_exceeded) == (["a", "b"], 2.5, False)


@in_virtual_time(on=Node)
async def test_read_goes_on_when_whoever_asked_has_left(node):
    node.source.takes_s = 2
    asking = asyncio.create_task(node.pods.current())
    await node.clock.sleep(0.5)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await node.clock.sleep(2)

    assert node.source.reads == 1
    assert node.pods.age_s() == 2.5


@in_virtual_time(on=Node)
async def test_read_that_fails_when_whoever_asked_has_left_is_a_failure_all_the_same(node):
    node.source.takes_s = 3600
    for _ in range(10):
        deadline = node.deadline(0.7)
        assert await node.pods.current(deadline) is None
        await node.clock.sleep(0.3)

    assert (node.pods.counts.failures, node.pods.counts.failing_since_s) == (1, 3)
    assert node.pods.counts.read_seconds == 3


@in_virtual_time(on=Node)
async def test_whoever_closes_ends_what_is_read_and_what_waits_its_turn(node):
    node.source.takes_s = 3600
    await node.pods.current(ReadDeadline(0.1))
    await node.pods.covering(None, [A], ReadDeadline(0.2))
    await node.pods.close()
    await node.clock.sleep(10)

    assert (node.source.reads, node.pods.counts.failures) == (1, 0)


@in_virtual_time(on=Node)
async def test_new_pod_is_waited_for_longer_than_known_ones_are(node):
    await node.pods.current()
    await node.clock.sleep(5)
    node.source.takes_s = 1.4
    node.source.pods.append(pod("c"))
    deadline = node.deadline(3)
    view = await node.pods.current(deadline)
    found, seconds = await node.waited(node.pods.covering(view, [A, B, C], deadline))

    assert uids(view) == ["a", "b"]
    assert (uids(found), seconds, deadline.is_exceeded) == (["a", "b", "c"], 1.8, False)


@in_virtual_time(on=Node)
async def test_new_pod_is_not_waited_for_by_every_caller_of_a_source_that_hangs(node):
    await node.pods.current()
    await node.clock.sleep(5)
    node.source.takes_s = 3600
    took, over = [], 0
    for _ in range(100):
        deadline = node.deadline(0.7)
        began = node.clock.monotonic()
        view = await node.pods.covering(await node.pods.current(deadline), [A, B, C], deadline)
        took.append(node.clock.monotonic() - began)
        over += deadline.is_exceeded or node.pods.counts.failing_since_s is not None
        assert uids(view) == ["a", "b"]
        await node.clock.sleep(0.5)

    assert max(took) <= 0.701
    assert sum(each > 0.01 for each in took) <= 15
    assert over == 100


@in_virtual_time(on=Node)
async def test_caller_in_a_hurry_does_not_make_others_miss_a_new_pod(node):
    view = await node.pods.current()
    node.source.takes_s = 0.5
    node.source.pods.append(pod("c"))
    hurried = await node.pods.covering(view, [A, B, C], node.deadline(0))
    patient, seconds = await node.waited(node.pods.covering(hurried, [A, B, C]))

    assert uids(hurried) == ["a", "b"]
    assert uids(patient) == ["a", "b", "c"]
    assert seconds <= 1.0


@in_virtual_time(on=Node)
async def test_pod_that_was_sought_in_a_hurry_once_has_its_time_again_later(node):
    node.source.takes_s = 0.5
    view = await node.pods.current()
    await node.pods.covering(view, [C], node.deadline(0))
    await node.clock.sleep(20)
    node.source.pods.append(pod("c"))

    assert uids(await node.pods.covering(view, [C])) == ["a", "b", "c"]


@in_virtual_time(on=Node)
async def test_who_asks_later_for_the_same_pod_waits_only_for_what_is_left_of_its_time(node):
    view = await node.pods.current()
    node.source.takes_s = 3600
    await node.pods.covering(view, [C], node.deadline(0))
    await node.clock.sleep(2.5)
    _, seconds = await node.waited(node.pods.covering(view, [C]))
    _, again = await node.waited(node.pods.covering(view, [C]))

    assert (seconds, again) == (0.5, 0.0)


@in_virtual_time(on=Node)
async def test_pod_that_was_sought_while_the_source_failed_is_sought_again_once_it_does_not(node):
    view = await node.pods.current()
    node.source.takes_s = 3600
    await node.pods.covering(view, [C])
    await node.clock.sleep(5)
    node.source.takes_s = 0
    view = await node.pods.current()
    node.source.pods.append(pod("c"))

    assert uids(view) == ["a", "b"]
    assert uids(await node.pods.covering(view, [C])) == ["a", "b", "c"]


@in_virtual_time(on=Node)
async def test_pod_whose_seeker_was_cancelled_at_once_is_read_all_the_same(node):
    view = await node.pods.current()
    node.source.pods.append(pod("c"))
    asking = asyncio.create_task(node.pods.covering(view, [C]))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await node.clock.sleep(0.1)

    assert uids(node.pods.fresh()) == ["a", "b", "c"]


@in_virtual_time(on=Node)
async def test_before_the_first_read_there_is_no_age(node):
    assert node.pods.age_s() is None
    assert node.pods.fresh() is None
