"""Filters that look at the pods of other nodes: topology spread and pod affinity.

The counts are taken once for a pod, over all nodes. Then each node is one look-up. To see what
the eviction of pods would change, the counts are corrected and put back.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.core.model.node import Node
from bursar.core.model.pod import Pod, PodTerm, SpreadConstraint
from bursar.core.placement.filters import has_untolerated_taint, matches_affinity
from bursar.core.placement.node_books import NodeBooks
from bursar.core.sharing import NO_LABELS

SKEW: Final = "node(s) didn't match pod topology spread constraints"
LABEL_MISSING: Final = f"{SKEW} (missing required label)"
AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

NamespaceLabels: TypeAlias = Mapping[str, Mapping[str, str]]
"""Labels by name of the namespace. A namespace that is missing counts as having none."""
Pair: TypeAlias = tuple[str, str]
"""A label of a node: a domain in which pods are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    reason: str
    eviction_may_help: bool


class Neighbours:
    """The pods of a cluster as the rules of one incoming pod, and their own, see them."""

    def __init__(
        self, pod: Pod, nodes: Sequence[NodeBooks], namespaces: NamespaceLabels | None = None
    ) -> None:
        self._spread = _Spread(pod, nodes) if pod.rules.spread else None
        self._affinity = _Affinity(pod, nodes, namespaces or {})

    def refusal(self, node: Node) -> Refusal | None:
        refusal = None if self._spread is None else self._spread.refusal(node)
        return refusal or self._affinity.refusal(node)

    @contextmanager
    def without(self, victims: Sequence[Pod], node: Node) -> Iterator[None]:
        """Inside the context, count as if these pods of the node were gone."""
        self._step(victims, node, -1)
        try:
            yield
        finally:
            self._step(victims, node, 1)

    def _step(self, pods: Iterable[Pod], node: Node, sign: int) -> None:
        for each in pods:
            if self._spread is not None:
                self._spread.step(each, node, sign)
            self._affinity.step(each, node, sign)


class _Spread:
    """Pods per domain, for each constraint of the incoming pod."""

    def __init__(self, pod: Pod, nodes: Sequence[NodeBooks]) -> None:
        self._pod = pod
        self._constraints = pod.rules.spread
        self._counts: list[Counter[str]] = [Counter() for _ in self._constraints]
        for books in nodes:
            for constraint, counts in self._counted_on(books.node):
                value = books.node.labels[constraint.topology_key]
                counts[value] += self._matching(constraint, books)

    def refusal(self, node: Node) -> Refusal | None:
        for constraint, counts in zip(self._constraints, self._counts, strict=True):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return Refusal(reason=LABEL_MISSING, eviction_may_help=False)
            fewest = 0 if len(counts) < constraint.min_domains else min(counts.values())
            itself = constraint.selector.matches(self._pod.labels)
            if counts.get(value, 0) + itself - fewest > constraint.max_skew:
                return Refusal(reason=SKEW, eviction_may_help=True)
        return None

    def step(self, pod: Pod, node: Node, sign: int) -> None:
        """Count one pod more or less. Upstream also counts terminating pods here."""
        if pod.namespace != self._pod.namespace:
            return
        for constraint, counts in self._counted_on(node):
            if constraint.selector.matches(pod.labels):
                counts[node.labels[constraint.topology_key]] += sign

    def _counted_on(self, node: Node) -> Iterator[tuple[SpreadConstraint, Counter[str]]]:
        """The constraints for which the node counts; it must have the labels of all of them."""
        if any(each.topology_key not in node.labels for each in self._constraints):
            return
        for constraint, counts in zip(self._constraints, self._counts, strict=True):
            if constraint.honors_affinity and not matches_affinity(self._pod, node):
                continue
            if constraint.honors_taints and has_untolerated_taint(self._pod, node):
                continue
            yield constraint, counts

    def _matching(self, constraint: SpreadConstraint, books: NodeBooks) -> int:
        if constraint.selector.is_empty:
            return 0
        return sum(
            entry.pod.namespace == self._pod.namespace
            and entry.pod.deleted_at is None
            and constraint.selector.matches(entry.pod.labels)
            for entry in books.entries
        )


class _Affinity:
    """Domains with pods that the incoming pod wants, shuns, or that shun it."""

    def __init__(self, pod: Pod, nodes: Sequence[NodeBooks], namespaces: NamespaceLabels) -> None:
        self._pod = pod
        self._namespaces = namespaces
        self._wanted: Counter[Pair] = Counter()
        self._shunned: Counter[Pair] = Counter()
        self._shunning: Counter[Pair] = Counter()
        for books in nodes:
            for entry in books.entries:
                self.step(entry.pod, books.node, 1)

    def refusal(self, node: Node) -> Refusal | None:
        rules = self._pod.rules
        if rules.affinity and not self._is_near(node):
            return Refusal(reason=AFFINITY, eviction_may_help=False)
        pairs = (_pair(term, node) for term in rules.anti_affinity)
        if any(pair is not None and self._shunned[pair] > 0 for pair in pairs):
            return Refusal(reason=ANTI_AFFINITY, eviction_may_help=True)
        if self._shunning and any(self._shunning[pair] > 0 for pair in node.labels.items()):
            return Refusal(reason=EXISTING_ANTI_AFFINITY, eviction_may_help=True)
        return None

    def step(self, pod: Pod, node: Node, sign: int) -> None:
        rules = self._pod.rules
        for term in pod.rules.anti_affinity:
            if self._selects(term, pod, self._pod):
                _count(self._shunning, term, node, sign)
        for term in rules.anti_affinity:
            if self._selects(term, self._pod, pod):
                _count(self._shunned, term, node, sign)
        if rules.affinity and self._selects_by_all(pod):
            for term in rules.affinity:
                _count(self._wanted, term, node, sign)

    def _is_near(self, node: Node) -> bool:
        """Every term has a pod in the domain of the node; the first pod of its kind needs none."""
        pairs = [_pair(term, node) for term in self._pod.rules.affinity]
        if None in pairs:
            return False
        if all(pair is not None and self._wanted[pair] > 0 for pair in pairs):
            return True
        return not any(self._wanted.values()) and self._selects_by_all(self._pod)

    def _selects_by_all(self, other: Pod) -> bool:
        return all(self._selects(term, self._pod, other) for term in self._pod.rules.affinity)

    def _selects(self, term: PodTerm, owner: Pod, other: Pod) -> bool:
        return selects(term, owner, other, self._namespaces)


def selects(term: PodTerm, owner: Pod, other: Pod, namespaces: NamespaceLabels) -> bool:
    """Whether a term of one pod is about another pod."""
    if not term.selector.matches(other.labels):
        return False
    if term.own_namespace:
        return owner.namespace == other.namespace
    labels = namespaces.get(other.namespace, NO_LABELS)
    return other.namespace in term.namespaces or term.namespace_selector.matches(labels)


def _pair(term: PodTerm, node: Node) -> Pair | None:
    value = node.labels.get(term.topology_key)
    return None if value is None else (term.topology_key, value)


def _count(counts: Counter[Pair], term: PodTerm, node: Node, sign: int) -> None:
    pair = _pair(term, node)
    if pair is not None:
        counts[pair] += sign
