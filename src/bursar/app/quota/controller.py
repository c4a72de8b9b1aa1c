"""The controller: stands for leader, and while it leads keeps the books and acts on them.

Each term starts from nothing. What another leader left in flight is waited out first;
then everything is listed afresh, and only when all of it has been seen is the first gate
lifted. When the term ends, lifts that are under way are waited for, and nothing of the
books is kept.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TypeVar, cast

from bursar.app.capacity import telling as capacity_telling
from bursar.app.capacity.telling import CapacityNews, CapacityReason
from bursar.app.capacity.work import CapacitySources, CapacityWork
from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.informer.changes import Deleted, Upserted
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Json,
    Key,
    Patch,
    PatchKind,
    Reader,
    Writer,
)
from bursar.app.cluster.time_limit import within
from bursar.app.quota.applied import AppliedQuota, AppliedWriter, Original
from bursar.app.quota.desk import Desk, RunningInformer, Sources
from bursar.app.quota.drift import DriftWatch
from bursar.app.quota.lifting import GateLifter
from bursar.app.quota.managed import ManagedWriter
from bursar.app.quota.resizing import ResizeDesk
from bursar.app.quota.status import StatusWriter
from bursar.app.quota.telling import COMPONENT, tell
from bursar.core.quota.books import PATIENCE_SECONDS, Books, Wait
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.quota import QuotaKey, QuotaKind
from bursar.core.quota.refusal import Reason
from bursar.core.quota.reported import QuotaObject

LEASE_NAME: Final = "aaq-controller"
"""The Lease of AAQ's own controller, so that the two never act at the same time."""
ADDRESS_ANNOTATION: Final = "bursar.io/address"
"""On the Lease: where the leader answers questions about the books."""
ENDING_PHASE: Final = "Terminating"
IMPATIENCE_SECONDS: Final = 10.0
"""How often to say what a term is still waiting for."""

T = TypeVar("T")


class Cluster(Reader, Writer, Protocol):
    """What is read and written beside the informers: the Lease, and all effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    namespace: str
    """Where Bursar is installed; the Lease is kept there."""
    identity: str
    """Unique to this process."""
    timing: Timing = DEFAULT_TIMING
    patience_s: int = PATIENCE_SECONDS
    address: str = ""
    """Where this process can be asked about the books; empty if it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSources:
    """The informers of one term, none of which has been run yet."""

    books: Sources
    native_quotas: Informer[Sighting[QuotaObject]]
    applied_quotas: Informer[Sighting[AppliedQuota]] | None
    """None where there are no cluster-wide quotas."""
    capacity: CapacitySources | None = None
    """None to leave the capacity of nodes alone."""

    def informers(self) -> tuple[RunningInformer, ...]:
        return (*self.awaited(), *(() if self.capacity is None else self.capacity.informers()))

    def awaited(self) -> tuple[RunningInformer, ...]:
        """Those that have to be synced before anything is decided about quotas."""
        applied = () if self.applied_quotas is None else (self.applied_quotas,)
        return (*self.books.informers(), self.native_quotas, *applied)


class Term:
    """The parts of one term. They end with it."""

    def __init__(self, controller: "Controller", sources: TermSources) -> None:
        settings, election = controller.settings, controller.election
        cluster, clock, random = controller.cluster, controller.clock, controller.random
        self._clock, self._report = clock, controller.report
        self.sources: Final = sources
        counter = NativeCounter()
        self.books: Final = Books(counter, patience_s=settings.patience_s)
        self.lifter: Final = GateLifter(
            cluster,
            clock,
            random=random,
            may_write=lambda: election.is_leader,
            write_seconds=settings.timing.stop_seconds,
        )
        self.desk: Final = Desk(
            self.books,
            sources.books,
            self.lifter,
            clock=clock,
            tell=controller.tell,
            on_touched=self._mark,
        )
        self.capacity: Final = (
            None
            if sources.capacity is None
            else CapacityWork(
                writer=cluster,
                clock=clock,
                random=random,
                sources=sources.capacity,
                may_write=lambda: election.is_leader,
                tell=controller.tell_of_capacity,
                report=controller.report,
            )
        )
        self.resizes: Final = ResizeDesk(self.desk, sources.books.informers(), clock=clock)
        self.drift: Final = DriftWatch(self.desk, sources.books, counter, clock)
        self.statuses: Final = self._status_writer(controller)
        self.managed: Final = self._managed_writer(controller)
        self.applied: Final = self._applied_writer(controller)

    def _status_writer(self, controller: "Controller") -> StatusWriter:
        return StatusWriter(
            writer=controller.cluster,
            clock=controller.clock,
            random=controller.random,
            coverage=self.books.coverage,
            find=self._find_quota,
            may_write=self._may_write(controller.election),
        )

    def _managed_writer(self, controller: "Controller") -> ManagedWriter:
        return ManagedWriter(
            writer=controller.cluster,
            clock=controller.clock,
            random=controller.random,
            find=self._find_quota,
            is_ending=self._is_ending,
            may_write=self._may_write(controller.election),
        )

    def _applied_writer(self, controller: "Controller") -> AppliedWriter:
        copies = self.sources.applied_quotas
        return AppliedWriter(
            writer=controller.cluster,
            clock=controller.clock,
            random=controller.random,
            coverage=self.books.coverage,
            find=_find_nothing if copies is None else copies.find,
            find_original=self._find_original,
            is_ending=self._is_ending,
            may_write=self._may_write(controller.election),
        )

    async def run(self) -> None:
        """Work until cancelled."""
        sources = self.sources
        async with asyncio.TaskGroup() as tasks:
            for informer in sources.awaited():
                tasks.create_task(informer.run())
            tasks.create_task(self.desk.run())
            if self.capacity is not None:
                tasks.create_task(self.capacity.run())
            await self._wait_synced()
            for quotas in (*sources.books.quotas, sources.native_quotas):
                tasks.create_task(_follow(quotas, self._observe_quota, self._lose_quota))
            for worker in (self.statuses, self.managed, self.drift):
                tasks.create_task(worker.run())
            if sources.applied_quotas is not None:
                copies = self.applied
                tasks.create_task(_follow(sources.applied_quotas, copies.observe, copies.lose))
                tasks.create_task(copies.run())

    async def _wait_synced(self) -> None:
        """Wait until everything has been seen, and say from time to time what is missing."""
        while waiting := [each for each in self.sources.awaited() if not each.is_synced]:
            try:
                await within(self._clock, IMPATIENCE_SECONDS, waiting[0].wait_synced())
            except TimeoutError:
                for informer in waiting:
                    why = informer.last_error or "no answer yet"
                    self._report(f"waiting for {informer.resource}: {why}")

    def _may_write(self, election: Election) -> Callable[[], bool]:
        return lambda: election.is_leader and self.desk.is_open

    # ------------------------------------------------------------------ who hears of what

    def _mark(self, keys: set[QuotaKey]) -> None:
        self.statuses.mark(keys)
        self.applied.mark(keys)

    def _observe_quota(self, seen: Sighting[QuotaObject]) -> None:
        self.statuses.observe(seen)
        self.managed.observe(seen)
        self.applied.mark([seen.item.quota.key])

    def _lose_quota(self, seen: Sighting[QuotaObject]) -> None:
        self.statuses.lose(seen)
        self.managed.observe(seen)
        self.applied.mark([seen.item.quota.key])

    # ------------------------------------------------------------------ who is asked about what

    def _find_quota(self, key: QuotaKey) -> Sighting[QuotaObject] | None:
        informers = (*self.sources.books.quotas, self.sources.native_quotas)
        place = Key(key.namespace, key.name)
        for informer in informers:
            found = informer.find(place)
            if found is not None and found.item.quota.key.kind is key.kind:
                return found
        return None

    def _find_original(self, name: str) -> Original | None:
        found = self._find_quota(QuotaKey(QuotaKind.CLUSTER, "", name))
        if found is None:
            return None
        return Original(uid=found.identity.uid, spec=cast("Json", found.item.spec))

    def _is_ending(self, namespace: str) -> bool:
        found = self.sources.books.namespaces.find(Key("", namespace))
        return found is not None and found.item.phase == ENDING_PHASE


