"""Sums of what pods request, are limited to and use: the lines of `bursar top`.

Pods count as the scheduler counts them: sidecars, pod-level resources, overhead and resizes under
way included. Pods that have ended do not count. Every pod and node is read once, so a report takes
time in proportion to their number.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bursar.core.model.demand import ASSIGNED, INCOMING, pod_limits, pod_requests
from bursar.core.model.names import PODS
from bursar.core.model.node import Node
from bursar.core.model.numbers.binary_float import percent
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import NOTHING, ResourceList, nothing
from bursar.core.placement.fit import left_of
from bursar.core.placement.vector import Tally, scheduled_amount, vector_of

ONE: Final = Quantity.of(1)
READY: Final = "Ready"

GroupKey = TypeVar("GroupKey", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPod:
    """A pod that has not ended, and what it counts for."""

    pod: Pod
    requests: ResourceList
    """What the pod requests, with the entry `pods: 1`."""
    limits: ResourceList
    usage: ResourceList | None
    """What the pod really uses; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One node, namespace, pod or group of them; or the total of all."""

    name: str
    namespace: str = ""
    """Namespace of a pod or of an owner of pods; empty for other lines."""
    requests: ResourceList = field(default_factory=nothing)
    """Sum of the requests. The entry `pods` is the number of pods."""
    limits: ResourceList = field(default_factory=nothing)
    usage: ResourceList | None = None
    """Sum of the usage; None if no usage is known."""
    offered: ResourceList | None = None
    """The allocatable amounts that percentages refer to; None if there is no such node."""
    free: ResourceList | None = None
    """What new pods may request; None for lines that are not about nodes."""
    is_open: bool = True
    """Whether the scheduler places pods on the node: it is ready and not cordoned."""
    unplaced: int = 0
    """Number of pods that have no node yet."""
    members: int = 1
    """Number of objects that the line adds up."""
    node: str = ""
    """The node of a pod; empty if it has none."""

    def percent(self, resource: str, amounts: ResourceList) -> int | None:
        """The percentage of what is offered, cut as by kubectl; None if nothing is offered."""
        whole = scheduled_amount(resource, self.offered or NOTHING)
        return percent(scheduled_amount(resource, amounts), whole) if whole else None


@dataclass(slots=True)
class _Sum:
    """Amounts that are added up."""

    amounts: dict[str, Quantity] = field(default_factory=dict)

    def add(self, amounts: ResourceList) -> None:
        held = self.amounts
        for name, amount in amounts.items():
            before = held.get(name)
            held[name] = amount if before is None else before + amount


@dataclass(slots=True)
class _Totals:
    """What one line adds up."""

    requests: _Sum = field(default_factory=_Sum)
    limits: _Sum = field(default_factory=_Sum)
    usage: _Sum | None = None
    unplaced: int = 0
    members: int = 0

    def add_pod(self, counted: CountedPod) -> None:
        self.requests.add(counted.requests)
        self.limits.add(counted.limits)
        self.add_usage(counted.usage)
        self.unplaced += not counted.pod.node_name
        self.members += 1

    def add_usage(self, usage: ResourceList | None) -> None:
        if usage is not None:
            self.usage = self.usage or _Sum()
            self.usage.add(usage)

    @property
    def used(self) -> ResourceList | None:
        return None if self.usage is None else self.usage.amounts


# ------------------------------------------------------------------ pods


def counted_pods(
    pods: Iterable[Pod], usage: Mapping[tuple[str, str], ResourceList]
) -> list[CountedPod]:
    """The pods that have not ended. Of pods with the same name the last one counts.

    `usage` is what pods really use, by namespace and name.
    """
    last = {(pod.namespace, pod.name): pod for pod in pods}
    return [_counted(pod, usage.get(key)) for key, pod in last.items() if not pod.is_terminated]


def _counted(pod: Pod, usage: ResourceList | None) -> CountedPod:
    options = ASSIGNED if pod.node_name else INCOMING
    return CountedPod(
        pod=pod,
        # Pods are counted; a request for "pods" says nothing.
        requests={**pod_requests(pod, options), PODS: ONE},
        limits=pod_limits(pod, options),
        usage=usage,
    )


def pod_line(counted: CountedPod, offers: Mapping[str, ResourceList]) -> Line:
    """The line of one pod. Its percentages are those of its node."""
    pod = counted.pod
    return Line(
        name=pod.name,
        namespace=pod.namespace,
        requests=counted.requests,
        limits=counted.limits,
        usage=counted.usage,
        offered=offers.get(pod.node_name),
        unplaced=0 if pod.node_name else 1,
        node=pod.node_name,
    )


def grouped_pods(
    pods: Iterable[CountedPod],
    key_of: Callable[[CountedPod], GroupKey],
    line_of: Callable[[GroupKey], Line],
) -> list[Line]:
    """A line for each group of pods, sorted by namespace and name.

    `key_of` returns the group of a pod, `line_of` a line with everything that is not a sum.
    """
    groups: dict[GroupKey, _Totals] = {}
    for counted in pods:
        groups.setdefault(key_of(counted), _Totals()).add_pod(counted)
    lines = [_with_totals(line_of(key), totals) for key, totals in groups.items()]
    return sorted(lines, key=lambda line: (line.namespace, line.name))


def _with_totals(line: Line, totals: _Totals) -> Line:
    return Line(
        name=line.name,
        namespace=line.namespace,
        requests=totals.requests.amounts,
        limits=totals.limits.amounts,
        usage=totals.used,
        offered=line.offered,
        unplaced=totals.unplaced,
        members=totals.members,
    )


# ------------------------------------------------------------------ nodes


def offer_of(node: Node) -> ResourceList:
    """What a node offers to pods: its allocatable amounts, or its capacity if it reports none."""
    return node.allocatable or node.capacity


def is_open(node: Node) -> bool:
    """Whether the node is ready and not cordoned. Taints that pods may tolerate do not matter."""
    is_ready = all(each.status == "True" for each in node.conditions if each.type == READY)
    return is_ready and not node.unschedulable


def node_lines(
    nodes: Iterable[Node],
    pods: Iterable[CountedPod],
    usage: Mapping[str, ResourceList],
    *,
    is_shown: Callable[[Pod], bool] = lambda _: True,
) -> list[Line]:
    """A line for each node, sorted, with the pods on it for which `is_shown`.

    What is free depends on all pods. A node that does not exist any more is listed if pods are
    still bound to it.
    """
    by_name = {node.name: node for node in nodes}
    books: dict[str, _NodeTotals] = {name: _NodeTotals() for name in by_name}
    for counted in pods:
        if counted.pod.node_name:
            each = books.setdefault(counted.pod.node_name, _NodeTotals())
            each.add(counted, is_shown=is_shown(counted.pod))
    return [_node_line(name, by_name.get(name), books[name], usage) for name in sorted(books)]


@dataclass(slots=True)
class _NodeTotals:
    shown: _Totals = field(default_factory=_Totals)
    taken: Tally = field(default_factory=Tally)
    """What all pods request, in the scheduler's numbers, which are rounded for each pod."""
    pods: int = 0

    def add(self, counted: CountedPod, *, is_shown: bool) -> None:
        self.taken.add(vector_of(counted.requests))
        self.pods += 1
        if is_shown:
            self.shown.add_pod(counted)


