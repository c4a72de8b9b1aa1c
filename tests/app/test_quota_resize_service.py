"""Promises to pods that grow: within quotas, once, for a while, and never from stale books."""

import json

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key, UnavailableError
from bursar.app.quota.resize import STALE_SECONDS_MAX, ResizeService, staleness_problem
from bursar.core.quota.books import STEPS_AT_ONCE
from bursar.core.quota.refusal import Reason, explanation
from support.quota.quota_loop import HOME, QuotaLoopScene, a_quota_loop
from support.virtual_time import in_virtual_time


def asked_by(scene: QuotaLoopScene) -> ResizeService:
    return ResizeService(scene.loop, scene.informers, clock=scene.clock)


async def grown(scene: QuotaLoopScene, name: str, cpu: str):
    """The row of a pod as it would be with that much."""
    pod = json.loads(await scene.cluster.get(PODS, Key(HOME, name)))
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return scene.decode(json.dumps(pod).encode())


async def furnished(scene: QuotaLoopScene) -> None:
    await scene.set_quota("q", requests_cpu="4")
    await scene.create_pod("web", "1")
    await scene.rest()


@in_virtual_time(on=a_quota_loop)
async def test_a_pod_may_grow_into_the_room_there_is_and_not_beyond(scene):
    await furnished(scene)
    resizes = asked_by(scene)

    assert resizes.resize(await grown(scene, "web", "4"), "1", is_dry_run=False) == ()
    [refusal] = resizes.resize(await grown(scene, "web", "5"), "2", is_dry_run=False)

    assert refusal.reason is Reason.QUOTA_EXCEEDED
    assert explanation([refusal]).startswith("exceeded quota: q, requested: requests.cpu=")


@in_virtual_time(on=a_quota_loop)
async def test_what_is_promised_is_not_given_to_others_until_it_lapses(scene):
    await furnished(scene)
    assert asked_by(scene).resize(await grown(scene, "web", "4"), "1", is_dry_run=False) == ()

    await scene.create_pod("next", "2")
    await scene.rest()
    assert scene.waits[-1].row.name == "next"
    assert scene.loop.counters.released == 1

    # The resize was never stored. The resizes wakes up for that by itself.
    await scene.rest(30)
    assert scene.loop.counters.released == 2


@in_virtual_time(on=a_quota_loop)
async def test_asking_twice_under_one_id_is_asking_once(scene):
    await furnished(scene)
    resizes = asked_by(scene)
    row = await grown(scene, "web", "3")

    assert [resizes.resize(row, "1", is_dry_run=False) for _ in range(3)] == [()] * 3
    assert scene.books.ledger.reservation_count == 1


@in_virtual_time(on=a_quota_loop)
async def test_a_dry_run_reserves_nothing(scene):
    await furnished(scene)

    row = await grown(scene, "web", "3")
    assert asked_by(scene).resize(row, "1", is_dry_run=True) == ()
    assert scene.books.ledger.reservation_count == 0


@in_virtual_time(on=lambda: a_quota_loop(is_running=False))
async def test_nothing_is_promised_before_the_books_are_open(scene):
    await scene.create_pod("web", "1")

    with pytest.raises(UnavailableError, match="not open"):
        asked_by(scene).resize(await grown(scene, "web", "2"), "1", is_dry_run=False)


class Quiet:
    """An informer that has not heard anything for a while."""

    resource = PODS

    def __init__(self, staleness_seconds: float, *, is_synced: bool = True) -> None:
        self.staleness_seconds, self.is_synced = staleness_seconds, is_synced


@in_virtual_time(on=a_quota_loop)
async def test_nothing_is_promised_from_books_that_may_be_old(scene):
    await furnished(scene)
    quiet = Quiet(STALE_SECONDS_MAX + 1)
    resizes = ResizeService(scene.loop, (*scene.informers, quiet), clock=scene.clock)

    with pytest.raises(UnavailableError, match="pods have not been heard of for 121 s"):
        resizes.resize(await grown(scene, "web", "2"), "1", is_dry_run=False)
    assert scene.books.ledger.reservation_count == 0


def test_what_is_wrong_with_informers_is_told():
    assert staleness_problem([]) == ""
    assert staleness_problem([Quiet(STALE_SECONDS_MAX)]) == ""
    unsynced = Quiet(float("inf"), is_synced=False)
    assert staleness_problem([Quiet(0), unsynced]) == "pods have not been listed yet"
    assert staleness_problem([Quiet(3)], 2) == "pods have not been heard of for 3 s"


@in_virtual_time(on=a_quota_loop)
async def test_nothing_is_promised_while_pods_are_counted_for_a_changed_quota(scene):
    await furnished(scene)
    row, resizes = await grown(scene, "web", "2"), asked_by(scene)
    scene.books.enter_in_steps(iter([None] * 2 * STEPS_AT_ONCE))

    with pytest.raises(UnavailableError, match="are being counted"):
        resizes.resize(row, "1", is_dry_run=False)
    scene.loop.notify()
    await scene.rest()

    assert resizes.resize(row, "1", is_dry_run=False) == ()
