"""The scheduler's message for very many pods, without a look at each node for each pod.

Sets of nodes are the bits of one integer. For each resource, the nodes are sorted by what they have
free, so that the nodes with too little for a pod are a prefix. Nodes whose labels and taints look
the same to a pod are asked once. The message is that of `Attempt`, which is used for pods with
rules about other pods.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY
from bursar.core.model.node import Node
from bursar.core.model.numbers.int64 import wrapped
from bursar.core.model.pod import Pod, PodTerm
from bursar.core.placement.attempt import Attempt
from bursar.core.placement.filters import NOT_AMONG_NAMED, named_nodes, refusal
from bursar.core.placement.fit import TOO_MANY_PODS, incoming_request
from bursar.core.placement.message import (
    NEVER_PREEMPTS,
    NO_CLAIMS,
    NO_NODES,
    NO_VICTIMS,
    NOT_HELPFUL,
    PREEMPT_NEVER,
    counted_text,
)
from bursar.core.placement.neighbours import NamespaceLabels, selects
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.vector import Vector

Mask: TypeAlias = int
"""A set of nodes: bit N is the node at position N."""

_OwnedTerm: TypeAlias = tuple[str, PodTerm]
"""A term with the namespace of the pods that have it."""

_PLAIN: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class FitIndex:
    """The nodes of a cluster as of one time. Build a new one after a change."""

    def __init__(
        self, nodes: Sequence[NodeBooks], namespaces: NamespaceLabels | None = None
    ) -> None:
        self._nodes = nodes
        self._namespaces = namespaces or {}
        self._all: Mask = (1 << len(nodes)) - 1
        self._positions = {books.node.name: index for index, books in enumerate(nodes)}
        self._room = _Room(nodes)
        self._without_victims: dict[int, tuple[Mask, _Room]] = {}
        self._groups: dict[frozenset[str], list[tuple[Node, Mask]]] = {}
        self._refused: dict[object, dict[str, Mask]] = {}
        self._shunning: dict[_OwnedTerm, Pod] = {
            (entry.pod.namespace, term): entry.pod
            for books in nodes
            for entry in books.entries
            for term in entry.pod.rules.anti_affinity
        }

    def message(self, pod: Pod) -> str | None:
        """The scheduler's message for a pod that fits no node; None if it fits one."""
        if not self._nodes:
            return NO_NODES
        named = named_nodes(pod)
        if named == frozenset() or self._depends_on_pods(pod):
            return self._attempted(pod)
        refused = self._refused_by_node(pod, named)
        alive = self._all
        for mask in refused.values():
            alive &= ~mask
        request = incoming_request(pod)
        lacking = self._room.lacking(request)
        fits = alive & ~_union(lacking.values())
        if fits:
            return None
        counts = Counter({reason: mask.bit_count() for reason, mask in refused.items()})
        counts.update({reason: (mask & alive).bit_count() for reason, mask in lacking.items()})
        hopeless = (self._all & ~alive) | (alive & self._room.hopeless(request))
        post_filter = self._preemption(pod, request, hopeless)
        return counted_text(counts, node_count=len(self._nodes), post_filter=post_filter)

    def _depends_on_pods(self, pod: Pod) -> bool:
        rules = pod.rules
        if rules.host_ports or rules.affinity or rules.anti_affinity or rules.spread:
            return True
        return any(
            selects(term, owner, pod, self._namespaces)
            for (_, term), owner in self._shunning.items()
        )

    def _attempted(self, pod: Pod) -> str | None:
        attempt = Attempt(pod, self._nodes, self._namespaces)
        rejections = []
        for books in self._nodes:
            rejection = attempt.rejection(books)
            if rejection is None:
                return None
            rejections.append(rejection)
        return attempt.message(rejections)

    # ------------------------------------------------------------------ labels and taints

    def _refused_by_node(self, pod: Pod, named: frozenset[str] | None) -> Mapping[str, Mask]:
        """The nodes that refuse the pod for what they are, by reason."""
        by_name = bool(pod.node_name) or any(term.fields for term in pod.node_terms or ())
        if not by_name:
            key = (pod.tolerations, frozenset(pod.node_selector.items()), pod.node_terms)
            found = self._refused.get(key)
            if found is None:
                found = self._refused[key] = _refusals(pod, self._grouped(_keys(pod)))
            return found
        chosen = self._all if named is None else self._mask_of(named)
        each = [
            (books.node, 1 << index)
            for index, books in enumerate(self._nodes)
            if chosen >> index & 1
        ]
        found = _refusals(pod, each)
        return {NOT_AMONG_NAMED: self._all & ~chosen, **found} if named is not None else found

    def _mask_of(self, names: Iterable[str]) -> Mask:
        return _union(1 << self._positions[name] for name in names if name in self._positions)

    def _grouped(self, keys: frozenset[str]) -> list[tuple[Node, Mask]]:
        """The nodes in groups that look the same to a pod that asks for these labels."""
        found = self._groups.get(keys)
        if found is None:
            groups: dict[object, tuple[Node, Mask]] = {}
            for index, books in enumerate(self._nodes):
                node = books.node
                shown = tuple(node.labels.get(key) for key in sorted(keys))
                alike = (shown, node.taints, node.unschedulable)
                first, mask = groups.get(alike, (node, 0))
                groups[alike] = (first, mask | 1 << index)
            found = self._groups[keys] = list(groups.values())
        return found

    # ------------------------------------------------------------------ preemption

    def _preemption(self, pod: Pod, request: Vector, hopeless: Mask) -> str:
        if pod.claim_names:
            return ""
        text = NEVER_PREEMPTS
        if pod.preemption_policy != PREEMPT_NEVER:
            text = self._preemption_text(pod, request, hopeless)
        return f"{NO_CLAIMS}, preemption: {text}" if text else ""

    def _preemption_text(self, pod: Pod, request: Vector, hopeless: Mask) -> str:
        tried = self._all & ~hopeless
        with_victims, room = self._evicted(pod.priority or 0)
        lacking = room.lacking(request)
        if tried & with_victims & ~_union(lacking.values()):
            return ""
        counts = Counter(
            {
                NOT_HELPFUL: hopeless.bit_count(),
                NO_VICTIMS: (tried & ~with_victims).bit_count(),
            }
        )
        retried = tried & with_victims
        counts.update({reason: (mask & retried).bit_count() for reason, mask in lacking.items()})
        return counted_text(counts, node_count=len(self._nodes))

    def _evicted(self, priority: int) -> "tuple[Mask, _Room]":
        """The nodes with pods of lower priority, and the room without these pods."""
        found = self._without_victims.get(priority)
        if found is None:
            mask, lighter = 0, []
            for index, books in enumerate(self._nodes):
                survivors = [entry for entry in books.entries if entry.priority >= priority]
                has_victims = len(survivors) < books.pod_count
                mask |= has_victims << index
                lighter.append(NodeBooks(books.node, entries=survivors) if has_victims else books)
            found = self._without_victims[priority] = (mask, _Room(lighter))
        return found


