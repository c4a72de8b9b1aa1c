"""The report of `describe node`: a node, its pods, and what still fits.

Shares are computed as by kubectl: rows use the amounts that an in-place resize granted, totals use
the spec, and both are divided by allocatable. Free amounts are computed as by the scheduler.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bursar.core.model.demand import (
    DESCRIBE_ROW,
    DESCRIBE_TOTAL,
    pod_limits,
    pod_requests,
)
from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_hugepages
from bursar.core.model.node import Node
from bursar.core.model.numbers.binary_float import percent
from bursar.core.model.pod import Pod
from bursar.core.model.problem import Problem
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.node import validate_node
from bursar.core.placement.attempt import Attempt
from bursar.core.placement.fit import Shortfall, free
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.remedies.obstacles import verdicts

ALWAYS_IN_ROWS: Final = (CPU, MEMORY)
ALWAYS_IN_TOTALS: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """An amount and its percentage of allocatable."""

    amount: Quantity
    percent: int | None
    """Percentage of allocatable, rounded towards zero; None if allocatable is zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLine:
    """One pod. It always has cpu and memory; other resources only if the pod names them."""

    namespace: str
    name: str
    created_at: datetime | None
    requests: Mapping[str, Share]
    limits: Mapping[str, Share]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Requests and limits of all pods of the node, for one resource."""

    resource: str
    requests: Share
    limits: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod without a node, and what this node has against it.

    Waiting pods are judged one after the other: each one that fits takes its share.
    """

    namespace: str
    name: str
    reasons: tuple[str, ...]
    """The scheduler's reasons, from the first filter that refuses the pod; empty if it fits."""
    shortfalls: tuple[Shortfall, ...]
    """The resources that are lacking, with amounts."""

    @property
    def fits(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    node: Node
    pods: tuple[PodLine, ...]
    """The pods that have not terminated, in the API server's list order."""
    allocated: tuple[Allocation, ...]
    """Cpu, memory, ephemeral storage, then hugepages, then all others; each group by name."""
    free: ResourceList
    """Free amounts, in the order of `allocated`, with pods last."""
    waiting: tuple[WaitingPod, ...]
    """The pods without a node, in the API server's list order."""
    problems: tuple[Problem, ...]
    """Amounts of capacity and allocatable that the API server would refuse."""


def node_report(
    node: Node,
    pods: Iterable[Pod],
    *,
    others: Sequence[NodeBooks] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> NodeReport:
    """Report on `node`. Pods of other nodes and terminated pods are left out.

    `others` are the other nodes with their pods, and `namespaces` the labels of namespaces:
    topology spread and pod affinity depend on them.
    """
    living = sorted((pod for pod in pods if not pod.is_terminated), key=_place_in_etcd)
    return _report(
        node,
        [pod for pod in living if pod.node_name == node.name],
        [pod for pod in living if not pod.node_name],
        others,
        namespaces,
    )


def node_reports(
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    *,
    chosen: Callable[[Node], bool] = lambda _node: True,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> list[NodeReport]:
    """Reports on the chosen ones of all `nodes` of a cluster; see `node_report`."""
    by_node: dict[str, list[Pod]] = {}
    for pod in sorted((pod for pod in pods if not pod.is_terminated), key=_place_in_etcd):
        by_node.setdefault(pod.node_name, []).append(pod)
    books: list[NodeBooks] = []
    if any(map(neighbours_matter, by_node.values())):
        books = [NodeBooks(node, by_node.get(node.name, [])) for node in nodes]
    return [
        _report(
            node,
            by_node.get(node.name, []),
            by_node.get("", []),
            [each for each in books if each.node.name != node.name],
            namespaces,
        )
        for node in nodes
        if chosen(node)
    ]


def _report(
    node: Node,
    here: Sequence[Pod],
    waiting: Sequence[Pod],
    others: Sequence[NodeBooks],
    namespaces: Mapping[str, Mapping[str, str]] | None,
) -> NodeReport:
    offered = node.allocatable or node.capacity
    resources = _resources_in_totals(offered)
    requests = _total(pod_requests(pod, DESCRIBE_TOTAL) for pod in here)
    limits = _total(pod_limits(pod, DESCRIBE_TOTAL) for pod in here)
    books = NodeBooks(replace(node, allocatable=offered), here)
    left = free(books)
    return NodeReport(
        node=node,
        pods=tuple(_pod_line(pod, offered) for pod in here),
        allocated=tuple(
            Allocation(
                resource=name,
                requests=_share(name, requests, offered),
                limits=_share(name, limits, offered),
            )
            for name in resources
        ),
        free={name: left[name] for name in (*resources, PODS) if name in left},
        waiting=tuple(_judged_in_turn(waiting, books, others, namespaces)),
        problems=validate_node(node),
    )


def neighbours_matter(pods: Iterable[Pod]) -> bool:
    """Whether any of the pods has rules about other pods: affinity or topology spread."""
    return any(pod.rules.affinity or pod.rules.anti_affinity or pod.rules.spread for pod in pods)


def _judged_in_turn(
    waiting: Sequence[Pod],
    books: NodeBooks,
    others: Sequence[NodeBooks],
    namespaces: Mapping[str, Mapping[str, str]] | None,
) -> Iterator[WaitingPod]:
    """Judge the pods by all filters, as if those that fit were placed on this node."""
    running = [entry.pod for each in (books, *others) for entry in each.entries]
    # To read all pods for each waiting pod takes long. Without such rules it changes nothing.
    nodes = (books, *others) if neighbours_matter((*running, *waiting)) else ()
    for pod in waiting:
        (verdict,) = verdicts(Attempt(pod, nodes, namespaces), (books,))
        yield WaitingPod(
            namespace=pod.namespace,
            name=pod.name,
            reasons=() if verdict.rejection is None else verdict.rejection.reasons,
            shortfalls=verdict.shortfalls,
        )
        if verdict.fits:
            books.assign(pod)


def _place_in_etcd(pod: Pod) -> str:
    # The slash is compared as well: `team-a/` sorts before `team/`.
    return f"{pod.namespace}/{pod.name}"


def _resources_in_totals(offered: ResourceList) -> tuple[str, ...]:
    listed = sorted(offered.keys() - {*ALWAYS_IN_TOTALS, PODS})
    hugepages = [name for name in listed if is_hugepages(name)]
    others = [name for name in listed if not is_hugepages(name)]
    return (*ALWAYS_IN_TOTALS, *hugepages, *others)


def _pod_line(pod: Pod, offered: ResourceList) -> PodLine:
    return PodLine(
        namespace=pod.namespace,
        name=pod.name,
        created_at=pod.created_at,
        requests=_shares(pod_requests(pod, DESCRIBE_ROW), offered),
        limits=_shares(pod_limits(pod, DESCRIBE_ROW), offered),
    )


def _shares(amounts: ResourceList, offered: ResourceList) -> dict[str, Share]:
    names = (*ALWAYS_IN_ROWS, *sorted(amounts.keys() - {*ALWAYS_IN_ROWS}))
    return {name: _share(name, amounts, offered) for name in names}


def _share(name: str, amounts: ResourceList, offered: ResourceList) -> Share:
    amount = amounts.get(name, ZERO)
    whole = _measured(name, offered.get(name, ZERO))
    return Share(
        amount=amount, percent=percent(_measured(name, amount), whole) if whole != 0 else None
    )


def _measured(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()


def _total(lists: Iterable[ResourceList]) -> ResourceList:
    total: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
    return total
