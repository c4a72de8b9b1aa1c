"""The quota loop: a release is not forgotten, and does not hold up others."""

import asyncio
from functools import partial
from typing import Any

import pytest

from bursar.app.cluster.ports import UnavailableError
from bursar.app.cluster.time_limit import end
from bursar.app.quota.quota_loop import LIFTS_MAX
from bursar.core.quota.releases import RETRY_SECONDS
from support.faults.line import Line, Request
from support.quota.quota_loop import HOME, WRITE_SECONDS, a_quota_loop
from support.virtual_time import in_virtual_time

HOUR_S = 3600


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


# ------------------------------------------------------------------ since when a pod waits


async def a_large_and_a_small_pod(scene):
    """One pod that does not fit, and one behind it that does."""
    await scene.create_pod("large", "2")
    await scene.create_pod("small", "1")


@in_virtual_time(on=a_quota_loop)
async def test_a_pod_does_not_begin_to_wait_when_the_last_event_came_but_when_it_comes(scene):
    """Otherwise it would hold up others at once after a quiet hour."""
    await scene.set_quota("q", cpu="2")
    await scene.create_running_pod("running")
    await scene.rest(HOUR_S)

    await a_large_and_a_small_pod(scene)
    await scene.rest()

    assert scene.loop.counters.released == 1


@in_virtual_time(on=partial(a_quota_loop, is_running=False))
async def test_pods_that_waited_before_the_start_begin_to_wait_again(scene):
    await scene.set_quota("q", cpu="2")
    await scene.create_running_pod("running")
    await a_large_and_a_small_pod(scene)
    await scene.rest(HOUR_S)

    jobs = (*(informer.run() for informer in scene.informers), scene.loop.run())
    tasks = [asyncio.create_task(job) for job in jobs]
    await scene.rest()
    await end(*tasks)

    assert scene.loop.counters.released == 1


# ------------------------------------------------------------------ webhooks of others


class BrokenWebhook(Line):
    """Pods of one namespace are behind a webhook that fails or hangs."""

    namespace = "broken"
    is_repaired = False
    hangs = False

    async def pass_on(self, request: Request) -> Any:
        is_behind = request.verb == "patch" and request.key.namespace == self.namespace
        if is_behind and not self.is_repaired:
            if self.hangs:
                await asyncio.sleep(HOUR_S)
            raise UnavailableError("failed calling webhook: connection refused")
        return await request.send()


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
@in_virtual_time(on=partial(a_quota_loop, line=BrokenWebhook))
async def test_pods_behind_a_broken_webhook_hold_up_no_pods_of_other_namespaces(scene, hangs):
    scene.line.hangs = hangs
    await scene.create_namespace("broken")
    for number in range(3 * LIFTS_MAX):
        await scene.create_pod(f"p{number}", "1", namespace="broken")
    await scene.rest(2 * WRITE_SECONDS)
    for number in range(LIFTS_MAX):
        await scene.create_pod(f"fine{number}", "1")

    await scene.rest(1)

    assert scene.loop.counters.released == LIFTS_MAX


@in_virtual_time(on=partial(a_quota_loop, line=BrokenWebhook))
async def test_pods_behind_a_webhook_are_released_when_it_is_repaired(scene):
    await scene.create_namespace("broken")
    for number in range(2 * LIFTS_MAX):
        await scene.create_pod(f"p{number}", "1", namespace="broken")
    await scene.rest(HOUR_S)
    assert scene.books.pending_release_count == 2 * LIFTS_MAX
    assert scene.waits[-1].refusals[0].message().endswith("connection refused")

    scene.line.is_repaired = True
    await scene.rest(2 * RETRY_SECONDS)

    assert (scene.books.pending_release_count, scene.loop.counters.released) == (0, 2 * LIFTS_MAX)


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
@in_virtual_time(on=partial(a_quota_loop, line=BrokenWebhook))
async def test_pods_wait_again_when_their_namespace_is_selected_again(scene, hangs):
    """Their releases without a quota were decided before: some wait for a worker or a retry."""
    scene.line.namespace, scene.line.hangs = HOME, hangs
    await scene.label_namespace(HOME, None)
    for number in range(3 * LIFTS_MAX):
        await scene.create_pod(f"p{number}", "1")
    await scene.rest(2 * WRITE_SECONDS)
    assert (scene.books.pending_release_count, scene.loop.counters.released) == (3 * LIFTS_MAX, 0)

    await scene.set_quota("q", pods="2")
    await scene.label_namespace(HOME, "")
    await scene.rest(3 * WRITE_SECONDS)
    scene.line.is_repaired = True
    await scene.rest(HOUR_S)

    assert (scene.loop.counters.released, scene.loop.counters.exempt) == (2, 0)