class _Room:
    """What nodes have free and in total, sorted by amount, for each resource."""

    def __init__(self, nodes: Sequence[NodeBooks]) -> None:
        self._nodes = nodes
        self._free: dict[str, _Prefixes] = {}
        self._whole: dict[str, _Prefixes] = {}
        self._full: Mask = _union(
            (books.pod_count + 1 > books.allocatable.pods) << index
            for index, books in enumerate(nodes)
        )

    def lacking(self, request: Vector) -> dict[str, Mask]:
        """The nodes with too little, by the scheduler's reason."""
        found = {TOO_MANY_PODS: self._full}
        for resource, requested in _requested(request):
            free = self._prefixes(self._free, resource, _free_amount)
            found[f"Insufficient {resource}"] = free.below(requested)
        return found

    def hopeless(self, request: Vector) -> Mask:
        """The nodes that have less in total than the pod requests, so that eviction is no help."""
        return _union(
            self._prefixes(self._whole, resource, _whole_amount).below(requested)
            & self._prefixes(self._free, resource, _free_amount).below(requested)
            for resource, requested in _requested(request)
        )

    def _prefixes(
        self, known: "dict[str, _Prefixes]", resource: str, amount: Callable[[NodeBooks, str], int]
    ) -> "_Prefixes":
        found = known.get(resource)
        if found is None:
            amounts = [amount(books, resource) for books in self._nodes]
            found = known[resource] = _Prefixes(amounts)
        return found


class _Prefixes:
    """Finds the nodes that have less than an amount of one resource."""

    def __init__(self, amounts: Sequence[int]) -> None:
        by_amount: dict[int, Mask] = {}
        for index, amount in enumerate(amounts):
            by_amount[amount] = by_amount.get(amount, 0) | 1 << index
        self._amounts = sorted(by_amount)
        self._masks: list[Mask] = [0]
        for amount in self._amounts:
            self._masks.append(self._masks[-1] | by_amount[amount])

    def below(self, amount: int) -> Mask:
        return self._masks[bisect_left(self._amounts, amount)]


def _requested(request: Vector) -> Iterable[tuple[str, int]]:
    for resource in _PLAIN:
        if requested := request.amount(resource):
            yield resource, requested
    yield from request.scalars.items()


def _free_amount(books: NodeBooks, resource: str) -> int:
    return wrapped(books.allocatable.amount(resource) - books.taken.amount(resource))


def _whole_amount(books: NodeBooks, resource: str) -> int:
    return books.allocatable.amount(resource)


def _keys(pod: Pod) -> frozenset[str]:
    """The labels of nodes that the pod asks for."""
    expressions = (each.key for term in pod.node_terms or () for each in term.expressions)
    return frozenset((*pod.node_selector, *expressions))


def _refusals(pod: Pod, groups: Iterable[tuple[Node, Mask]]) -> dict[str, Mask]:
    found: dict[str, Mask] = {}
    for node, mask in groups:
        reason = refusal(pod, node)
        if reason is not None:
            found[reason] = found.get(reason, 0) | mask
    return found


def _union(masks: Iterable[Mask]) -> Mask:
    union = 0
    for mask in masks:
        union |= mask
    return union
