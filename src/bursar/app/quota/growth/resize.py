"""Resizes of running pods: the webhook asks, and the books promise the larger amount or refuse.

A promise is kept until no resize can be stored with it. `core/quota/growth` says when a change of
the pod shows that. If the pod does not change, this module waits until the API server must have
given up the request, reads the newest resourceVersion of pods, and ends the promise when the watch
has shown everything up to it. Only the monotonic clock is used.
"""

import asyncio
from collections.abc import Iterable
from math import ceil
from typing import Final

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import is_older
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe import RunningInformer
from bursar.app.cluster.ports import Clock, ClusterError, Key, Query, Reader, UnavailableError
from bursar.app.cluster.sighting import locate
from bursar.app.cluster.time_limit import wait_at_most
from bursar.app.log import Log
from bursar.app.quota.growth.promise_record import PromiseRecord
from bursar.app.quota.quota_loop import QuotaLoop
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.growth.promises import GrowthRefusals, Promise, RecordedPromise

LOG: Final = Log("quota")
REQUEST_SECONDS: Final = 60.0
"""The API server's default of `--request-timeout`: how long one request can take at most."""
COMMIT_SECONDS: Final = 10.0
"""How long etcd can take to commit a write that the API server has given up: 7 s by default."""
STALE_SECONDS_MAX: Final = 120.0
"""A quiet watch sends a bookmark about once a minute, and may have to be restarted."""
KNOWN_SECONDS: Final = 1.0
"""How long a question waits for the watch to show the pod in the state that is resized."""
KNOWN_POLL_SECONDS: Final = 0.05
WAITERS_MAX: Final = 64
"""Questions that wait for the watch at the same time; others are refused at once."""
WATCH_POLL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 5.0
CLEAN_SECONDS: Final = 10.0
"""How long ended promises stay in the record, unless another promise is written before."""


def staleness_problem(
    informers: Iterable[RunningInformer], seconds_max: float = STALE_SECONDS_MAX
) -> str:
    """Which kind of object is not known well enough to decide; empty if all are."""
    for informer in informers:
        if not informer.is_synced:
            return f"{informer.resource} have not been listed yet"
        stale = informer.staleness_seconds
        if stale > seconds_max:
            return f"{informer.resource} have not been updated for {stale:.0f} s"
    return ""


