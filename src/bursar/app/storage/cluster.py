"""The disks of a cluster's nodes, read once through the API server, from the kubelets' figures."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.ports import EVERYTHING, ClusterError, Key, Query, Reader
from bursar.app.cluster.reading.listing import list_all
from bursar.app.storage.allocatable import allocatable_of
from bursar.app.storage.report import GrowthHistory, NodeFacts, NodeReport, node_report
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.pressure import Threshold
from bursar.core.storage.summary import Summary
from bursar.wire.storage.pod import decode_placed_pod
from bursar.wire.storage.summary import decode_summary

IN_FLIGHT_MAX: Final = 16
"""Kubelets that are asked at the same time."""


class DiskCluster(Reader, Protocol):
    async def node_summary(self, node: str) -> bytes:
        """The `/stats/summary` of a node's kubelet. Raises `ClusterError`."""


@dataclass(slots=True)
class ClusterDisks:
    """Reads the nodes of a cluster, or one of them. A second read has rates."""

    cluster: DiskCluster
    thresholds: Sequence[Threshold]
    node: str = ""
    """Empty: all nodes."""
    _histories: dict[str, GrowthHistory] = field(
        default_factory=lambda: defaultdict(GrowthHistory), init=False
    )

    async def read(self, at_ms: int) -> list[NodeReport]:
        """A report for each node, by name. Raises `ClusterError`, and `ValueError`.

        A node whose kubelet does not answer has a report with the problem.
        """
        nodes = await self._nodes()
        pods = await self._pods()
        busy = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def one(node: str, allocatable: int | None) -> NodeReport:
            async with busy:
                summary, problem = await self._summary(node)
            return node_report(
                NodeFacts(
                    node=node,
                    at_ms=at_ms,
                    pods=pods.get(node, ()),
                    summary=summary,
                    allocatable=allocatable,
                    thresholds=self.thresholds,
                    problem=problem,
                ),
                self._histories[node],
            )

        return list(await asyncio.gather(*(one(*each) for each in sorted(nodes.items()))))

    async def _pods(self) -> Mapping[str, Sequence[StoragePod]]:
        query = Query(field_selector=f"spec.nodeName={self.node}") if self.node else EVERYTHING
        found = defaultdict(list)
        for node, pod in await list_all(self.cluster, PODS, query, decode_placed_pod, problems=[]):
            found[node].append(pod)
        return found

    async def _nodes(self) -> dict[str, int | None]:
        """Nodes with what they let pods use."""
        if self.node:
            return dict([allocatable_of(await self.cluster.get(NODES, Key("", self.node)))])
        return dict(await list_all(self.cluster, NODES, EVERYTHING, allocatable_of))

    async def _summary(self, node: str) -> tuple[Summary | None, str]:
        try:
            return decode_summary(await self.cluster.node_summary(node)), ""
        except ClusterError as error:
            return None, str(error)
        except ValueError:
            return None, "the kubelet's answer is not a summary"
