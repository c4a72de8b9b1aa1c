"""How much of a resource each node has, what of it is used, and what waits for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from bursar.core.model.names import PODS
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList

ONE: Final = Quantity.of(1)


class Offer(Protocol):
    """Of a node, what is needed here."""

    @property
    def name(self) -> str: ...
    @property
    def capacity(self) -> ResourceList: ...
    @property
    def allocatable(self) -> ResourceList: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLine:
    """One node, or all together."""

    node: str
    """Empty for all together."""
    capacity: Quantity | None
    """None if the node offers none of it, not even zero."""
    allocatable: Quantity | None
    used: Quantity
    """Requested by pods on the node that have not ended."""
    pods: int
    """How many pods that are."""
    free: Quantity
    """What pods may still use there; for all together the sum of that, so that a node in debt
    takes nothing away from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLines:
    resource: str
    nodes: tuple[CapacityLine, ...]
    """Nodes that offer it, and those where pods use it all the same; by name."""
    total: CapacityLine
    waiting: Quantity
    """Requested by pods that have no node yet."""
    waiting_pods: int
    gated_pods: int
    """Of those that wait, how many a scheduling gate holds back."""


@dataclass(slots=True)
class _Sum:
    amount: Quantity = ZERO
    pods: int = 0

    def add(self, amount: Quantity, pods: int = 1) -> None:
        self.amount += amount
        self.pods += pods


def capacity_lines(nodes: Iterable[Offer], pods: Iterable[PodRow], resource: str) -> CapacityLines:
    """Sum up one resource, whatever its name."""
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
    return CapacityLines(
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
    demand = row.demand
    requests = demand.assigned_requests if row.node_name else demand.quota_requests
    return requests.get(resource, ZERO)


def _lines(
    nodes: Iterable[Offer], used: dict[str, _Sum], resource: str
) -> tuple[CapacityLine, ...]:
    """Pods may sit on nodes that nobody knows any more; they count with what they use."""
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


def _free(offer: Offer | None, used: Quantity, resource: str) -> Quantity:
    if offer is None:
        return ZERO
    left = offer.allocatable.get(resource, ZERO) - used
    return ZERO if left.is_negative else left


def _total(lines: tuple[CapacityLine, ...]) -> CapacityLine:
    return CapacityLine(
        node="",
        capacity=_added(line.capacity or ZERO for line in lines),
        allocatable=_added(line.allocatable or ZERO for line in lines),
        used=_added(line.used for line in lines),
        pods=sum(line.pods for line in lines),
        free=_added(line.free for line in lines),
    )


def _added(amounts: Iterable[Quantity]) -> Quantity:
    total = ZERO
    for amount in amounts:
        total += amount
    return total
