"""Remedies: the smallest changes with which a pod that fits no node would run.

Each remedy is enough by itself, as far as the filters of `core/placement` can tell. If a node
refuses the pod for two kinds of reasons, no remedy of one kind is enough for that node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from bursar.core.model.names import PODS
from bursar.core.model.node import Taint
from bursar.core.model.pod import MIRROR_ANNOTATION, Pod
from bursar.core.placement.fit import Shortfall, shortfalls_of
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.remedies.eviction import Eviction, smallest_eviction
from bursar.core.placement.remedies.obstacles import Filter, NodeVerdict
from bursar.core.placement.vector import Vector

DAEMON_SET: Final = "DaemonSet"
NODE_TAINT_PREFIX: Final = "node.kubernetes.io/"
"""Taints of a node that has a problem of its own. Tolerating them does not help a pod to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerRequests:
    """Request no more than what is free on the node."""

    node: str
    shortfalls: tuple[Shortfall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FreePods:
    """End these pods of the node."""

    node: str
    pods: tuple[Pod, ...]
    is_smallest: bool
    """Whether it is certain that no smaller set is enough, on any node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordon:
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerate:
    """Add tolerations to the pod, or remove the taints from the node."""

    node: str
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairNode:
    """The node has a problem of its own, such as no network or a full disk."""

    node: str
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLabels:
    """Label the node as the pod's node selector wants it."""

    node: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNode:
    """Add a node like this one. It has the pods of this one's DaemonSets, and no others."""

    like: str


Remedy: TypeAlias = (
    LowerRequests | FreePods | Uncordon | Tolerate | RepairNode | AddLabels | AddNode
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """A resource of which the pod requests more than any node has in total."""

    resource: str
    requested: int
    largest: int
    node: str
    """The node that has the most of it."""


def too_large(request: Vector, nodes: Sequence[NodeBooks]) -> tuple[TooLarge, ...]:
    """The resources for which the pod fits no node of the cluster, however empty."""
    found = []
    for resource in ("cpu", "memory", "ephemeral-storage", *sorted(request.scalars)):
        largest = max(nodes, key=lambda books: books.allocatable.amount(resource), default=None)
        wanted = request.amount(resource)
        if largest is not None and wanted > (most := largest.allocatable.amount(resource)):
            found.append(
                TooLarge(resource=resource, requested=wanted, largest=most, node=largest.node.name)
            )
    return tuple(found)


def remedies(request: Vector, found: Sequence[NodeVerdict]) -> tuple[Remedy, ...]:
    """At most one remedy of each kind: the one with the least change."""
    if any(verdict.fits for verdict in found):
        return ()
    choices = (
        _lower_requests(found),
        _free_pods(request, found),
        _first(_uncordoned(found)),
        _first(_tolerated(found)),
        _first(_labelled(found)),
        _add_node(request, found),
        _first(_repaired(found)),
    )
    return tuple(choice for choice in choices if choice is not None)


def _first(choices: Iterator[Remedy]) -> Remedy | None:
    return next(choices, None)


def _lower_requests(found: Sequence[NodeVerdict]) -> Remedy | None:
    """The node on which the largest part that has to go, of any resource, is the smallest."""
    fitting = [
        verdict
        for verdict in found
        if verdict.filters == (Filter.RESOURCES,)
        and all(lack.resource != PODS for lack in verdict.shortfalls)
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda verdict: (_part_to_go(verdict), verdict.node.name))
    return LowerRequests(node=best.node.name, shortfalls=best.shortfalls)


def _part_to_go(verdict: NodeVerdict) -> Fraction:
    return max(Fraction(lack.missing, lack.requested) for lack in verdict.shortfalls)


def _free_pods(request: Vector, found: Sequence[NodeVerdict]) -> Remedy | None:
    evictions = [
        Eviction.of(
            request,
            verdict.books,
            must_go=verdict.port_holders,
            may_go=[entry for entry in verdict.books.entries if _may_go(entry.pod)],
        )
        for verdict in found
        if set(verdict.filters) <= {Filter.RESOURCES, Filter.PORTS}
        and all(lack.eviction_may_help for lack in verdict.shortfalls)
        and all(_may_go(pod) for pod in verdict.port_holders)
    ]
    smallest = smallest_eviction(evictions)
    if smallest is None:
        return None
    return FreePods(
        node=smallest.node, pods=smallest.pods, is_smallest=smallest.is_certainly_smallest
    )


def _may_go(pod: Pod) -> bool:
    """Pods of DaemonSets and static pods come back to the same node."""
    return pod.controller_kind != DAEMON_SET and MIRROR_ANNOTATION not in pod.annotations


def _uncordoned(found: Sequence[NodeVerdict]) -> Iterator[Remedy]:
    for verdict in found:
        if verdict.filters == (Filter.UNSCHEDULABLE,):
            yield Uncordon(node=verdict.node.name)


def _tolerated(found: Sequence[NodeVerdict]) -> Iterator[Remedy]:
    tainted = [verdict for verdict in found if verdict.filters == (Filter.TAINTS,)]
    for verdict in sorted(tainted, key=lambda verdict: len(verdict.taints)):
        if not any(_is_of_node(taint) for taint in verdict.taints):
            yield Tolerate(node=verdict.node.name, taints=verdict.taints)


def _repaired(found: Sequence[NodeVerdict]) -> Iterator[Remedy]:
    for verdict in found:
        if verdict.filters == (Filter.TAINTS,) and all(map(_is_of_node, verdict.taints)):
            yield RepairNode(node=verdict.node.name, taints=verdict.taints)


def _is_of_node(taint: Taint) -> bool:
    return taint.key.startswith(NODE_TAINT_PREFIX)


def _labelled(found: Sequence[NodeVerdict]) -> Iterator[Remedy]:
    lacking = [
        verdict
        for verdict in found
        if verdict.filters == (Filter.NODE_AFFINITY,) and verdict.labels and verdict.labels_suffice
    ]
    for verdict in sorted(lacking, key=lambda verdict: len(verdict.labels)):
        yield AddLabels(node=verdict.node.name, labels=verdict.labels)


def _add_node(request: Vector, found: Sequence[NodeVerdict]) -> Remedy | None:
    """The smallest node of which an empty copy would take the pod."""
    enough = [
        verdict.books
        for verdict in found
        if set(verdict.filters) <= {Filter.RESOURCES, Filter.PORTS}
        and all(pod.controller_kind != DAEMON_SET for pod in verdict.port_holders)
        and not shortfalls_of(request, _empty_copy(verdict.books))
    ]
    if not enough:
        return None
    best = min(
        enough,
        key=lambda books: (
            books.allocatable.milli_cpu,
            books.allocatable.memory,
            books.node.name,
        ),
    )
    return AddNode(like=best.node.name)


def _empty_copy(books: NodeBooks) -> NodeBooks:
    daemons = [entry for entry in books.entries if entry.pod.controller_kind == DAEMON_SET]
    return NodeBooks(books.node, entries=daemons)
