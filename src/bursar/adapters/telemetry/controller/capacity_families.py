"""Metrics of the node capacity that the controller keeps: amount, use, waiting pods, repairs.

Only capacity that is declared, or marked as kept by Bursar, is shown.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.app.capacity.usage import ExtendedUsage
from bursar.core.model.quantity import ZERO
from bursar.core.peerpods.capacity import CapacityNode


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    """What metrics read of the capacity work, gathered for each scrape."""

    nodes: Iterable[CapacityNode] = ()
    declared: frozenset[str] = frozenset()
    """Resources with a declaration, whether or not a node matches it."""
    usage: ExtendedUsage
    healed: int


def capacity_families(view: CapacityView) -> Iterator[Family]:
    kept = [(node, resource) for node in view.nodes for resource in sorted(node.marked)]
    usage = view.usage
    names = sorted(view.declared.union(name for _, name in kept))
    waiting = [(usage.waiting(name), {"resource": name}) for name in names]
    return table(
        "bursar_",
        node_capacity=(
            Sample(node.capacity.get(name, ZERO), _labels(node, name)) for node, name in kept
        ),
        node_capacity_used=(
            Sample(usage.used(node.name, name), _labels(node, name)) for node, name in kept
        ),
        capacity_waiting=(Sample(each.amount, labels) for each, labels in waiting),
        capacity_waiting_pods=(Sample(each.pods, labels) for each, labels in waiting),
        capacity_gated_pods=(Sample(each.gated_pods, labels) for each, labels in waiting),
        capacity_healed_total=view.healed,
    )


def _labels(node: CapacityNode, resource: str) -> dict[str, str]:
    return {"node": node.name, "resource": resource}
