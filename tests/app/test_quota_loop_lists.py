"""The quota loop decides about whole states, also when it learns of much at once."""

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key
from support.quota.quota_loop import HOME, PENDING_MAX, a_quota_loop
from support.until import until

FAST = 1000
"""So much faster than usual does the scene's time pass."""


async def test_nothing_is_decided_in_the_middle_of_a_list():
    """A list shows first which pods are gone, and then which others use their room."""
    number = 8 * PENDING_MAX
    # In virtual time the loop would decide only when there is nothing else to do.
    async with a_quota_loop(rate=FAST) as scene:
        await scene.set_quota("q", pods=str(number))
        for each in range(number):
            await scene.create_running_pod(f"old-{each}")
        await scene.create_pod("waiting", "1")
        await until(lambda: len(scene.waits) == 1)

        scene.cluster.cut_watches(is_fault=True)
        for each in range(number):
            await scene.cluster.delete(PODS, Key(HOME, f"old-{each}"), grace_seconds=0)
            await scene.create_running_pod(f"new-{each}")
        scene.cluster.compact()
        await until(lambda: "new-0" in dict(scene.books.ledger.pods_of(HOME)))
        await until(lambda: scene.books.ledger.pod_count == number)

        assert scene.sources.pods.counters.relists == 1
        assert (scene.loop.counters.released, scene.books.pending_release_count) == (0, 0)