def _tell_nobody(_: str) -> None:
    """The default: what happens shows in the Lease and in metrics all the same."""


class Controller:
    """One candidate for the Lease, and the work it does when it leads."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        *,
        settings: ControllerSettings,
        open_sources: Callable[[], TermSources],
        report: Callable[[str], None] = _tell_nobody,
    ) -> None:
        self.report: Final = report
        self.cluster: Final = cluster
        self.clock: Final = clock
        self.random: Final = random
        self.settings: Final = settings
        self._open_sources = open_sources
        self._lease = Key(settings.namespace, LEASE_NAME)
        self.election: Final = Election(
            cluster,
            cluster,
            clock,
            candidacy=Candidacy(
                lease=self._lease, identity=settings.identity, timing=settings.timing
            ),
            random=random.random,
        )
        self.recorder: Final = EventRecorder(
            cluster, clock, reasons=Reason, component=COMPONENT, instance=settings.identity
        )
        self.capacity_recorder: Final = EventRecorder(
            cluster, clock, reasons=CapacityReason, component=COMPONENT, instance=settings.identity
        )
        self._term: Term | None = None

    @property
    def term(self) -> Term | None:
        """What is at work now; None while somebody else leads."""
        return self._term

    @property
    def resize_desk(self) -> ResizeDesk | None:
        """Who can be asked about resizes; None while we do not lead."""
        term = self._term
        return term.resizes if term is not None and self.election.is_leader else None

    def tell(self, wait: Wait) -> None:
        tell(self.recorder, wait)

    def tell_of_capacity(self, news: CapacityNews) -> None:
        capacity_telling.tell(self.capacity_recorder, news)

    async def run(self) -> None:
        """Stand for leader, and lead, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            # Events are written in their own time, so that they never hold up the end of a term.
            tasks.create_task(self.recorder.run())
            tasks.create_task(self.capacity_recorder.run())
            await self.election.run(self._lead)

    async def _lead(self) -> None:
        token = self.election.token
        self.report(f"leading as {self.settings.identity}")
        if token is not None and token.transitions:
            await self.clock.sleep(self.settings.timing.stop_seconds)
        term = Term(self, self._open_sources())
        self._term = term
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._announce())
                tasks.create_task(term.run())
        finally:
            self._term = None
            self.report("leading no longer")

    async def _announce(self) -> None:
        """Say on the Lease where we can be asked. It is a hint: who asks finds out who leads."""
        annotations = {ADDRESS_ANNOTATION: self.settings.address or None}
        patch = Patch(kind=PatchKind.MERGE, body={"metadata": {"annotations": annotations}})
        while self.election.is_leader:
            try:
                await self.cluster.patch(LEASES, self._lease, patch)
            except ClusterError:
                await self.clock.sleep(self.settings.timing.retry_seconds)
            else:
                return


def _find_nothing(_: Key) -> None:
    return None


async def _follow(
    informer: Informer[T], observe: Callable[[T], None], lose: Callable[[T], None]
) -> None:
    async for change in informer.changes():
        if isinstance(change, Upserted):
            observe(change.new)
        elif isinstance(change, Deleted):
            lose(change.last)
