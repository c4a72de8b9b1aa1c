"""The operator process: stands for election, and keeps the installation while it leads."""

import asyncio
from dataclasses import KW_ONLY, dataclass
from random import Random
from typing import Final

from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.timing import DEFAULT_TIMING, Timing
from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.ports import Clock, Key
from bursar.app.log import Log
from bursar.app.operator.events import OperatorReason
from bursar.app.operator.names import LEASE, OPERATOR
from bursar.app.operator.term import Cluster, OperatorSettings, OperatorTerm, TermContext
from bursar.app.tracing import Tracer

LOG: Final = Log("operator")


@dataclass(eq=False)
class Operator:
    """One candidate for the operator's Lease. Call `run` once."""

    cluster: Cluster
    clock: Clock
    random: Random
    _: KW_ONLY
    settings: OperatorSettings
    identity: str
    """The holderIdentity on the Lease; unique to this process."""
    timing: Timing = DEFAULT_TIMING
    tracer: Tracer | None = None
    """None: nothing is traced."""

    def __post_init__(self) -> None:
        lease = Key(self.settings.home, LEASE)
        self.election = Election(
            self.cluster,
            self.cluster,
            self.clock,
            candidacy=Candidacy(lease=lease, identity=self.identity, timing=self.timing),
            random=self.random.random,
        )
        self.recorder = EventRecorder(
            self.cluster,
            self.clock,
            reasons=OperatorReason,
            component=OPERATOR,
            instance=self.identity,
        )
        self._term: OperatorTerm | None = None

    @property
    def term(self) -> OperatorTerm | None:
        """The running term; None while this process does not lead."""
        return self._term

    @property
    def readiness_problem(self) -> str:
        """Why this replica is not ready; empty if it leads, or another does."""
        if self._term is not None:
            return "" if self._term.aaqs.is_synced else "the AAQ objects are not known yet"
        return "" if self.election.is_led_by_another else "no operator leads yet"

    async def run(self) -> None:
        """Stand for election, and lead when elected, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.recorder.run())
            await self.election.run(self._lead)

    async def _lead(self) -> None:
        LOG.info("leading as the holder of the Lease", identity=self.identity)
        term = OperatorTerm(
            TermContext(
                cluster=self.cluster,
                clock=self.clock,
                random=self.random,
                settings=self.settings,
                is_leader=lambda: self.election.is_leader,
                remaining_seconds=lambda: self.election.remaining_seconds,
                recorder=self.recorder,
                tracer=self.tracer,
            )
        )
        self._term = term
        try:
            await term.run()
        finally:
            self._term = None
            LOG.info("no longer leading")