def _node_line(
    name: str, node: Node | None, totals: _NodeTotals, usage: Mapping[str, ResourceList]
) -> Line:
    offered = None if node is None else offer_of(node)
    return Line(
        name=name,
        requests={PODS: Quantity.of(0), **totals.shown.requests.amounts},
        limits=totals.shown.limits.amounts,
        usage=usage.get(name),
        offered=offered,
        free=None if offered is None else left_of(offered, totals.taken.sum, totals.pods),
        is_open=node is not None and is_open(node),
        node=name,
    )


# ------------------------------------------------------------------ sums of lines


def grouped_lines(
    lines: Iterable[Line],
    key_of: Callable[[Line], str],
    *,
    offered: ResourceList | None = None,
) -> list[Line]:
    """The lines of nodes or namespaces, added up by group, sorted by name.

    `offered` has the same meaning as in `total_of`.
    """
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(key_of(line), []).append(line)
    return [total_of(groups[name], name, offered=offered) for name in sorted(groups)]


def total_of(lines: Sequence[Line], name: str = "", *, offered: ResourceList | None = None) -> Line:
    """All lines added up. What is free on nodes that take no pods is left out.

    `offered` is what percentages refer to, if it is not the sum of what the lines have.
    """
    totals, offers, free = _Totals(), _Sum(), _Sum()
    for line in lines:
        totals.requests.add(line.requests)
        totals.limits.add(line.limits)
        totals.add_usage(line.usage)
        totals.unplaced += line.unplaced
        totals.members += line.members
        if line.offered is not None and offered is None:
            offers.add(line.offered)
        if line.free is not None and line.is_open:
            free.add(line.free)
    return Line(
        name=name,
        requests=totals.requests.amounts,
        limits=totals.limits.amounts,
        usage=totals.used,
        offered=offers.amounts if offered is None else offered,
        free=free.amounts if any(line.free is not None for line in lines) else None,
        is_open=any(line.is_open for line in lines),
        unplaced=totals.unplaced,
        members=totals.members,
    )


def offered_by(nodes: Iterable[Node]) -> ResourceList | None:
    """What all nodes offer together; None if there is no node."""
    offers = _Sum()
    for node in nodes:
        offers.add(offer_of(node))
    return offers.amounts or None
