"""Obstacles: everything that keeps a pod from a node, not only the scheduler's first reason.

The scheduler stops at the first filter that says no. To know what would let a pod run, one has to
know what the other filters would say as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import Pod
from bursar.core.placement.attempt import Attempt, taken_ports
from bursar.core.placement.filters import (
    CORDON,
    cordon_refuses,
    matches_affinity,
    untolerated_taints,
)
from bursar.core.placement.fit import Shortfall, shortfalls_of
from bursar.core.placement.message import Rejection
from bursar.core.placement.neighbours import LABEL_MISSING, SKEW
from bursar.core.placement.node_books import NodeBooks


class Filter(Enum):
    """A filter, by the name of the scheduler's plugin, in the order in which they run."""

    UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINTS = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    PORTS = "NodePorts"
    RESOURCES = "NodeResourcesFit"
    SPREAD = "PodTopologySpread"
    POD_AFFINITY = "InterPodAffinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """What one node says to a pod."""

    books: NodeBooks
    rejection: Rejection | None
    """The scheduler's reasons; None if the pod fits."""
    filters: tuple[Filter, ...] = ()
    """All filters that refuse the pod, in order. The scheduler reports the first."""
    taints: tuple[Taint, ...] = ()
    """Taints that the pod does not tolerate, without the one of a cordoned node."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the pod's node selector that the node lacks, sorted."""
    labels_suffice: bool = False
    """Whether the node would match the pod's affinity once it had these labels."""
    shortfalls: tuple[Shortfall, ...] = ()
    port_holders: tuple[Pod, ...] = ()

    @property
    def node(self) -> Node:
        return self.books.node

    @property
    def fits(self) -> bool:
        return self.rejection is None


_OF_NEIGHBOURS: Final = {SKEW: Filter.SPREAD, LABEL_MISSING: Filter.SPREAD}


def verdicts(attempt: Attempt, nodes: Sequence[NodeBooks]) -> tuple[NodeVerdict, ...]:
    """The verdict of each node, in this order."""
    return tuple(_verdict(attempt, books) for books in nodes)


def _verdict(attempt: Attempt, books: NodeBooks) -> NodeVerdict:
    rejection = attempt.rejection(books)
    if rejection is None:
        return NodeVerdict(books=books, rejection=None)
    pod, node = attempt.pod, books.node
    taints = tuple(taint for taint in untolerated_taints(pod, node) if not _is_cordon(taint))
    ports = taken_ports(pod, books)
    lacks = shortfalls_of(attempt.request, books)
    neighbours = attempt.refusal_of_neighbours(node)
    found = {
        Filter.UNSCHEDULABLE: cordon_refuses(pod, node),
        Filter.NODE_NAME: bool(pod.node_name) and pod.node_name != node.name,
        Filter.TAINTS: bool(taints),
        Filter.NODE_AFFINITY: attempt.is_excluded_by_name(node) or not matches_affinity(pod, node),
        Filter.PORTS: bool(ports),
        Filter.RESOURCES: bool(lacks),
        Filter.SPREAD: False,
        Filter.POD_AFFINITY: False,
    }
    if neighbours is not None:
        found[_OF_NEIGHBOURS.get(neighbours.reason, Filter.POD_AFFINITY)] = True
    labelled = replace(node, labels={**node.labels, **pod.node_selector})
    return NodeVerdict(
        books=books,
        rejection=rejection,
        filters=tuple(each for each, refuses in found.items() if refuses),
        taints=taints,
        labels=tuple(
            (key, value)
            for key, value in sorted(pod.node_selector.items())
            if node.labels.get(key) != value
        ),
        labels_suffice=not attempt.is_excluded_by_name(node) and matches_affinity(pod, labelled),
        shortfalls=lacks,
        port_holders=ports,
    )


def _is_cordon(taint: Taint) -> bool:
    """The taint that `kubectl cordon` leads to. Uncordoning removes it."""
    return (taint.key, taint.effect) == (CORDON.key, CORDON.effect)
