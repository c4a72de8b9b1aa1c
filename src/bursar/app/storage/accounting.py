"""The accounting of one node's disk: measure, decide, report, in rounds. It evicts nothing."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bursar.app.cluster.ports import Clock
from bursar.app.log import Log
from bursar.app.storage.ports import Disk, DiskError, SummaryError, SummarySource
from bursar.app.storage.report import GrowthHistory, NodeFacts, NodeReport, PodStorage, node_report
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.pressure import Threshold
from bursar.core.storage.summary import Summary

WARNED_SECONDS: Final = 60
"""A pod that is evicted within this time is logged."""

PodReader: TypeAlias = Callable[[], Awaitable[Sequence[StoragePod] | None]]
"""The pods of the node; None while they are not known."""
AllocatableReader: TypeAlias = Callable[[], Awaitable[int | None]]


@dataclass(slots=True, kw_only=True)
class StorageCounts:
    rounds: int = 0
    disk_failures: int = 0
    summary_failures: int = 0


@dataclass(slots=True, kw_only=True)
class StorageAccounting:
    node: str
    pods: PodReader
    disk: Disk
    summary: SummarySource
    allocatable: AllocatableReader
    clock: Clock
    thresholds: Sequence[Threshold]
    log: Log
    interval_s: float = 10.0
    counts: StorageCounts = field(default_factory=StorageCounts)
    report: NodeReport | None = None
    """The last one; None before the first round has ended."""
    reported_at_s: float = 0.0
    _history: GrowthHistory = field(default_factory=GrowthHistory)
    _told: frozenset[tuple[str, str, str]] = frozenset()
    """Limits that were logged. A limit is logged again after it was no longer near."""

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            began_s = self.clock.monotonic()
            await self.round()
            left_s = self.interval_s - (self.clock.monotonic() - began_s)
            await self.clock.sleep(max(left_s, self.interval_s / 10))

    async def round(self) -> None:
        """Measure once. Failures of a part leave out its figures, and are in the report."""
        pods = await self.pods()
        if pods is None:
            return
        problems: list[str] = []
        disk = nodefs = None
        try:
            disk, nodefs = await self.disk.measure(pods), self.disk.filesystem()
        except DiskError as error:
            self.counts.disk_failures += 1
            problems.append(str(error))
        summary = await self._read_summary(problems)
        self.report = node_report(
            NodeFacts(
                node=self.node,
                at_ms=int(self.clock.monotonic() * 1000),
                pods=pods,
                disk=disk,
                summary=summary,
                nodefs=nodefs,
                allocatable=await self.allocatable(),
                thresholds=self.thresholds,
                problem="; ".join(problems),
            ),
            self._history,
        )
        self.counts.rounds += 1
        self.reported_at_s = self.clock.monotonic()
        self._tell(self.report)

    async def _read_summary(self, problems: list[str]) -> Summary | None:
        try:
            return await self.summary.read()
        except SummaryError as error:
            self.counts.summary_failures += 1
            problems.append(str(error))
            return None

    def _tell(self, report: NodeReport) -> None:
        """Log each limit once that is exceeded, or is soon."""
        near = {_key(row): row for row in report.rows if _is_near(row)}
        for key, row in near.items():
            if key not in self._told:
                self._tell_one(row)
        self._told = frozenset(near)

    def _tell_one(self, row: PodStorage) -> None:
        found = row.next_limit
        assert found is not None
        self.log.warning(
            "the kubelet evicts a pod for its local storage",
            namespace=row.pod.namespace,
            pod=row.pod.name,
            seconds=row.seconds_left,
            used=found.state.used,
            reason=found.state.message.strip(),
        )


def _is_near(row: PodStorage) -> bool:
    return row.seconds_left is not None and row.seconds_left <= WARNED_SECONDS


def _key(row: PodStorage) -> tuple[str, str, str]:
    found = row.next_limit
    assert found is not None
    return row.pod.uid, found.state.kind.value, found.state.name
