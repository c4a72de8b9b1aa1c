"""The capacity of nodes that we keep: how much there is, what is used, and how often it was healed.

Only what is marked as ours is shown: of everything else the owner knows best.
"""

from collections.abc import Iterable, Iterator

from bursar.adapters.telemetry.exposition import Family, Sample, counter, gauge
from bursar.app.capacity.keeper import CapacityCounters
from bursar.app.capacity.use import UseBook
from bursar.core.model.quantity import ZERO
from bursar.core.peerpods.capacity import CapacityNode


def capacity_families(
    nodes: Iterable[CapacityNode], use: UseBook, counters: CapacityCounters
) -> Iterator[Family]:
    kept = [(node, resource) for node in nodes for resource in sorted(node.marked)]
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
    yield counter(
        "bursar_capacity_healed_total",
        "Times that capacity was wiped or changed by others and put right.",
        Sample(counters.healed),
    )


def _labels(node: CapacityNode, resource: str) -> dict[str, str]:
    return {"node": node.name, "resource": resource}
