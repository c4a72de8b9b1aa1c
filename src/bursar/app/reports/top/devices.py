"""Extended resources of nodes, such as GPUs: how many there are, who holds them, what is free."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from bursar.app.reports.top.consumption import CountedPod, is_open, offer_of
from bursar.core.model.names import is_extended
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import ZERO, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one pod requests of a resource on its node."""

    namespace: str
    name: str
    amount: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLine:
    """One resource of a node, or of all nodes."""

    node: str
    """Empty for all nodes."""
    resource: str
    capacity: Quantity | None
    """None if the node does not offer the resource."""
    allocatable: Quantity | None
    allocated: Quantity
    """What the listed pods request."""
    free: Quantity
    """What new pods may request, at least zero; in a total only of nodes that take pods."""
    is_open: bool = True
    """Whether the scheduler places pods on the node: it is ready and not cordoned."""
    holdings: tuple[Holding, ...] = ()
    """The listed pods that request it, sorted."""


@dataclass(slots=True)
class _Held:
    all: Quantity = ZERO
    shown: Quantity = ZERO
    holdings: list[Holding] = field(default_factory=list)


def device_lines(
    nodes: Iterable[Node],
    pods: Iterable[CountedPod],
    *,
    resources: Collection[str] = (),
    is_shown: Callable[[Pod], bool] = lambda _: True,
) -> list[DeviceLine]:
    """A line for each node and resource, sorted by node.

    `resources` are the names to list; empty: all extended resources. Pods for which `is_shown` is
    false are not listed, but what they hold is not free.
    """

    def is_listed(resource: str) -> bool:
        return resource in resources if resources else is_extended(resource)

    by_name = {node.name: node for node in nodes}
    held: dict[tuple[str, str], _Held] = {
        (node.name, resource): _Held()
        for node in by_name.values()
        for resource in {*node.capacity, *offer_of(node)}
        if is_listed(resource)
    }
    for counted in pods:
        pod = counted.pod
        for resource, amount in counted.requests.items():
            if pod.node_name and is_listed(resource) and not amount.is_zero:
                each = held.setdefault((pod.node_name, resource), _Held())
                _add(each, pod, amount, is_shown=is_shown(pod))
    return [
        _line(by_name.get(node), node, resource, held[node, resource])
        for node, resource in sorted(held)
    ]


def _add(held: _Held, pod: Pod, amount: Quantity, *, is_shown: bool) -> None:
    held.all += amount
    if is_shown:
        held.shown += amount
        held.holdings.append(Holding(namespace=pod.namespace, name=pod.name, amount=amount))


def _line(node: Node | None, name: str, resource: str, held: _Held) -> DeviceLine:
    allocatable = None if node is None else offer_of(node).get(resource)
    left = (allocatable or ZERO) - held.all
    return DeviceLine(
        node=name,
        resource=resource,
        capacity=None if node is None else node.capacity.get(resource),
        allocatable=allocatable,
        allocated=held.shown,
        free=ZERO if left.is_negative else left,
        is_open=node is not None and is_open(node),
        holdings=tuple(sorted(held.holdings, key=lambda each: (each.namespace, each.name))),
    )


def device_totals(lines: Iterable[DeviceLine]) -> list[DeviceLine]:
    """A line for each resource over all nodes, sorted by name."""
    groups: dict[str, list[DeviceLine]] = {}
    for line in lines:
        groups.setdefault(line.resource, []).append(line)
    return [_total(resource, groups[resource]) for resource in sorted(groups)]


def _total(resource: str, lines: list[DeviceLine]) -> DeviceLine:
    return DeviceLine(
        node="",
        resource=resource,
        capacity=sum((line.capacity or ZERO for line in lines), ZERO),
        allocatable=sum((line.allocatable or ZERO for line in lines), ZERO),
        allocated=sum((line.allocated for line in lines), ZERO),
        free=sum((line.free for line in lines if line.is_open), ZERO),
        holdings=tuple(holding for line in lines for holding in line.holdings),
    )
