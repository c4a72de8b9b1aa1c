"""The controller: stands for election, and runs a term while it leads."""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from random import Random
from typing import Final

from bursar.app.capacity.events import CapacityReason, record_event
from bursar.app.certificates.keeper import CertificateKeeper, OpenKeeper
from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from bursar.app.cluster.events.recorder import EventCounts, EventRecorder
from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.ownership import owner_references
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Json,
    Key,
    Patch,
    PatchKind,
    ReadWriter,
)
from bursar.app.controller.defaults import WAITING_PODS_MAX
from bursar.app.controller.sources import TermSources
from bursar.app.controller.term import Term, TermContext
from bursar.app.log import Log
from bursar.app.names import ADDRESS_ANNOTATION, CONTROLLER
from bursar.app.quota.departed_quotas import GRACE_SECONDS
from bursar.app.quota.events import (
    QueueReason,
    QuotaReason,
    record_full,
    record_mismatch,
    record_problem,
    record_uncounted,
    record_wait,
)
from bursar.app.quota.growth.resize import REQUEST_SECONDS, ResizeService, staleness_problem
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.app.tracing import Tracer
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import PATIENCE_SECONDS
from bursar.core.quota.refusal import Reason
from bursar.core.quota.views.queue import FullQueues
from bursar.wire.model.pod_row import PodRowDecoder

