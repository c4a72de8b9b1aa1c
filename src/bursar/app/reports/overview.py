"""The overview of a cluster: load of each node, and pods that run, wait or have ended."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from bursar.app.quota.read_model import NO_BOOKS, BooksView, QuotaLine
from bursar.core.model.names import CPU, MEMORY, PODS
from bursar.core.model.node import Node
from bursar.core.model.numbers.binary_float import percent
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import Quantity
from bursar.core.placement.message import gates_text
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.vector import as_quantity
from bursar.core.quota.ledger import PodKey

FULL_PERCENT: Final = 90
"""Percentage of a resource from which a node counts as full."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    nodes: tuple[NodeLine, ...]
    counts: Mapping[PodState, int]
    waiting: tuple[WaitingLine, ...]
    """Gated and waiting pods, highest priority first."""
    quotas: tuple[QuotaLine, ...] = ()

    @property
    def full(self) -> tuple[tuple[str, str], ...]:
        """Pairs of node and resource with at least `FULL_PERCENT` requested."""
        return tuple(
            (node.name, load.resource) for node in self.nodes for load in node.loads if load.is_full
        )


def overview(nodes: Iterable[Node], pods: Iterable[Pod], books: BooksView = NO_BOOKS) -> Overview:
    """Summarise the nodes and pods of a cluster."""
    everyone = list(pods)
    on_nodes: dict[str, list[Pod]] = {}
    for pod in everyone:
        if pod.node_name:
            on_nodes.setdefault(pod.node_name, []).append(pod)
    states = [state_of(pod) for pod in everyone]
    held = (
        _waiting_line(pod, state, books)
        for pod, state in zip(everyone, states, strict=True)
        if state in {PodState.GATED, PodState.WAITING}
    )
    return Overview(
        nodes=tuple(
            _node_line(node, on_nodes.get(node.name, []))
            for node in sorted(nodes, key=lambda node: node.name)
        ),
        counts=Counter(states),
        waiting=tuple(sorted(held, key=lambda line: (-line.priority, line.namespace, line.name))),
        quotas=books.quotas,
    )


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
    reason = books.reasons.get(PodKey(pod.namespace, pod.name), "")
    if state is not PodState.GATED:
        reason = _scheduler_says(pod)
    return WaitingLine(
        namespace=pod.namespace,
        name=pod.name,
        state=state,
        reason=reason or gates_text(pod.scheduling_gates),
        priority=pod.priority or 0,
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
