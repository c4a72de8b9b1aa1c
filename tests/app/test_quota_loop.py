"""The quota loop: a release is not forgotten while the process may not write."""

from bursar.core.quota.books import RETRY_SECONDS
from support.quota.quota_loop import a_quota_loop
from support.virtual_time import in_virtual_time


@in_virtual_time(on=a_quota_loop)
async def test_a_release_during_an_interruption_of_leadership_is_retried(scene):
    await scene.set_quota("q", pods="1")
    scene.may_write = False
    await scene.create_pod("web", "1")
    await scene.rest()
    assert (scene.books.pending_release_count, scene.loop.counters.released) == (1, 0)

    scene.may_write = True
    await scene.rest(RETRY_SECONDS + 1)

    assert (scene.books.pending_release_count, scene.loop.counters.released) == (0, 1)
