"""Promises to pods that grow: within quotas, once, for a while, and never from stale books."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key, Page, UnavailableError
from bursar.app.cluster.time_limit import end
from bursar.app.quota.growth.resize import (
    COMMIT_SECONDS,
    KNOWN_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    STALE_SECONDS_MAX,
    WAITERS_MAX,
    ResizeService,
    staleness_problem,
)
from bursar.core.quota.growth.promises import UNKNOWN_POD
from bursar.core.quota.refusal import Reason, explanation
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE
from support.quota.quota_loop import HOME, QuotaLoopScene, a_quota_loop
from support.virtual_time import in_virtual_time


def asked_by(scene: QuotaLoopScene, **options: Any) -> ResizeService:
    return scene.resize_service(**options)


async def grown(scene: QuotaLoopScene, name: str, cpu: str):
    """The row of a pod as it would be with that much."""
    pod = json.loads(await scene.cluster.get(PODS, Key(HOME, name)))
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return scene.decode(json.dumps(pod).encode())


@asynccontextmanager
async def working(resizes: ResizeService) -> AsyncIterator[None]:
    """The service ends promises meanwhile."""
    task = asyncio.create_task(resizes.run())
    try:
        yield
    finally:
        await end(task)


class SilentInformer:
    """The informer of pods, whose watch has sent nothing since it became silent."""

    def __init__(self, pods: Any, *, is_silent: bool = True) -> None:
        self._pods, self.is_silent = pods, is_silent
        self._silent_since = pods.resource_version
        self.suspects: frozenset[Key] = frozenset()
        self.hidden: set[str] = set()
        self.shown: dict[Key, Any] = {}
        """States that the books have not been told of yet."""

    @property
    def resource_version(self) -> str:
        return self._silent_since if self.is_silent else self._pods.resource_version

    def find(self, key: Key) -> Any:
        return None if key.name in self.hidden else self.shown.get(key, self._pods.find(key))


class UnreachableReader:
    """The cluster, while it cannot be listed."""

    def __init__(self, cluster: Any) -> None:
        self._cluster, self.is_reachable = cluster, False

    async def list(self, *args: Any, **options: Any) -> Page:
        if not self.is_reachable:
            raise UnavailableError("no connection")
        return await self._cluster.list(*args, **options)


async def furnished(scene: QuotaLoopScene) -> None:
    await scene.set_quota("q", requests_cpu="4")
    await scene.create_pod("web", "1")
    await scene.rest()


@in_virtual_time(on=a_quota_loop)
async def test_a_pod_may_grow_into_the_room_there_is_and_not_beyond(scene):
    await furnished(scene)
    resizes = asked_by(scene)

    assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()
    [refusal] = await resizes.resize(await grown(scene, "web", "5"), is_dry_run=False)

    assert refusal.reason is Reason.QUOTA_EXCEEDED
    assert explanation([refusal]).startswith("exceeded quota: q, requested: requests.cpu=")


@in_virtual_time(on=a_quota_loop)
async def test_what_is_promised_is_not_given_to_others_until_it_cannot_be_stored_any_more(scene):
    await furnished(scene)
    resizes = asked_by(scene)
    async with working(resizes):
        assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()
        await scene.create_pod("next", "2")

        await scene.rest(REQUEST_SECONDS)
        assert scene.waits[-1].row.name == "next"
        assert scene.loop.counters.released == 1

        # The resize was never stored. The service wakes up for that by itself.
        await scene.rest(COMMIT_SECONDS + RETRY_SECONDS)
        assert scene.loop.counters.released == 2


@in_virtual_time(on=a_quota_loop)
async def test_the_bound_follows_the_request_timeout_of_the_api_server(scene):
    await furnished(scene)
    resizes = asked_by(scene, request_seconds=600)
    async with working(resizes):
        assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()
        await scene.create_pod("next", "2")

        await scene.rest(600)
        assert scene.loop.counters.released == 1
        await scene.rest(COMMIT_SECONDS + RETRY_SECONDS)
        assert scene.loop.counters.released == 2


@in_virtual_time(on=a_quota_loop)
async def test_a_promise_is_kept_while_the_watch_is_silent(scene):
    """The resize may be stored: the watch has just not shown it."""
    await furnished(scene)
    pods = SilentInformer(scene.sources.pods)
    resizes = asked_by(scene, pods=pods)
    async with working(resizes):
        assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()
        await scene.create_pod("next", "2")

        await scene.rest(10 * REQUEST_SECONDS)
        assert scene.loop.counters.released == 1

        pods.is_silent = False
        await scene.rest()
        assert scene.loop.counters.released == 2


@in_virtual_time(on=a_quota_loop)
async def test_a_promise_is_kept_while_the_newest_version_cannot_be_read(scene):
    await furnished(scene)
    reader = UnreachableReader(scene.cluster)
    resizes = asked_by(scene, reader=reader)
    async with working(resizes):
        assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()
        await scene.create_pod("next", "2")

        await scene.rest(10 * REQUEST_SECONDS)
        assert scene.loop.counters.released == 1

        reader.is_reachable = True
        await scene.rest(2 * RETRY_SECONDS)
        assert scene.loop.counters.released == 2


class RestoredCluster:
    """A cluster that has lost its latest writes since it was listed for the first time."""

    def __init__(self, cluster: Any) -> None:
        self._cluster, self.lists = cluster, 0

    async def list(self, *args: Any, **options: Any) -> Page:
        self.lists += 1
        page = await self._cluster.list(*args, **options)
        return replace(page, resource_version="999999") if self.lists == 1 else page


@in_virtual_time(on=a_quota_loop)
async def test_a_promise_ends_although_etcd_was_restored_to_an_older_state(scene):
    """The watch may not reach the version that was read before for days."""
    await furnished(scene)
    resizes = asked_by(scene, reader=RestoredCluster(scene.cluster))
    async with working(resizes):
        assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()
        await scene.rest(REQUEST_SECONDS + COMMIT_SECONDS + STALE_SECONDS_MAX - 1)
        assert len(scene.books.growth) == 1

        await scene.rest()
        assert len(scene.books.growth) == 0


@in_virtual_time(on=a_quota_loop)
async def test_a_promise_is_kept_while_the_latest_state_of_the_pod_cannot_be_decoded(scene):
    await furnished(scene)
    pods = SilentInformer(scene.sources.pods, is_silent=False)
    pods.suspects = frozenset({Key(HOME, "web")})
    resizes = asked_by(scene, pods=pods)
    async with working(resizes):
        assert await resizes.resize(await grown(scene, "web", "4"), is_dry_run=False) == ()

        await scene.rest(2 * REQUEST_SECONDS)
        assert len(scene.books.growth) == 1

        pods.suspects = frozenset()
        await scene.rest()
        assert len(scene.books.growth) == 0


@in_virtual_time(on=a_quota_loop)
async def test_a_promise_is_kept_until_the_books_have_charged_what_the_watch_has_shown(scene):
    await furnished(scene)
    pods = SilentInformer(scene.sources.pods, is_silent=False)
    resizes = asked_by(scene, pods=pods)
    async with working(resizes):
        row = await grown(scene, "web", "4")
        assert await resizes.resize(row, is_dry_run=False) == ()
        newer = row._replace(packed_stamp=row.stamp._replace(resource_version="999999"))
        pods.shown[Key(HOME, "web")] = newer

        await scene.rest(2 * REQUEST_SECONDS)
        assert len(scene.books.growth) == 1

        scene.books.see_pod(newer)
        assert len(scene.books.growth) == 0


@in_virtual_time(on=a_quota_loop)
async def test_a_promise_that_is_asked_for_again_is_kept_longer(scene):
    await furnished(scene)
    resizes = asked_by(scene)
    async with working(resizes):
        row = await grown(scene, "web", "4")
        assert await resizes.resize(row, is_dry_run=False) == ()
        await scene.rest(REQUEST_SECONDS)
        assert await resizes.resize(row, is_dry_run=False) == ()

        await scene.rest(REQUEST_SECONDS)
        assert len(scene.books.growth) == 1
        await scene.rest(REQUEST_SECONDS)
        assert len(scene.books.growth) == 0


@pytest.mark.parametrize("hours", [1, -1])
@in_virtual_time(on=a_quota_loop)
async def test_a_step_of_the_wall_clock_changes_no_promise(scene, hours):
    """Eighteen of ten CPUs were granted so once."""
    await scene.set_quota("q", requests_cpu="10")
    for name in ("web", "db"):
        await scene.create_pod(name, "1")
    await scene.rest()
    resizes = asked_by(scene)
    async with working(resizes):
        scene.clock.offset += timedelta(hours=hours)
        await scene.create_pod("tick", "1m")
        await scene.rest()
        assert await resizes.resize(await grown(scene, "web", "8"), is_dry_run=False) == ()
        scene.clock.offset -= timedelta(hours=hours)
        await scene.create_pod("tock", "1m")
        await scene.rest()

        [refusal] = await resizes.resize(await grown(scene, "db", "8"), is_dry_run=False)
        assert refusal.reason is Reason.QUOTA_EXCEEDED
        await scene.rest(2 * REQUEST_SECONDS)
        assert len(scene.books.growth) == 0


# ------------------------------------------------------------------ who is known


@in_virtual_time(on=a_quota_loop)
async def test_a_pod_that_does_not_exist_is_promised_nothing_and_told_nothing(scene):
    await furnished(scene)
    row = await grown(scene, "web", "1000")

    for stranger in (
        row._replace(name="no-such-pod"),
        row._replace(packed_stamp=row.stamp._replace(uid="made-up")),
        row._replace(profile=replace(row.profile, namespace="elsewhere")),
        row._replace(packed_stamp=row.stamp._replace(resource_version="999999")),
    ):
        assert await asked_by(scene).resize(stranger, is_dry_run=True) == (UNKNOWN_POD,)
        assert await asked_by(scene).resize(stranger, is_dry_run=False) == (UNKNOWN_POD,)
    assert len(scene.books.growth) == 0


@in_virtual_time(on=a_quota_loop)
async def test_a_question_that_comes_before_the_watch_event_waits_for_it(scene):
    await furnished(scene)
    pods = SilentInformer(scene.sources.pods)
    pods.hidden.add("web")
    asked = asyncio.create_task(
        asked_by(scene, pods=pods).resize(await grown(scene, "web", "2"), is_dry_run=False)
    )
    await scene.rest(KNOWN_SECONDS / 2)
    assert not asked.done()

    pods.hidden.clear()

    assert await asked == ()


@in_virtual_time(on=a_quota_loop)
async def test_the_questions_that_wait_for_the_watch_are_bounded(scene):
    await furnished(scene)
    row = await grown(scene, "web", "2")
    stranger = row._replace(name="no-such-pod")
    resizes = asked_by(scene)
    asked = [
        asyncio.create_task(resizes.resize(stranger, is_dry_run=True)) for _ in range(WAITERS_MAX)
    ]
    await asyncio.sleep(0)

    began = scene.clock.monotonic()
    assert await resizes.resize(stranger, is_dry_run=True) == (UNKNOWN_POD,)
    assert scene.clock.monotonic() == began
    assert await resizes.resize(row, is_dry_run=True) == ()
    assert set(await asyncio.gather(*asked)) == {(UNKNOWN_POD,)}


# ------------------------------------------------------------------ other answers


@in_virtual_time(on=a_quota_loop)
async def test_asking_twice_is_asking_once(scene):
    await furnished(scene)
    resizes = asked_by(scene)
    row = await grown(scene, "web", "3")

    assert [await resizes.resize(row, is_dry_run=False) for _ in range(3)] == [()] * 3
    assert scene.books.ledger.reservation_count == 1


@in_virtual_time(on=a_quota_loop)
async def test_a_dry_run_reserves_nothing(scene):
    await furnished(scene)

    row = await grown(scene, "web", "3")
    assert await asked_by(scene).resize(row, is_dry_run=True) == ()
    assert scene.books.ledger.reservation_count == 0


@in_virtual_time(on=lambda: a_quota_loop(is_running=False))
async def test_nothing_is_promised_before_the_books_are_open(scene):
    await scene.create_pod("web", "1")

    with pytest.raises(UnavailableError, match="not complete"):
        await asked_by(scene).resize(await grown(scene, "web", "2"), is_dry_run=False)


class Quiet:
    """An informer that has not heard anything for a while."""

    resource = PODS

    def __init__(self, staleness_seconds: float, *, is_synced: bool = True) -> None:
        self.staleness_seconds, self.is_synced = staleness_seconds, is_synced


@in_virtual_time(on=a_quota_loop)
async def test_nothing_is_promised_from_books_that_may_be_old(scene):
    await furnished(scene)
    quiet = Quiet(STALE_SECONDS_MAX + 1)
    resizes = asked_by(scene, informers=(*scene.informers, quiet))

    with pytest.raises(UnavailableError, match="pods have not been updated for 121 s"):
        await resizes.resize(await grown(scene, "web", "2"), is_dry_run=False)
    assert scene.books.ledger.reservation_count == 0


def test_what_is_wrong_with_informers_is_told():
    assert staleness_problem([]) == ""
    assert staleness_problem([Quiet(STALE_SECONDS_MAX)]) == ""
    unsynced = Quiet(float("inf"), is_synced=False)
    assert staleness_problem([Quiet(0), unsynced]) == "pods have not been listed yet"
    assert staleness_problem([Quiet(3)], 2) == "pods have not been updated for 3 s"


@in_virtual_time(on=a_quota_loop)
async def test_nothing_is_promised_while_pods_are_counted_for_a_changed_quota(scene):
    await furnished(scene)
    row, resizes = await grown(scene, "web", "2"), asked_by(scene)
    scene.books.enter_in_steps(iter([None] * 2 * STEPS_AT_ONCE))

    with pytest.raises(UnavailableError, match="are being counted"):
        await resizes.resize(row, is_dry_run=False)
    scene.loop.notify()
    await scene.rest()

    assert await resizes.resize(row, is_dry_run=False) == ()


@in_virtual_time(on=a_quota_loop)
async def test_nothing_is_promised_in_the_middle_of_a_list(scene):
    await furnished(scene)
    row, resizes = await grown(scene, "web", "2"), asked_by(scene)
    scene.loop._on_relisted()

    with pytest.raises(UnavailableError, match="listed again"):
        await resizes.resize(row, is_dry_run=False)
    scene.loop._on_synced()

    assert await resizes.resize(row, is_dry_run=False) == ()
