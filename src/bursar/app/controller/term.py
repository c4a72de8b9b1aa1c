"""One term of leadership: the work that runs from sync until the Lease is lost.

A term starts with empty books. Everything is listed again, and the first gate is lifted only
when all of it has been seen. When the term ends, patches in flight are waited for, and nothing
of the books is kept.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from bursar.app.capacity.controller import CapacityController
from bursar.app.capacity.events import CapacityEvent
from bursar.app.cluster.events.document import ObjectReference
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import follow
from bursar.app.cluster.ports import Clock, Key, ReadWriter
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.app.cluster.time_limit import wait_at_most, within
from bursar.app.controller.gate_activation import GateActivation
from bursar.app.controller.gating_check import GatingCheck
from bursar.app.controller.queue_limit import QueueLimit, RecordFull
from bursar.app.controller.sources import TermSources
from bursar.app.log import Log
from bursar.app.quota.applied import AppliedWriter
from bursar.app.quota.drift import DriftCheck
from bursar.app.quota.events import QuotaReason
from bursar.app.quota.growth.promise_record import PromiseRecord
from bursar.app.quota.growth.resize import ResizeService
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.app.quota.managed.cluster_resource_quotas import ClusterResourceQuotas
from bursar.app.quota.managed.names import managed_key, owner_key
from bursar.app.quota.managed.writer import ManagedWriter
from bursar.app.quota.quota_loop import QuotaLoop
from bursar.app.quota.refused_writes import RefusedWrites, WrittenObject
from bursar.app.quota.release.lifting import GateLifter
from bursar.app.quota.status import StatusWriter
from bursar.app.quota.wait_text import wait_cost
from bursar.app.tracing import Tracer
from bursar.core.counting.kind_state import KindState
from bursar.core.quota.books import Books
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.releases import Wait

LOG: Final = Log("controller")
TERMINATING: Final = "Terminating"
"""The phase of a namespace that is being deleted."""
NAMES_SECONDS: Final = 1.0
"""Shortest time between two checks which names the counters charge."""
LEFT_OUT_SECONDS: Final = 10.0
"""Longest time between two checks whether pods are counted without a sidecar."""
CLUSTER_MANAGED_SECONDS: Final = 5.0
"""How long a term waits for ClusterResourceQuotas before it writes anything about quotas."""
SYNC_REPORT_SECONDS: Final = 10.0
"""How often a term reports which informers are not synced yet."""


@dataclass(frozen=True, kw_only=True)
class TermContext:
    """What a term needs from its controller."""

    cluster: ReadWriter
    clock: Clock
    random: Random
    is_leader: Callable[[], bool]
    write_seconds: float
    """How long a patch that lifts a gate may last after this process stops leading."""
    remaining_seconds: Callable[[], float]
    """Time until this process stops leading if the Lease is not renewed."""
    patience_s: int
    quota_grace_s: float
    """How long a deleted quota stays in force."""
    request_seconds: float
    """The API server's `--request-timeout`."""
    promises_namespace: str
    """Where resize promises are recorded; empty if no other process asks for any."""
    waiting_pods_max: int
    """Pods of one namespace that may wait; 0 for any number."""
    applied_quotas: AppliedUsage
    """Of which namespaces the copies of cluster-wide quotas show the usage."""
    record_wait: Callable[[Wait, str], None]
    """Called with the pod that waits and, if it is not counted natively, how it is counted."""
    record_uncounted: Callable[[Quota, str], None]
    """Called with a quota and a description of the names that no counter charges."""
    record_problem: Callable[[Quota, QuotaReason, str], None]
    """Called with a quota that is not in force as its author may think, and why."""
    record_mismatch: Callable[[ObjectReference, str], None]
    """Called with an object that gates other namespaces than the controller targets."""
    record_full: RecordFull
    record_capacity: Callable[[CapacityEvent], None]
    tracer: Tracer | None = None
    on_synced: Callable[[], None]
    """Called once, when the caches and the books hold everything."""
    between_slices: Callable[[], None]
    """Called between two slices of a long decision."""


