"""One scheduling attempt: every filter checks a pod against the nodes of a cluster.

The filters run in the scheduler's order, and the first that refuses a node is the reason. Not
checked here: volumes, device claims, and pods that are nominated to a node.
"""

from collections.abc import Sequence
from typing import Final

from bursar.core.model.node import Node
from bursar.core.model.pod import HostPort, Pod
from bursar.core.placement.filters import (
    AFFINITY_CONFLICT,
    NOT_AMONG_NAMED,
    named_nodes,
    refusal,
)
from bursar.core.placement.fit import incoming_request, shortfalls_of
from bursar.core.placement.message import (
    NO_CLAIMS,
    Rejection,
    failure_text,
    preemption_text,
    rejection_of,
)
from bursar.core.placement.neighbours import NamespaceLabels, Neighbours, Refusal
from bursar.core.placement.node_books import NodeBooks

PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"

# After a conflict, the scheduler's plugin for devices looks for state that it has not written
# yet. This error of the plugin becomes a part of the message.
_NOT_PREPARED: Final = "not found"


class Attempt:
    """One pod and the nodes that it could be scheduled to."""

    def __init__(
        self, pod: Pod, nodes: Sequence[NodeBooks], namespaces: NamespaceLabels | None = None
    ) -> None:
        self.pod = pod
        self.request = incoming_request(pod)
        self._nodes = nodes
        self._named = named_nodes(pod)
        self._neighbours = Neighbours(pod, nodes, namespaces)

    def rejection(self, books: NodeBooks) -> Rejection | None:
        """Why the node refuses the pod; None if it fits."""
        node = books.node
        if self.is_excluded_by_name(node):
            return _final(node.name, NOT_AMONG_NAMED)
        reason = refusal(self.pod, node)
        return self._among_pods(books) if reason is None else _final(node.name, reason)

    def is_excluded_by_name(self, node: Node) -> bool:
        """Whether the affinity of the pod names nodes, and not this one."""
        return self._named is not None and node.name not in self._named

    def refusal_of_neighbours(self, node: Node) -> Refusal | None:
        """What topology spread or pod affinity has against the node."""
        return self._neighbours.refusal(node)

    def message(self, rejections: Sequence[Rejection]) -> str:
        """The scheduler's message, if all nodes refuse the pod. One rejection for each node."""
        count = len(self._nodes)
        if self._named == frozenset():
            return failure_text(
                rejections,
                node_count=count,
                pre_filter=AFFINITY_CONFLICT,
                post_filter=_NOT_PREPARED,
            )
        post_filter = ""
        if not self.pod.claim_names:
            preemption = preemption_text(self.pod, self._nodes, rejections, self._retry)
            post_filter = f"{NO_CLAIMS}, preemption: {preemption}" if preemption else ""
        return failure_text(rejections, node_count=count, post_filter=post_filter)

    def _among_pods(
        self, books: NodeBooks, freed: frozenset[HostPort] = frozenset()
    ) -> Rejection | None:
        """The filters that depend on the pods of the cluster, so that eviction may help."""
        name = books.node.name
        if self.pod.rules.host_ports and taken_ports(self.pod, books, freed):
            return Rejection(node=name, reasons=(PORTS_TAKEN,), eviction_may_help=True)
        lacks = shortfalls_of(self.request, books)
        if lacks:
            return rejection_of(books, lacks)
        found = self._neighbours.refusal(books.node)
        if found is None:
            return None
        helps = found.eviction_may_help
        return Rejection(node=name, reasons=(found.reason,), eviction_may_help=helps)

    def _retry(self, lighter: NodeBooks, victims: Sequence[Pod]) -> tuple[str, ...]:
        # Upstream keeps ports as a set. A port that a victim held counts as free, even if another
        # pod of the node, which was bound past the scheduler, holds it as well.
        freed = frozenset(port for victim in victims for port in victim.rules.host_ports)
        with self._neighbours.without(victims, lighter.node):
            rejection = self._among_pods(lighter, freed)
        return () if rejection is None else rejection.reasons


def taken_ports(
    pod: Pod, books: NodeBooks, freed: frozenset[HostPort] = frozenset()
) -> tuple[Pod, ...]:
    """The pods of the node that hold a port which the pod wants and which is not `freed`."""
    return tuple(
        entry.pod
        for entry in books.entries
        if any(
            wanted.conflicts_with(held)
            for wanted in pod.rules.host_ports
            for held in entry.pod.rules.host_ports
            if held not in freed
        )
    )


def _final(node: str, reason: str) -> Rejection:
    return Rejection(node=node, reasons=(reason,), eviction_may_help=False)
