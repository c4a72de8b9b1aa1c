"""The quota loop works in slices: no number of pods stops the other tasks."""

from itertools import pairwise

from bursar.app.cluster.election.timing import DEFAULT_TIMING
from bursar.app.quota.quota_loop import SLOW_SECONDS, STEPS_MAX, STEPS_MIN, SliceSize
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE
from support.cluster.election_candidates import Bench
from support.quota.quota_loop import HOME, a_quota_loop
from support.virtual_time import in_virtual_time


@in_virtual_time(on=lambda: a_quota_loop(steps_max=20))
async def test_the_lease_is_renewed_while_a_long_decision_is_made(scene):
    """Telling all pods takes several times as long as the leader has for one renewal."""
    count = 1_000
    async with Bench() as bench:
        election, work = await bench.leader()
        await scene.set_quota("q", cpu="1m")
        scene.wait_seconds = 4 * DEFAULT_TIMING.deadline_seconds / count
        for number in range(count):
            await scene.create_pod(f"p{number}", f"{number + 2}m")
        renewed = bench.spec["renewTime"]
        while len(scene.waits) < count:
            await scene.rest(0.1)
            assert election.is_leader

        assert work.ended == []
    assert bench.spec["renewTime"] > renewed
    assert scene.clock.monotonic() > 4 * DEFAULT_TIMING.deadline_seconds


@in_virtual_time(on=a_quota_loop)
async def test_slices_become_smaller_if_it_takes_long_to_tell_why_pods_wait(scene):
    """A tenant whose quotas have hundreds of limits decides how long the text is."""
    told = []
    scene.loop.between_slices = lambda: told.append(len(scene.waits))
    await scene.set_quota("q", cpu="1m")
    scene.wait_seconds = 2 * SLOW_SECONDS / STEPS_MIN
    for number in range(2 * STEPS_MAX):
        await scene.create_pod(f"p{number}", f"{number + 2}m")
    await scene.rest()

    assert len(scene.waits) == 2 * STEPS_MAX
    assert max(after - before for before, after in pairwise(told[-5:])) <= STEPS_MIN


@in_virtual_time(on=lambda: a_quota_loop(steps_max=20))
async def test_young_objects_are_collected_between_slices_of_a_long_decision_alone(scene):
    slices = []
    scene.loop.between_slices = lambda: slices.append(scene.loop.counters.decisions)
    await scene.set_quota("q", cpu="1m")
    await scene.create_pod("few", "2m")
    await scene.rest()
    assert slices == []

    for number in range(100):
        await scene.create_pod(f"p{number}", f"{number + 3}m")
    await scene.rest()

    assert slices


@in_virtual_time(on=a_quota_loop)
async def test_pods_to_count_again_are_counted_before_the_next_release(scene):
    await scene.set_quota("q", cpu="1")
    await scene.create_pod("web", "1")

    scene.loop.recount([PodKey(HOME, "web"), PodKey(HOME, "gone")])
    await scene.rest()

    assert scene.loop.counters.released == 1


@in_virtual_time(on=a_quota_loop)
async def test_a_pod_whose_cost_changes_again_and_again_is_counted_again_once(scene):
    """A tenant decides how often its VMs change, and how many pods claim to run them."""
    await scene.set_quota("q", cpu="1")
    pods = [PodKey(HOME, f"p{number}") for number in range(2 * STEPS_AT_ONCE)]
    for _ in range(10):
        scene.loop.recount(pods)

    books = scene.loop.books
    books.decide(len(pods) + 1)
    assert not books.is_catching_up(HOME)
    scene.loop.recount(pods[:1])
    assert not books.is_catching_up(HOME)


def test_slices_become_smaller_while_they_are_slow_and_larger_while_they_are_fast():
    size = SliceSize()
    sizes = []
    for seconds in (0.5, 0.01, 0.5, 0.5, 0.5, 0.5, 0.5, 0.01):
        size.adapt(seconds)
        sizes.append(size.steps)
    assert sizes == [100, 100, 50, 25, 12, STEPS_MIN, STEPS_MIN, STEPS_MIN]

    for _ in range(10):
        size.adapt(0.001)
    assert size.steps == STEPS_MAX