class ResizeService:
    """Answers the webhook's questions. Use it on the event loop of the quota loop.

    `run` ends promises, and must run as long as questions are answered. Without a record, the
    next leader does not know of the promises: for a process that has no successor.
    """

    def __init__(  # noqa: PLR0913 - its parts
        self,
        loop: QuotaLoop,
        pods: Informer[PodRow],
        informers: Iterable[RunningInformer],
        *,
        reader: Reader,
        clock: Clock,
        record: PromiseRecord | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._loop, self._pods, self._reader, self._clock = loop, pods, reader, clock
        self._informers = tuple(informers)
        self._record = record
        self._bound_seconds = request_seconds + COMMIT_SECONDS
        self._waiters = 0
        self._is_promised = asyncio.Event()
        self._is_dirty = asyncio.Event()
        """The record holds promises, of which some may have ended."""

    async def resize(self, row: PodRow, *, is_dry_run: bool) -> GrowthRefusals:
        """Promise the total that the pod will use. No refusals mean yes.

        A repeated question counts once. Raises `UnavailableError` while the books are incomplete
        or out of date, and if the promise cannot be recorded.
        """
        # The API server received the request before this time.
        until_s = ceil(self._clock.monotonic() + self._bound_seconds)
        self._require_current_books(row.namespace)
        known = await self._find_known(row)
        self._require_current_books(row.namespace)
        books = self._loop.books
        refusals = books.resize(row, known, until_s=until_s, is_dry_run=is_dry_run)
        if refusals or is_dry_run:
            return refusals
        self._is_promised.set()
        await self._save()
        return ()

    def _require_current_books(self, namespace: str) -> None:
        if not self._loop.is_synced:
            raise UnavailableError("the books are not complete yet")
        if self._loop.is_mixed():
            raise UnavailableError("all objects are being listed again")
        if self._loop.books.is_catching_up(namespace):
            raise UnavailableError("the pods of a changed quota or namespace are being counted")
        problem = staleness_problem(self._informers)
        if problem:
            raise UnavailableError(f"the books are not up to date: {problem}")

    async def _find_known(self, row: PodRow) -> PodRow | None:
        """The pod as the watch has shown it, not older than the state that is resized."""
        known = self._known(row)
        if known is not None or self._waiters >= WAITERS_MAX:
            return known
        deadline = self._clock.monotonic() + KNOWN_SECONDS
        self._waiters += 1
        try:
            while known is None and self._clock.monotonic() < deadline:
                await self._clock.sleep(KNOWN_POLL_SECONDS)
                known = self._known(row)
        finally:
            self._waiters -= 1
        return known

    def _known(self, row: PodRow) -> PodRow | None:
        known = self._pods.find(Key(row.namespace, row.name))
        if known is None or known.stamp.uid != row.stamp.uid:
            return None
        if is_older(known.stamp.resource_version, row.stamp.resource_version):
            return None
        return known

    async def _save(self) -> None:
        """Record the promises. A promise that cannot be recorded is not given, but held."""
        if self._record is None:
            return
        self._is_dirty.set()
        try:
            await self._record.save(self._loop.books.growth.recorded)
        except TimeoutError:
            raise UnavailableError("the promise could not be recorded in time") from None
        except ClusterError as error:
            problem = f"the promise could not be recorded: {error.message}"
            raise UnavailableError(problem) from None

    # ------------------------------------------------------------------ changes of leader

    async def restore(self) -> None:
        """Learn the promises of earlier leaders, before the first decision."""
        if self._record is None:
            return
        recorded = await self._record.take_over()
        if recorded is None:
            LOG.error(
                "the record of resize promises cannot be read; waiting until all have ended",
                seconds=self._bound_seconds,
            )
            await self._clock.sleep(self._bound_seconds)
            return
        # An earlier leader's clock says nothing here, so the whole time is waited for again.
        until_s = ceil(self._clock.monotonic() + self._bound_seconds)
        growth = self._loop.books.growth
        for each in recorded:
            known = await self._find_recorded(each)
            growth.restore(each, known, until_s=until_s)
        if recorded:
            LOG.info("kept the resize promises of an earlier leader", promises=len(growth))
            self._is_promised.set()
            self._is_dirty.set()

    async def _find_recorded(self, recorded: RecordedPromise) -> PodRow | None:
        """The pod of a recorded promise; None if it does not exist any more.

        The watch of the earlier leader may have been ahead of this one. So if the watch has not
        shown the pod, the API server is asked whether it exists.
        """
        key = Key(recorded.pod.namespace, recorded.pod.name)
        query = Query.of(key)
        while True:
            known = self._pods.find(key)
            if known is not None and known.stamp.uid == recorded.uid:
                return known
            try:
                page = await self._reader.list(PODS, query, limit=1)
            except ClusterError as error:
                LOG.warning("cannot read a pod that has a resize promise", pod=key, error=error)
            else:
                found = [locate(body) for body in page.items]
                if recorded.uid not in {each.uid for each in found if each is not None}:
                    return None
            await self._clock.sleep(WATCH_POLL_SECONDS)

    # ------------------------------------------------------------------ ending promises

    async def run(self) -> None:
        """End promises that are not needed any more, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._end_overdue())
            if self._record is not None:
                tasks.create_task(self._clean_record())

    async def _end_overdue(self) -> None:
        growth = self._loop.books.growth
        while True:
            self._is_promised.clear()
            due_s = growth.next_due_s
            asked_at = self._clock.monotonic()
            if due_s is None or due_s > asked_at:
                pause_s = None if due_s is None else due_s - asked_at
                await wait_at_most(self._clock, pause_s, self._is_promised)
                continue
            overdue = growth.overdue(int(asked_at))
            if not await self._has_watched_everything(overdue[0].pod.namespace):
                await self._clock.sleep(RETRY_SECONDS)
                continue
            for promise in overdue:
                # The same size may have been asked for again meanwhile.
                if promise.until_s <= asked_at and not self._is_shown_newer(promise):
                    growth.end(promise)
            self._loop.notify()
            await self._clock.sleep(WATCH_POLL_SECONDS)

    async def _has_watched_everything(self, namespace: str) -> bool:
        """Wait until the watch has shown all that is stored now; false if that cannot be read.

        A list without a resourceVersion returns the newest one of all pods, whatever it selects.
        It is read again after a while: if etcd was restored, the watch may not reach it for days.
        """
        while True:
            try:
                page = await self._reader.list(PODS, Query(namespace=namespace), limit=1)
            except ClusterError as error:
                LOG.warning("cannot read the resourceVersion of pods; trying again", error=error)
                return False
            deadline = self._clock.monotonic() + STALE_SECONDS_MAX
            while self._clock.monotonic() < deadline:
                if self._has_watched(page.resource_version):
                    return True
                await self._clock.sleep(WATCH_POLL_SECONDS)

    def _has_watched(self, resource_version: str) -> bool:
        position = self._pods.resource_version
        return bool(position) and not is_older(position, resource_version)

    def _is_shown_newer(self, promise: Promise) -> bool:
        """Whether the watch has shown a state of the pod that a resize may have led to.

        The books end the promise when they charge that state. If it cannot be decoded, the
        promise stands in for the charge.
        """
        key = Key(promise.pod.namespace, promise.pod.name)
        if key in self._pods.suspects:
            return True
        known = self._pods.find(key)
        if known is None or known.stamp.uid != promise.uid:
            return False
        return promise.is_outdated_by(known)

    async def _clean_record(self) -> None:
        """Remove ended promises from the record, after a while and in one write."""
        assert self._record is not None, "there is something to clean"
        growth = self._loop.books.growth
        while True:
            await self._is_dirty.wait()
            await self._clock.sleep(CLEAN_SECONDS)
            self._is_dirty.clear()
            try:
                await self._record.save(growth.recorded)
            except (ClusterError, TimeoutError):
                self._is_dirty.set()
            if len(growth):
                self._is_dirty.set()
