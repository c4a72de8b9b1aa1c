"""The quota loop: feeds the books from informers and carries out what the books decide.

Everything that changes the books runs on one event loop without awaiting in between, so the
books have one writer. Nothing is decided before every informer is synced and counters know the
objects that they depend on. After a change the loop waits a few milliseconds, so that changes
that arrive together are decided together and in order.

A decision is made in slices. Between two slices the other tasks of the event loop run, above all
the one that renews the Lease, so that no number of waiting pods can cost the leader its term.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import follow
from bursar.app.cluster.ports import Clock, Key
from bursar.app.cluster.time_limit import wait_at_most, within
from bursar.app.log import Log
from bursar.app.quota.departed_quotas import GRACE_SECONDS, DepartedQuotas
from bursar.app.quota.release.lift_queue import LiftQueue
from bursar.app.quota.release.lifting import GateLifter, LiftResult
from bursar.app.quota.sources import QuotaSources
from bursar.app.tracing import NAMESPACE, POD, Span, Tracer
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import Books
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey, QuotaObject
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import Release, ReleaseOutcome, Wait

LOG: Final = Log("quota")
BATCH_SECONDS: Final = 0.01
"""How long the loop waits after a change for others that came with it."""
COUNTERS_SECONDS: Final = 30.0
"""How long the first decision waits for the objects that counters depend on."""
LIFTS_MAX: Final = 48
"""Gates lifted at the same time; the client's limiter may allow fewer requests. While the API
server stalls, each lift has a connection that waits, which costs about 55 kB."""
QUICK_SECONDS: Final = 1.0
"""A namespace whose gates are lifted within this time is not held up by a webhook."""
STEPS_MAX: Final = 200
"""Steps of one slice of a decision: a few milliseconds. A step is about one pod or one group."""
STEPS_MIN: Final = 8
SLOW_SECONDS: Final = 0.02
FAST_SECONDS: Final = 0.005
"""After a slice longer than `SLOW_SECONDS`, the next slice has half as many steps; after a slice
shorter than `FAST_SECONDS`, twice as many."""
RELEASE_BOUNDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of the histogram of waiting times, in seconds."""

T = TypeVar("T")


async def _do_nothing() -> None:
    """Do nothing. The default where the caller has nothing to do before the first decision."""