LOG: Final = Log("controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    namespace: str
    """The namespace in which Bursar is installed; it holds the Lease."""
    identity: str
    """The holderIdentity on the Lease; unique to this process."""
    timing: Timing = DEFAULT_TIMING
    patience_s: int = PATIENCE_SECONDS
    quota_grace_s: float = GRACE_SECONDS
    """How long a deleted quota stays in force."""
    request_seconds: float = REQUEST_SECONDS
    """The API server's `--request-timeout`: how long it can take to store a resize."""
    waiting_pods_max: int = WAITING_PODS_MAX
    """Pods of one namespace that may wait; 0 for any number."""
    applied_quotas: AppliedUsage = AppliedUsage.OWN
    """Of which namespaces the copies of cluster-wide quotas show the usage."""
    address: str = ""
    """The URL at which this process answers questions about resizes; empty if it does not."""


def _do_nothing() -> None:
    """Do nothing. The default where the caller passes no function."""


@dataclass(eq=False)
class Controller:
    """One candidate for the Lease, and the term that it runs while it leads."""

    cluster: ReadWriter
    clock: Clock
    random: Random
    _: KW_ONLY
    settings: ControllerSettings
    open_sources: Callable[[], TermSources]
    """Makes the informers of a term, and chooses how pods are counted."""
    open_keeper: OpenKeeper | None = None
    """Makes the keeper of certificates for a term. None: certificates are left alone."""
    tracer: Tracer | None = None
    """None: nothing is traced."""
    on_synced: Callable[[], None] = _do_nothing
    """Called in each term when its caches and the books hold everything."""
    between_slices: Callable[[], None] = _do_nothing
    """Called between two slices of a long decision."""

    def __post_init__(self) -> None:
        cluster, clock, settings = self.cluster, self.clock, self.settings
        self._lease = Key(settings.namespace, CONTROLLER)
        self.election = Election(
            cluster,
            cluster,
            clock,
            candidacy=Candidacy(
                lease=self._lease, identity=settings.identity, timing=settings.timing
            ),
            random=self.random.random,
        )
        self.recorder = EventRecorder(
            cluster, clock, reasons=Reason, component=CONTROLLER, instance=settings.identity
        )
        self.capacity_recorder = EventRecorder(
            cluster, clock, reasons=CapacityReason, component=CONTROLLER, instance=settings.identity
        )
        self.quota_recorder = EventRecorder(
            cluster, clock, reasons=QuotaReason, component=CONTROLLER, instance=settings.identity
        )
        self.queue_recorder = EventRecorder(
            cluster, clock, reasons=QueueReason, component=CONTROLLER, instance=settings.identity
        )
        self._term_context = TermContext(
            cluster=cluster,
            clock=clock,
            random=self.random,
            is_leader=lambda: self.election.is_leader,
            write_seconds=settings.timing.stop_seconds,
            remaining_seconds=lambda: self.election.remaining_seconds,
            patience_s=settings.patience_s,
            quota_grace_s=settings.quota_grace_s,
            request_seconds=settings.request_seconds,
            promises_namespace=settings.namespace if settings.address else "",
            record_wait=partial(record_wait, self.recorder),
            record_uncounted=partial(record_uncounted, self.recorder),
            record_problem=partial(record_problem, self.quota_recorder),
            record_mismatch=partial(record_mismatch, self.quota_recorder),
            waiting_pods_max=settings.waiting_pods_max,
            applied_quotas=settings.applied_quotas,
            record_full=partial(record_full, self.queue_recorder),
            record_capacity=partial(record_event, self.capacity_recorder),
            tracer=self.tracer,
            on_synced=self.on_synced,
            between_slices=self.between_slices,
        )
        self._term: Term | None = None
        self._keeper: CertificateKeeper | None = None

    @property
    def recorders(self) -> tuple[EventCounts, ...]:
        """The event recorders of this process."""
        return (
            self.recorder,
            self.capacity_recorder,
            self.quota_recorder,
            self.queue_recorder,
        )

    @property
    def certificates(self) -> CertificateKeeper | None:
        """The keeper of certificates; None while this process keeps none."""
        return self._keeper

    @property
    def term(self) -> Term | None:
        """The running term; None while this process does not lead."""
        return self._term

    @property
    def resize_service(self) -> ResizeService | None:
        """Answers questions about resizes; None while this process does not lead."""
        term = self._term
        return term.resizes if term is not None and self.election.is_leader else None

    @property
    def full_queues(self) -> FullQueues | None:
        """The namespaces in which no more pods may wait; None while this process does not lead."""
        return None if self._term is None else self._term.queue_limit.full

    @property
    def readiness_problem(self) -> str:
        """Why this replica is not ready; empty if it leads with complete books, or another does."""
        term = self._term
        if term is not None:
            stale = staleness_problem(term.sources.informers())
            return stale or ("" if term.loop.is_synced else "the books are not complete yet")
        return "" if self.election.is_led_by_another else "no controller leads yet"

    def decode_row(self, body: bytes) -> PodRow:
        """Decode a pod with the facts that the counter of the present term needs.

        Raises `ValueError`.
        """
        term = self._term
        derive_facts = None if term is None else term.sources.books.counter.derive_facts
        return PodRowDecoder(derive_facts).decode(body)

    async def run(self) -> None:
        """Stand for election, and lead when elected, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            # Events are written by tasks of their own, so that they never delay a term's end.
            tasks.create_task(self.recorder.run())
            tasks.create_task(self.capacity_recorder.run())
            tasks.create_task(self.quota_recorder.run())
            tasks.create_task(self.queue_recorder.run())
            await self.election.run(self._lead)

    async def _lead(self) -> None:
        token = self.election.token
        LOG.info("leading as the holder of the Lease", identity=self.settings.identity)
        if token is not None and token.transitions:
            # Patches that the previous leader sent may still be on their way.
            await self.clock.sleep(self.settings.timing.stop_seconds)
        term = Term(self._term_context, self.open_sources())
        self._term = term
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._publish_address())
                tasks.create_task(term.run())
                if self.open_keeper is not None:
                    self._keeper = self.open_keeper(lambda: self.election.is_leader)
                    tasks.create_task(self._keeper.run())
        finally:
            self._term = self._keeper = None
            LOG.info("no longer leading")

    async def _publish_address(self) -> None:
        """Write this process's address on the Lease. Clients must still verify that it leads.

        The same patch makes the Lease go when Bursar is uninstalled.
        """
        metadata: dict[str, Json] = {
            "annotations": {ADDRESS_ANNOTATION: self.settings.address or None}
        }
        while self.election.is_leader:
            try:
                owners = await owner_references(self.cluster, self.settings.namespace)
                if owners:
                    metadata["ownerReferences"] = list(owners)
                patch = Patch(kind=PatchKind.MERGE, body={"metadata": metadata})
                await self.cluster.patch(LEASES, self._lease, patch)
            except ClusterError:
                await self.clock.sleep(self.settings.timing.retry_seconds)
            else:
                return
