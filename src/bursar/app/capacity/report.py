"""The capacity report: how much of a resource each node has, what is used and what waits."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from bursar.core.model.names import PODS
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList

ONE: Final = Quantity.of(1)


class NodeCapacity(Protocol):
    """The fields of a node that the report needs."""

    @property
    def name(self) -> str: ...
    @property
    def capacity(self) -> ResourceList: ...
    @property
    def allocatable(self) -> ResourceList: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLine:
    """One node, or the total of all nodes."""

    node: str
    """Empty for the total."""
    capacity: Quantity | None
    """None if the node does not name the resource."""
    allocatable: Quantity | None
    used: Quantity
    """What the pods on the node request, without pods that have ended."""
    pods: int
    """Number of pods on the node that request the resource and have not ended."""
    free: Quantity
    """What is free on the node, at least zero; for the total, the sum over the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    resource: str
    nodes: tuple[CapacityLine, ...]
    """Nodes that offer the resource, and nodes where pods use it; by name."""
    total: CapacityLine
    waiting: Quantity
    """What pods without a node request."""
    waiting_pods: int
    gated_pods: int
    """How many of the waiting pods have a scheduling gate."""


@dataclass(slots=True)
class _Sum:
    amount: Quantity = ZERO
    pods: int = 0

    def add(self, amount: Quantity, pods: int = 1) -> None:
        self.amount += amount
        self.pods += pods


def capacity_report(
    nodes: Iterable[NodeCapacity], pods: Iterable[PodRow], resource: str
) -> CapacityReport:
    """The report about one resource."""
    used: dict[str, _Sum] = {}
    waiting, gated = _Sum(), 0
    for row in pods:
        amount = _requested(row, resource)
        if amount.is_zero or row.is_terminated:
            continue
        if row.node_name:
            used.setdefault(row.node_name, _Sum()).add(amount)
        else:
            waiting.add(amount)
            gated += bool(row.profile.gates)
    lines = _lines(nodes, used, resource)
    return CapacityReport(
        resource=resource,
        nodes=lines,
        total=_total(lines),
        waiting=waiting.amount,
        waiting_pods=waiting.pods,
        gated_pods=gated,
    )


def _requested(row: PodRow, resource: str) -> Quantity:
    if resource == PODS:
        return ONE
    demand = row.demand.in_names([resource])
    requests = demand.assigned_requests if row.node_name else demand.quota_requests
    return requests.get(resource, ZERO)


def _lines(
    nodes: Iterable[NodeCapacity], used: dict[str, _Sum], resource: str
) -> tuple[CapacityLine, ...]:
    """One line for each node that offers the resource or whose pods use it.

    So a node that does not exist any more is listed if pods on it use the resource.
    """
    offers = {node.name: node for node in nodes}
    lines = []
    for name in sorted(offers.keys() | used.keys()):
        offer, taken = offers.get(name), used.get(name, _Sum())
        line = CapacityLine(
            node=name,
            capacity=None if offer is None else offer.capacity.get(resource),
            allocatable=None if offer is None else offer.allocatable.get(resource),
            used=taken.amount,
            pods=taken.pods,
            free=_free(offer, taken.amount, resource),
        )
        if line.capacity is not None or line.allocatable is not None or line.pods:
            lines.append(line)
    return tuple(lines)


def _free(offer: NodeCapacity | None, used: Quantity, resource: str) -> Quantity:
    if offer is None:
        return ZERO
    left = offer.allocatable.get(resource, ZERO) - used
    return ZERO if left.is_negative else left


def _total(lines: tuple[CapacityLine, ...]) -> CapacityLine:
    return CapacityLine(
        node="",
        capacity=sum((line.capacity or ZERO for line in lines), ZERO),
        allocatable=sum((line.allocatable or ZERO for line in lines), ZERO),
        used=sum((line.used for line in lines), ZERO),
        pods=sum(line.pods for line in lines),
        free=sum((line.free for line in lines), ZERO),
    )