@dataclass(slots=True)
class SliceSize:
    """How many steps the next slice has. Steps take longer if pods have many quotas."""

    steps_max: int = STEPS_MAX
    steps: int = STEPS_MAX

    def adapt(self, seconds: float) -> None:
        """Choose the number of steps of the next slice, after a slice that took `seconds`."""
        if seconds > SLOW_SECONDS:
            self.steps = max(STEPS_MIN, self.steps // 2)
        elif seconds < FAST_SECONDS:
            self.steps = self.steps * 2
        self.steps = min(self.steps, self.steps_max)


@dataclass(slots=True)
class QuotaCounters:
    """Totals since the loop was made."""

    released: int = 0
    exempt: int = 0
    """Released pods of namespaces in which pods are not gated any more."""
    release_seconds: list[int] = field(default_factory=lambda: [0] * (len(RELEASE_BOUNDS) + 1))
    """Number of released pods by waiting time, one for each bound and one for longer times."""
    release_seconds_sum: float = 0.0
    refusals: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    decisions: int = 0
    """How often the books were asked to decide."""


class QuotaLoop:
    """The quota work of one term. Call `run` once; it ends when it is cancelled."""

    def __init__(  # noqa: PLR0913 - the loop connects all of them
        self,
        books: Books,
        sources: QuotaSources,
        lifter: GateLifter,
        *,
        clock: Clock,
        record_wait: Callable[[Wait], None],
        on_usage_changed: Callable[[set[QuotaKey]], None],
        grace_s: float = GRACE_SECONDS,
        dispute: Callable[[NamespaceObject], str] = lambda _: "",
        before_deciding: Callable[[], Awaitable[None]] = _do_nothing,
        tracer: Tracer | None = None,
    ) -> None:
        """A deleted quota stays in force for `grace_s`.

        `dispute` says how installed policies and webhooks disagree about a namespace.
        `before_deciding` is awaited once, when the books hold everything that existed.
        """
        self.books: Final = books
        self.counters: Final = QuotaCounters()
        self._sources, self._lifter, self._clock = sources, lifter, clock
        self._record_wait, self._on_usage_changed = record_wait, on_usage_changed
        self.slice_size: Final = SliceSize()
        self._dispute = dispute
        self.departed: Final = DepartedQuotas(clock, sources.exists, self._drop_quota, grace_s)
        self._before_deciding = before_deciding
        self._tracer = tracer
        self.on_decided: Callable[[], None] = lambda: None
        """Called after each round of decisions."""
        self.between_slices: Callable[[], None] = lambda: None
        """Called between two slices of a decision."""
        self._to_recount: dict[PodKey, None] = {}
        """Each pod once, however often its counter's answer changes before its turn comes."""
        self._is_changed = asyncio.Event()
        self._releases = LiftQueue(LIFTS_MAX)
        self._fed = asyncio.Event()
        """The books hold everything that existed."""
        self._synced = asyncio.Event()
        self._incomplete = 0
        """The number of feeds whose list is not yet in the books as a whole."""

    @property
    def is_synced(self) -> bool:
        """Whether decisions are made: the books hold everything that existed, and its cost."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def is_mixed(self) -> bool:
        """Whether the books hold a part of a list, and so a state that the cluster never had."""
        return self._incomplete > 0

    def notify(self) -> None:
        """The books have changed: decide soon."""
        self._is_changed.set()

    def recheck_namespaces(self) -> None:
        """Look at all namespaces again, because the result of `dispute` may have changed."""
        for seen in self._sources.namespaces.snapshot().objects():
            self._see_namespace(seen)
        self.notify()

    def recount(self, pods: Iterable[PodKey]) -> None:
        """Count these pods again, because the counter's answer may have changed."""
        is_under_way = bool(self._to_recount)
        self._to_recount.update(dict.fromkeys(pods))
        if not is_under_way:
            self.books.enter_in_steps(self._recount_steps())
        self.notify()

    def _recount_steps(self) -> Iterator[None]:
        while self._to_recount:
            pod, _ = self._to_recount.popitem()
            row = self._sources.pods.find(Key(pod.namespace, pod.name))
            if row is not None:
                self.books.recount_pod(row)
            yield

    async def run(self) -> None:
        """Feed the books, decide and lift gates until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._run(tasks)
        finally:
            await self._lifter.close()

    async def _run(self, tasks: asyncio.TaskGroup) -> None:
        sources, feed = self._sources, self._feed
        feeds = [
            feed(sources.namespaces, self._see_namespace, self._lose_namespace),
            *(feed(each, self._see_quota, self._lose_quota) for each in sources.quotas),
            feed(sources.pods, self.books.see_pod, self._lose_pod),
        ]
        self._incomplete = len(feeds)
        for each in feeds:
            tasks.create_task(each)
        await self._fed.wait()
        await self._wait_for_counters()
        await self._before_deciding()
        self._synced.set()
        tasks.create_task(self.departed.run())
        for _ in range(LIFTS_MAX):
            tasks.create_task(self._lift())
        await self._decide()

    # ------------------------------------------------------------------ feeding the books

    def _feed(
        self, informer: Informer[T], see: Callable[[T], None], lose: Callable[[T], None]
    ) -> Coroutine[object, object, None]:
        """Enter everything that exists, and then every change."""

        def on_change(item: T) -> None:
            self._tell_time()
            see(item)
            self.notify()

        def on_delete(item: T) -> None:
            self._tell_time()
            lose(item)
            self.notify()

        return follow(informer, on_change, on_delete, self._on_synced, self._on_relisted)

    def _tell_time(self) -> None:
        clock = self._clock
        self.books.set_time(int(clock.now().timestamp()), int(clock.monotonic()))

    def _on_relisted(self) -> None:
        self._incomplete += 1

    def _on_synced(self) -> None:
        self._incomplete -= 1
        if not self._incomplete:
            self._fed.set()
            self.notify()

    async def _wait_for_counters(self) -> None:
        """Wait until counters know what running pods cost; for a bounded time.

        Before that, a running pod may be charged less than it costs. If a kind cannot be listed,
        pods that depend on it wait, and the others must not wait with them for ever.
        """
        deadline_s = self._clock.monotonic() + COUNTERS_SECONDS
        for feed in self._sources.awaited_feeds:
            try:
                rest_s = max(0.0, deadline_s - self._clock.monotonic())
                await within(self._clock, rest_s, feed.wait_known())
            except TimeoutError:
                LOG.warning("deciding although a counter does not know all its objects yet")
                return

    def _lose_pod(self, row: PodRow) -> None:
        self.books.lose_pod(row.namespace, row.name, row.stamp.uid)

    def _see_quota(self, seen: Sighting[QuotaObject]) -> None:
        self.departed.on_change(seen.item.quota.key)
        self.books.see_quota(seen.item.quota)

    def _lose_quota(self, seen: Sighting[QuotaObject]) -> None:
        self.departed.on_delete(seen.item.quota.key)

    def _drop_quota(self, key: QuotaKey) -> None:
        self.books.lose_quota(key)
        self.notify()

    def _see_namespace(self, seen: Sighting[NamespaceObject]) -> None:
        namespace = self._sources.targeting.namespace(seen.item, self._dispute(seen.item))
        coverage = self.books.coverage
        before = coverage.namespace(namespace.name)
        self.books.see_namespace(namespace)
        if before is not None and before.gating != namespace.gating:
            # The status of a quota says whether it holds pods.
            covering = coverage.covering(namespace.name)
            self.books.ledger.touched.update(each.quota.key for each in covering)

    def _lose_namespace(self, seen: Sighting[NamespaceObject]) -> None:
        self.books.lose_namespace(seen.item.name)

    # ------------------------------------------------------------------ carrying out decisions

    async def _decide(self) -> None:
        while True:
            self._is_changed.clear()
            if self.is_mixed():
                # A list may show that pods are gone before it shows others that use their room.
                await self._is_changed.wait()
                continue
            self.counters.decisions += 1
            while not self._decide_slice():
                self.between_slices()
                await asyncio.sleep(0)  # Other tasks run in between.
                if self.is_mixed():
                    break
            else:
                self.on_decided()
                await self._wait_for_change()

    def _decide_slice(self) -> bool:
        """Have the books decide for a bounded number of steps. Returns whether they are done."""
        self._tell_time()
        began = self._clock.monotonic()
        decisions = self.books.decide(self.slice_size.steps)
        for release in decisions.releases:
            self._releases.put(release)
        for wait in decisions.waits:
            for refusal in wait.refusals:
                self.counters.refusals[refusal.reason] += 1
            self._record_wait(wait)
        # The text of why a pod waits is long if it waits for hundreds of limits.
        self.slice_size.adapt(self._clock.monotonic() - began)
        touched = self.books.ledger.touched
        if touched:
            self._on_usage_changed(set(touched))
            touched.clear()
        return decisions.is_done

    async def _wait_for_change(self) -> None:
        """Wait until the books change or one of their deadlines passes."""
        await wait_at_most(self._clock, self._seconds_to_deadline(), self._is_changed)
        await self._clock.sleep(BATCH_SECONDS)

    def _seconds_to_deadline(self) -> float | None:
        due_s = self.books.next_due_s
        return None if due_s is None else max(0.0, due_s - self._clock.now().timestamp())

    async def _lift(self) -> None:
        while True:
            attempt = await self._releases.take()
            release, started = attempt.release, self._clock.monotonic()
            if not self.books.may_lift(release):
                self._releases.finish(attempt, is_answered=True, is_quick=True)
                continue
            result = await self._lifter.lift(release.row, is_patient=attempt.is_troubled)
            self._releases.finish(
                attempt,
                is_answered=result is None or result.outcome is not ReleaseOutcome.UNANSWERED,
                is_quick=self._clock.monotonic() - started < QUICK_SECONDS,
            )
            if result is None:
                # Usually the term is about to end. But leadership may only have been interrupted,
                # by a pause of the process: then the books retry the release.
                result = LiftResult(ReleaseOutcome.CHANGED)
            self._tell_time()
            self.books.settle(release.row, result.outcome, result.detail)
            if self._tracer is not None:
                self._trace(self._tracer, release, result.outcome, started)
            if result.outcome is ReleaseOutcome.LIFTED:
                self._count(release)
            self.notify()

    def _trace(
        self, tracer: Tracer, release: Release, outcome: ReleaseOutcome, started: float
    ) -> None:
        """Record the wait of a released pod from its creation, with the removal of its gate.

        An attempt that removed no gate is recorded alone: the pod goes on waiting.
        """
        row, now_s = release.row, self._clock.now().timestamp()
        began_s = now_s - (self._clock.monotonic() - started)
        names = {NAMESPACE: row.namespace, POD: row.name}
        is_lifted = outcome is ReleaseOutcome.LIFTED
        removal = Span(
            name="remove gate",
            began_s=began_s,
            ended_s=now_s,
            attributes={"bursar.outcome": outcome.name.lower(), **names},
            problem="" if is_lifted else outcome.name.lower(),
        )
        if is_lifted:
            removal = Span(
                name="release pod",
                began_s=min(float(row.stamp.created_s), began_s),
                ended_s=now_s,
                attributes={"bursar.exempt": release.is_exempt, **names},
                steps=(removal,),
            )
        tracer.record(removal)

    def _count(self, release: Release) -> None:
        counters = self.counters
        counters.exempt += release.is_exempt
        counters.released += 1
        waited = max(0.0, self._clock.now().timestamp() - release.row.stamp.created_s)
        counters.release_seconds_sum += waited
        counters.release_seconds[bisect_left(RELEASE_BOUNDS, waited)] += 1
