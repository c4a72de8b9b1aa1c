"""The accounting of local ephemeral storage in the agent: which parts it is made of."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.disk.node_disk import DiskPlaces, NodeDisk
from bursar.adapters.disk.project_files import ProjectFiles
from bursar.adapters.disk.projects import QuotaCounter
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kubelet.access import KubeletAccess
from bursar.adapters.kubelet.endpoint import EndpointSource
from bursar.adapters.kubelet.http import KubeletLimits
from bursar.adapters.kubelet.summary import KubeletSummary
from bursar.adapters.serving.message import Guard, Routes
from bursar.adapters.serving.status_page import Value
from bursar.adapters.telemetry.disk.families import DiskView, disk_families
from bursar.adapters.telemetry.disk.http import disk_routes
from bursar.adapters.telemetry.exposition import Family
from bursar.adapters.telemetry.status.disk import disk_section
from bursar.app.devices.node_pods import NodePods
from bursar.app.log import Log
from bursar.app.storage.accounting import StorageAccounting
from bursar.app.storage.allocatable import NodeAllocatable
from bursar.app.storage.document import node_document
from bursar.cli.storage.disk_options import DiskSettings, ProjectQuotaUse
from bursar.core.storage.pod import StoragePod

LOG: Final = Log("disk")
ROUND_PART: Final = 0.8
"""The part of the interval in which scans work; the rest is for the kubelet's summary."""


@dataclass(frozen=True, slots=True)
class DiskPart:
    accounting: StorageAccounting
    disk: NodeDisk

    def view(self) -> DiskView:
        found = self.accounting
        return DiskView(counts=found.counts, scans=self.disk.counts, report=found.report)

    def families(self) -> Iterator[Family]:
        return disk_families(self.view())

    def routes(self, guard: Guard | None) -> Routes:
        return disk_routes(self.document, guard)

    def section(self) -> Mapping[str, Value]:
        found = self.accounting
        is_first = found.report is None
        age_s = None if is_first else SYSTEM_CLOCK.monotonic() - found.reported_at_s
        return disk_section(self.view(), age_s)

    def document(self) -> Mapping[str, object] | None:
        report = self.accounting.report
        return None if report is None else node_document(report)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNeeds:
    """What the accounting takes from the rest of the agent."""

    node: str
    client: KubeClient | None
    endpoint: EndpointSource
    access: KubeletAccess
    limits: KubeletLimits


def _report_quota(problem: str) -> None:
    LOG.warning("a volume is scanned that project quotas could count", problem=problem)


@asynccontextmanager
async def disk_part(
    settings: DiskSettings, needs: DiskNeeds, pods: NodePods
) -> AsyncIterator[DiskPart]:
    places = DiskPlaces(kubelet=settings.kubelet_folder, logs=settings.logs_folder)
    client = needs.client

    async def no_allocatable() -> int | None:
        return None

    async def current_pods() -> Sequence[StoragePod] | None:
        view = await pods.current()
        if view is None:
            return None
        return [pod.storage for pod in view.pods.values() if pod.storage is not None]

    counter = None
    if settings.quota is not ProjectQuotaUse.OFF:
        files = ProjectFiles() if settings.quota is ProjectQuotaUse.ASSIGN else None
        counter = QuotaCounter(files, report=_report_quota)
    async with (
        NodeDisk(places, round_s=settings.interval_s * ROUND_PART, counter=counter) as disk,
        KubeletSummary(needs.endpoint, needs.access, needs.limits) as summary,
    ):
        yield DiskPart(
            StorageAccounting(
                node=needs.node,
                pods=current_pods,
                disk=disk,
                summary=summary,
                allocatable=no_allocatable
                if client is None
                else NodeAllocatable(client, needs.node, SYSTEM_CLOCK).read,
                clock=SYSTEM_CLOCK,
                thresholds=settings.thresholds,
                log=LOG,
                interval_s=settings.interval_s,
            ),
            disk,
        )