class Term:
    """The parts of one term. They end with it."""

    def __init__(self, context: TermContext, sources: TermSources) -> None:
        self._context = context
        self.sources: Final = sources
        counter = sources.books.counter
        self.books: Final = Books(counter.count, related=counter, patience_s=context.patience_s)
        self.lifter: Final = GateLifter(
            context.cluster,
            context.clock,
            random=context.random,
            may_write=context.is_leader,
            write_seconds=context.write_seconds,
            remaining_seconds=context.remaining_seconds,
        )
        self.gating: Final = GatingCheck(
            context.cluster,
            context.clock,
            sources.books.targeting,
            on_change=self._recheck_namespaces,
            record=context.record_mismatch,
        )
        self.loop: Final = QuotaLoop(
            self.books,
            sources.books,
            self.lifter,
            clock=context.clock,
            record_wait=self._record_wait,
            on_usage_changed=self._on_usage_changed,
            grace_s=context.quota_grace_s,
            dispute=self.gating.dispute,
            before_deciding=lambda: self.resizes.restore(),  # noqa: PLW0108 - made below
            tracer=context.tracer,
        )
        self.loop.between_slices = context.between_slices
        self.resizes: Final = self._resize_service()
        self.drift: Final = DriftCheck(self.loop, sources.books, counter.count, context.clock)
        reconciling = self._reconcile_context(lambda: context.is_leader() and self.loop.is_synced)
        self.refused: Final = RefusedWrites(self._on_refused)
        self._is_recounted = asyncio.Event()
        """A counter may charge other names than before."""
        self.statuses: Final = self._status_writer(reconciling)
        self.managed: Final = ManagedWriter(
            context=reconciling,
            find=self._find_quota,
            is_terminating=self._is_terminating,
            on_refused=self._on_managed_refused,
            cluster_managed=self._cluster_managed,
        )
        self.applied: Final = self._applied_writer(reconciling)
        self.gate: Final = GateActivation(sources.gate, reconciling)
        self.queue_limit: Final = self._queue_limit(reconciling)
        self.capacity: Final = (
            None
            if sources.capacity is None
            else CapacityController(
                context=self._reconcile_context(context.is_leader),
                sources=sources.capacity,
                record=context.record_capacity,
            )
        )

    def _status_writer(self, reconciling: ReconcileContext) -> StatusWriter:
        sources, context = self.sources.books, self._context
        return StatusWriter(
            context=reconciling,
            coverage=self.books.coverage,
            find=self._find_quota,
            may_charge=sources.counter.may_charge,
            record_uncounted=context.record_uncounted,
            left_out=sources.left_out or dict,
            record_problem=context.record_problem,
            refused=self.refused,
            cluster_managed=self._cluster_managed,
        )

    def _applied_writer(self, reconciling: ReconcileContext) -> AppliedWriter:
        copies = self.sources.applied_quotas
        return AppliedWriter(
            context=reconciling,
            coverage=self.books.coverage,
            find=(lambda _: None) if copies is None else copies.find,
            find_quota=self._find_quota,
            is_terminating=self._is_terminating,
            problems=self.statuses.problems_in,
            on_refused=self._on_copy_refused,
            shown=self._context.applied_quotas,
        )

    def _resize_service(self) -> ResizeService:
        context, sources = self._context, self.sources.books
        record = PromiseRecord(
            context.cluster,
            context.clock,
            namespace=context.promises_namespace,
            term=f"{context.random.getrandbits(64):016x}",
            is_leader=context.is_leader,
        )
        return ResizeService(
            self.loop,
            sources.pods,
            sources.informers(),
            reader=context.cluster,
            clock=context.clock,
            record=record if context.promises_namespace else None,
            request_seconds=context.request_seconds,
        )

    def _queue_limit(self, reconciling: ReconcileContext) -> QueueLimit:
        made = QueueLimit(
            self.books,
            self.sources.full_queues,
            reconciling,
            pods_max=self._context.waiting_pods_max,
            record=self._context.record_full,
        )
        self.loop.on_decided = made.notify
        return made

    def _reconcile_context(self, may_write: Callable[[], bool]) -> ReconcileContext:
        context = self._context
        return ReconcileContext(
            writer=context.cluster,
            clock=context.clock,
            random=context.random,
            may_write=may_write,
            tracer=context.tracer,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        sources = self.sources
        async with asyncio.TaskGroup() as tasks:
            for informer in sources.awaited():
                tasks.create_task(informer.run())
            for feed in sources.books.feeds:
                tasks.create_task(feed.run(self._recount))
            tasks.create_task(self.loop.run())
            tasks.create_task(self.gating.run())
            tasks.create_task(self.resizes.run())
            if self.capacity is not None:
                tasks.create_task(self.capacity.run())
            if sources.cluster_managed is not None:
                tasks.create_task(self._follow_cluster_managed(sources.cluster_managed))
            await self._wait_synced()
            await self._wait_cluster_managed()
            for quotas in (*sources.books.quotas, sources.native_quotas):
                tasks.create_task(follow(quotas, self._on_quota_change, self._on_quota_delete))
            for worker in (self.statuses.reconciler, self.managed.reconciler, self.drift):
                tasks.create_task(worker.run())
            tasks.create_task(self._follow_counters())
            if sources.applied_quotas is not None:
                copies = self.applied
                tasks.create_task(
                    follow(sources.applied_quotas, copies.on_change, copies.on_delete)
                )
                tasks.create_task(copies.reconciler.run())
            await self.loop.wait_synced()
            LOG.info("caches synced; deciding", pods=len(sources.books.pods))
            tasks.create_task(self.gate.run())
            tasks.create_task(self.queue_limit.run())
            self._context.on_synced()

    async def _wait_synced(self) -> None:
        """Wait until every informer is synced, and report from time to time which are not."""
        while waiting := [each for each in self.sources.awaited() if not each.is_synced]:
            try:
                await within(self._context.clock, SYNC_REPORT_SECONDS, waiting[0].wait_synced())
            except TimeoutError:
                for informer in waiting:
                    why = informer.last_error or "no answer yet"
                    LOG.info("waiting for the first list", resource=informer.resource, error=why)

    async def _wait_cluster_managed(self) -> None:
        """Wait until it is known whether there are ClusterResourceQuotas, but not for long.

        Without it, each new leader would report limits as not in force for a moment. An API server
        that refuses the list must not keep the other quotas waiting.
        """
        found = self.sources.cluster_managed
        if found is None:
            return
        try:
            await within(self._context.clock, CLUSTER_MANAGED_SECONDS, found.wait_known())
        except TimeoutError:
            LOG.warning("cannot list ClusterResourceQuotas; going on without them")

    async def _follow_cluster_managed(self, quotas: ClusterResourceQuotas) -> None:
        quotas.on_change, quotas.on_delete = self._on_quota_change, self._on_quota_delete
        quotas.on_state = self._recheck_cluster_quotas
        await quotas.run()

    # ------------------------------------------------------------------ counting

    def _recount(self, pods: Iterable[PodKey]) -> None:
        self.loop.recount(pods)
        self._is_recounted.set()

    async def _follow_counters(self) -> None:
        """Update the status of quotas whose pods are counted in another way than before."""
        clock = self._context.clock
        # A pod that comes or goes while a sidecar is left out has no other pod counted again.
        pause_s = None if self.sources.books.left_out is None else LEFT_OUT_SECONDS
        while True:
            await wait_at_most(clock, pause_s, self._is_recounted)
            await clock.sleep(NAMES_SECONDS)
            self._is_recounted.clear()
            self._on_usage_changed(self.statuses.recheck())

    def _record_wait(self, wait: Wait) -> None:
        explain = self.sources.books.explain
        self._context.record_wait(wait, wait_cost(explain, wait) if explain else "")

    # ------------------------------------------------------------------ changes

    def _recheck_namespaces(self) -> None:
        self.loop.recheck_namespaces()

    def _recheck_cluster_quotas(self) -> None:
        """ClusterResourceQuotas have become available, or are not any more."""
        found = (covered.quota.key for covered in self.books.coverage.quotas())
        keys = {key for key in found if key.kind is QuotaKind.CLUSTER}
        self.managed.enqueue(keys)
        self._on_usage_changed(keys)

    def _on_managed_refused(self, key: QuotaKey, words: str) -> None:
        place = managed_key(key)
        written = Key(place.namespace, place.name)
        self.refused.note(key, WrittenObject(place.kind.value), written, words)
        self.applied.enqueue([key])

    def _on_copy_refused(self, copy: Key, words: str) -> None:
        key = QuotaKey(QuotaKind.CLUSTER, "", copy.name)
        self.refused.note(key, WrittenObject.COPY, copy, words)

    def _on_refused(self, key: QuotaKey, text: str) -> None:
        seen = self._find_quota(key)
        if seen is not None and text:
            self._context.record_problem(seen.item.quota, QuotaReason.WRITE_REFUSED, text)
        self.statuses.enqueue([key])

    def _on_usage_changed(self, keys: set[QuotaKey]) -> None:
        self.statuses.enqueue(keys)
        self.applied.enqueue(keys)

    def _on_quota_change(self, seen: Sighting[QuotaObject]) -> None:
        self.statuses.on_change(seen)
        self.managed.on_change(seen)
        self._on_copied_change(seen.item.quota.key)

    def _on_quota_delete(self, seen: Sighting[QuotaObject]) -> None:
        self.statuses.on_delete(seen)
        self.managed.on_delete(seen)
        self._on_copied_change(seen.item.quota.key)

    def _on_copied_change(self, key: QuotaKey) -> None:
        """A quota, or what is managed for it, has changed: so may its copies."""
        self.applied.enqueue([owner_key(key) or key])

    # ------------------------------------------------------------------ lookups

    def _find_quota(self, key: QuotaKey) -> Sighting[QuotaObject] | None:
        informers = (*self.sources.books.quotas, self.sources.native_quotas)
        place = Key(key.namespace, key.name)
        for informer in informers:
            found = informer.find(place)
            if found is not None and found.item.quota.key.kind is key.kind:
                return found
        cluster_managed = self.sources.cluster_managed
        if key.kind is QuotaKind.OPENSHIFT and cluster_managed is not None:
            return cluster_managed.find(place)
        return None

    def _cluster_managed(self) -> KindState:
        found = self.sources.cluster_managed
        return KindState.ABSENT if found is None else found.state

    def _is_terminating(self, namespace: str) -> bool:
        found = self.sources.books.namespaces.find(Key("", namespace))
        return found is not None and found.item.phase == TERMINATING
