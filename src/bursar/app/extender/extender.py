"""The extender: stands for election, and answers the scheduler while it leads."""

import asyncio
from collections import Counter
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import Final

from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.ports import Clock, Key
from bursar.app.extender.binding import BindResult
from bursar.app.extender.names import EXTENDER
from bursar.app.extender.status import PoolEventReason
from bursar.app.extender.term import Cluster, ExtenderTerm, TermContext
from bursar.app.log import Log
from bursar.core.model.pod_row import PodRow
from bursar.core.pools.holds import HOLD_SECONDS
from bursar.core.pools.refusal import PoolReason, PoolRefusal
from bursar.wire.extender import BindRequest, PreemptRequest, Victims
from bursar.wire.model.pod_row import PodRowDecoder

LOG: Final = Log("extender")
BIND_ACTION: Final = "Bind"


class NotLeadingError(Exception):
    """This replica cannot decide. The text is sent to the scheduler, which tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    namespace: str
    """The namespace in which Bursar is installed; it holds the Lease."""
    identity: str
    """The holderIdentity on the Lease; unique to this process."""
    timing: Timing = DEFAULT_TIMING
    hold_s: int = HOLD_SECONDS
    """How long a pod that passed filter holds its part of a pool if no bind follows."""
    address: tuple[str, int] | None = None
    """The IP address and port that the Service leads to. None: no EndpointSlice is written."""


@dataclass(eq=False)
class Extender:
    """One candidate for the Lease. Call `run` once; the verbs raise `NotLeadingError`."""

    cluster: Cluster
    clock: Clock
    random: Random
    _: KW_ONLY
    settings: ExtenderSettings
    refusals: Counter[PoolReason] = field(default_factory=Counter, init=False)
    """Pods that a verb refused, by the first reason."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.election = Election(
            self.cluster,
            self.cluster,
            self.clock,
            candidacy=Candidacy(
                lease=Key(settings.namespace, EXTENDER),
                identity=settings.identity,
                timing=settings.timing,
            ),
            random=self.random.random,
        )
        self.pool_recorder = EventRecorder(
            self.cluster,
            self.clock,
            reasons=PoolEventReason,
            component=EXTENDER,
            instance=settings.identity,
        )
        self.pod_recorder = EventRecorder(
            self.cluster,
            self.clock,
            reasons=PoolReason,
            component=EXTENDER,
            instance=settings.identity,
        )
        self._decoder = PodRowDecoder()
        self._term: ExtenderTerm | None = None

    @property
    def term(self) -> ExtenderTerm | None:
        """The running term; None while this process does not lead."""
        return self._term

    @property
    def readiness_problem(self) -> str:
        """Why this replica is not ready; empty if it can decide, or another one leads."""
        if self._term is not None:
            return "" if self._term.is_synced else "the cluster has not been read yet"
        return "" if self.election.is_led_by_another else "no extender leads yet"

    # ------------------------------------------------------------------ verbs

    def filter(self, pod: bytes) -> tuple[PoolRefusal, ...]:
        """Hold what the pod requests of pools, or say why not. Raises `ValueError` as well."""
        term = self._leading()
        refusals = term.books.filter(self._decoder.decode(pod), int(self.clock.monotonic()))
        if refusals:
            self.refusals[refusals[0].reason] += 1
        return refusals

    def preempt(self, request: PreemptRequest) -> dict[str, Victims]:
        """The victims on those nodes where their eviction helps. Raises `ValueError` as well."""
        books = self._leading().books
        row = self._decoder.decode(request.pod)
        uids = {node: victims.uids for node, victims in request.victims.items()}
        return {node: request.victims[node] for node in books.useful_nodes(row, uids)}

    async def bind(self, request: BindRequest) -> BindResult:
        result = await self._leading().binder.bind(request)
        if result.reason is not None:
            self.refusals[result.reason] += 1
            if result.row is not None:
                self._record(result.row, result.reason, result.message)
        return result

    def _leading(self) -> ExtenderTerm:
        term = self._term
        if term is None or not self.election.is_leader:
            raise NotLeadingError("another replica of the extender leads")
        if not term.is_synced:
            raise NotLeadingError("the cluster has not been read yet")
        return term

    def _record(self, row: PodRow, reason: PoolReason, message: str) -> None:
        self.pod_recorder.record(
            ObjectReference(
                api_version="v1",
                kind="Pod",
                namespace=row.namespace,
                name=row.name,
                uid=row.stamp.uid,
            ),
            reason,
            message,
            action=BIND_ACTION,
            type=EventType.WARNING,
        )

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Stand for election, and lead when elected, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pool_recorder.run())
            tasks.create_task(self.pod_recorder.run())
            await self.election.run(self._lead)

    async def _lead(self) -> None:
        settings, token = self.settings, self.election.token
        LOG.info("leading as the holder of the Lease", identity=settings.identity)
        if token is not None and token.transitions:
            # Bindings that the previous leader sent may still be on their way. They have to be in
            # the list of pods that this term begins with.
            await self.clock.sleep(settings.timing.stop_seconds)
        term = ExtenderTerm(
            TermContext(
                cluster=self.cluster,
                clock=self.clock,
                random=self.random,
                namespace=settings.namespace,
                is_leader=lambda: self.election.is_leader,
                write_seconds=settings.timing.stop_seconds,
                hold_s=settings.hold_s,
                address=settings.address,
                recorder=self.pool_recorder,
            )
        )
        self._term = term
        try:
            await term.run()
        finally:
            self._term = None
            LOG.info("no longer leading")
