"""The capacity that we keep: how much there is, what is used, what waits, how often it was healed.

Only what is declared or marked as ours is shown: of everything else the owner knows best.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bursar.adapters.telemetry.exposition import Family, Sample, counter, gauge
from bursar.app.capacity.keeper import CapacityCounters
from bursar.app.capacity.use import UseBook
from bursar.core.model.quantity import ZERO
from bursar.core.peerpods.capacity import CapacityNode


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    """What is shown, as it is now."""

    nodes: Iterable[CapacityNode] = ()
    declared: frozenset[str] = frozenset()
    """Resources that nodes are to be given, even if there is no such node."""
    use: UseBook
    counters: CapacityCounters


def capacity_families(view: CapacityView) -> Iterator[Family]:
    kept = [(node, resource) for node in view.nodes for resource in sorted(node.marked)]
    use = view.use
    yield gauge(
        "bursar_node_capacity",
        "What a node offers of an extended resource that is kept by us.",
        *(Sample(node.capacity.get(name, ZERO), _labels(node, name)) for node, name in kept),
    )
    yield gauge(
        "bursar_node_capacity_used",
        "What pods on the node request of it.",
        *(Sample(use.used(node.name, name), _labels(node, name)) for node, name in kept),
    )
    yield from _waiting(use, sorted(view.declared.union(name for _, name in kept)))
    yield counter(
        "bursar_capacity_healed_total",
        "Times that capacity was wiped or changed by others and put right.",
        Sample(view.counters.healed),
    )


def _waiting(use: UseBook, resources: Iterable[str]) -> Iterator[Family]:
    waiting = [(use.waiting(name), {"resource": name}) for name in resources]
    yield gauge(
        "bursar_capacity_waiting",
        "What pods without a node request of a resource that is kept by us.",
        *(Sample(each.amount, labels) for each, labels in waiting),
    )
    yield gauge(
        "bursar_capacity_waiting_pods",
        "How many pods that are.",
        *(Sample(each.pods, labels) for each, labels in waiting),
    )
    yield gauge(
        "bursar_capacity_gated_pods",
        "How many of them a scheduling gate holds back.",
        *(Sample(each.gated_pods, labels) for each, labels in waiting),
    )


def _labels(node: CapacityNode, resource: str) -> dict[str, str]:
    return {"node": node.name, "resource": resource}
