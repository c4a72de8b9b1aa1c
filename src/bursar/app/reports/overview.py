"""The overview of a cluster: load of each node, and pods that run, wait or have ended."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Final

from bursar.app.quota.views.read_model import NO_BOOKS, BooksView, QuotaLine
from bursar.core.model.admission.limit_range import LimitRange
from bursar.core.model.names import CPU, MEMORY, PODS
from bursar.core.model.node import Node
from bursar.core.model.numbers.binary_float import percent
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.placement.message import gates_text
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.vector import as_quantity
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey

FULL_PERCENT: Final = 90
"""Percentage of a resource from which a node counts as full."""
EXHAUSTED_PERCENT: Final = 100
"""Percentage of a resource from which a quota counts as full."""


class PodState(Enum):
    GATED = "gated"
    """The pod has a scheduling gate."""
    WAITING = "waiting"
    """The pod has no scheduling gate and no node."""
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests for one resource of a node."""

    resource: str
    requested: Quantity
    allocatable: Quantity
    percent: int
    """Percentage of allocatable, rounded towards zero; 100 if allocatable is zero."""

    @property
    def is_full(self) -> bool:
        return self.percent >= FULL_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    name: str
    is_ready: bool
    is_cordoned: bool
    pod_count: int
    loads: tuple[Load, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    namespace: str
    name: str
    state: PodState
    reason: str
    priority: int
    position: int | None = None
    """Place in the queue of the quotas, from 1; None for a pod that waits for something else."""
    ahead_count: int = 0
    """Pods that are released before it and need a quota that it waits for."""
    ahead: tuple[PodKey, ...] = ()
    """The first of the `ahead_count` pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLine:
    """Something that happened to an object."""

    time: datetime
    namespace: str
    kind: str
    name: str
    reason: str
    note: str
    is_warning: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True)
class Full:
    """A resource of a node or of a quota that is used up."""

    resource: str
    node: str = ""
    quota: QuotaKey | None = None
    """None if the resource is a node's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects that an overview was made of, for explanations."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    nodes: tuple[NodeLine, ...]
    counts: Mapping[PodState, int]
    waiting: tuple[WaitingLine, ...]
    """Gated and waiting pods: first the queue of the quotas, then by priority."""
    quotas: tuple[QuotaLine, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    events: tuple[EventLine, ...] = ()
    """The newest first."""
    objects: Objects = field(default_factory=Objects)

    @property
    def full(self) -> tuple[Full, ...]:
        """Resources of nodes with at least `FULL_PERCENT` requested, and exhausted quotas."""
        nodes = (
            Full(load.resource, node=node.name)
            for node in self.nodes
            for load in node.loads
            if load.is_full
        )
        quotas = (
            Full(resource, quota=line.key)
            for line in self.quotas
            for resource in sorted(line.hard)
            if quota_percent(line, resource) >= EXHAUSTED_PERCENT
        )
        return (*nodes, *quotas)


def quota_percent(line: QuotaLine, resource: str) -> int:
    """Percentage of a quota's limit that is used, rounded towards zero; 100 if it is zero."""
    hard = line.hard[resource].nanos
    used = line.used.get(resource, ZERO).nanos
    return used * 100 // hard if hard > 0 else EXHAUSTED_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Objects beside nodes and pods that an overview shows."""

    native_quotas: tuple[QuotaLine, ...] = ()
    """ResourceQuotas, which the books do not have."""
    limit_ranges: tuple[LimitRange, ...] = ()
    events: tuple[EventLine, ...] = ()


NO_POLICIES: Final = Policies()


class OverviewReader:
    """Summarises a cluster again and again.

    A node is computed again only if it or a pod on it is another object than the last time, so a
    repeated overview of many pods costs little.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, list[Pod], NodeLine]] = {}

    def read(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        books: BooksView = NO_BOOKS,
        policies: Policies = NO_POLICIES,
    ) -> Overview:
        everything = Objects(
            nodes=tuple(sorted(nodes, key=lambda node: node.name)), pods=tuple(pods)
        )
        on_nodes: dict[str, list[Pod]] = {}
        for pod in everything.pods:
            if pod.node_name:
                on_nodes.setdefault(pod.node_name, []).append(pod)
        states = [state_of(pod) for pod in everything.pods]
        held = (
            _waiting_line(pod, state, books)
            for pod, state in zip(everything.pods, states, strict=True)
            if state in {PodState.GATED, PodState.WAITING}
        )
        lines = [self._line(node, on_nodes.get(node.name, [])) for node in everything.nodes]
        self._known = {known[0].name: known for known in lines}
        return Overview(
            nodes=tuple(line for _, _, line in lines),
            counts=Counter(states),
            waiting=tuple(sorted(held, key=_order)),
            quotas=(*books.quotas, *policies.native_quotas),
            limit_ranges=policies.limit_ranges,
            events=policies.events,
            objects=everything,
        )

    def _line(self, node: Node, pods: list[Pod]) -> tuple[Node, list[Pod], NodeLine]:
        known = self._known.get(node.name)
        if (
            known is not None
            and known[0] is node
            and len(known[1]) == len(pods)
            and all(one is other for one, other in zip(known[1], pods, strict=True))
        ):
            return known
        return node, pods, _node_line(node, pods)


def overview(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    books: BooksView = NO_BOOKS,
    policies: Policies = NO_POLICIES,
) -> Overview:
    """Summarise the nodes and pods of a cluster once."""
    return OverviewReader().read(nodes, pods, books, policies)


def _order(line: WaitingLine) -> tuple[int, int, str, str]:
    if line.position is not None:
        return 0, line.position, line.namespace, line.name
    return 1, -line.priority, line.namespace, line.name


def state_of(pod: Pod) -> PodState:
    if pod.phase in _BY_PHASE:
        return _BY_PHASE[pod.phase]
    if pod.node_name:
        return PodState.STARTING
    return PodState.GATED if pod.scheduling_gates else PodState.WAITING


_BY_PHASE: Final = {
    "Running": PodState.RUNNING,
    "Succeeded": PodState.SUCCEEDED,
    "Failed": PodState.FAILED,
}


def _waiting_line(pod: Pod, state: PodState, books: BooksView) -> WaitingLine:
    key = PodKey(pod.namespace, pod.name)
    place = books.places.get(key) if state is PodState.GATED else None
    reason = books.reasons.get(key, "") if state is PodState.GATED else _scheduler_says(pod)
    return WaitingLine(
        namespace=pod.namespace,
        name=pod.name,
        state=state,
        reason=reason or gates_text(pod.scheduling_gates),
        priority=pod.priority or 0,
        position=place.position if place else None,
        ahead_count=place.ahead_count if place else 0,
        ahead=place.ahead if place else (),
    )


def _scheduler_says(pod: Pod) -> str:
    for condition in pod.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return "not looked at yet"


def _node_line(node: Node, pods: Sequence[Pod]) -> NodeLine:
    books = NodeBooks(replace(node, allocatable=node.allocatable or node.capacity), pods)
    ready = any(c.type == "Ready" and c.status == "True" for c in node.conditions)
    return NodeLine(
        name=node.name,
        is_ready=ready,
        is_cordoned=node.unschedulable,
        pod_count=books.pod_count,
        loads=tuple(_load(name, books) for name in _listed(books)),
    )


def _listed(books: NodeBooks) -> list[str]:
    """The resources of a node: cpu and memory first, pods last."""
    offered = books.node.allocatable
    others = sorted(name for name in offered if name not in {CPU, MEMORY, PODS})
    return [name for name in (CPU, MEMORY, *others, PODS) if name in offered]


def _load(name: str, books: NodeBooks) -> Load:
    taken = books.pod_count if name == PODS else books.taken.amount(name)
    offered = books.allocatable.amount(name)
    return Load(
        resource=name,
        requested=as_quantity(name, taken),
        allocatable=books.node.allocatable[name],
        percent=percent(taken, offered) if offered > 0 else 100,
    )
