"""Filters: reasons other than resources and other pods why a node rejects a pod.

The scheduler asks its plugins one after the other and stops at the first that says
no, so a node is refused for one reason only, and a reason of this kind always comes
before one of resources. Evicting pods does not help against any of them.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import NodeRequirement, NodeTerm, Pod, Toleration
from bursar.core.model.selectors.selector import (
    Operator,
    Selector,
    SelectorError,
    all_of,
    requirement,
)

UNSCHEDULABLE: Final = "node(s) were unschedulable"
OTHER_NODE_NAMED: Final = "node(s) didn't match the requested node name"
UNTOLERATED_TAINT: Final = "node(s) had untolerated taint(s)"
AFFINITY_UNMET: Final = "node(s) didn't match Pod's node affinity/selector"
NOT_AMONG_NAMED: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
"""Reason for nodes that the pod's affinity excludes by name."""
AFFINITY_CONFLICT: Final = "pod affinity terms conflict"
"""Reason before any node is checked: the terms name nodes, and no node matches all."""

FIELD_NAME: Final = "metadata.name"
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_REPELLING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def refusal(pod: Pod, node: Node) -> str | None:
    """Why the node rejects the pod, without resources; None if it does not."""
    if node.unschedulable and not tolerates(pod.tolerations, CORDON):
        return UNSCHEDULABLE
    if pod.node_name and pod.node_name != node.name:
        return OTHER_NODE_NAMED
    if has_untolerated_taint(pod, node):
        return UNTOLERATED_TAINT
    return None if matches_affinity(pod, node) else AFFINITY_UNMET


def cordon_refuses(pod: Pod, node: Node) -> bool:
    """Whether the node is cordoned, by its field or its taint, and the pod does not tolerate it."""
    marked = node.unschedulable or any(
        (taint.key, taint.effect) == (CORDON.key, CORDON.effect) for taint in node.taints
    )
    return marked and not tolerates(pod.tolerations, CORDON)


def has_untolerated_taint(pod: Pod, node: Node) -> bool:
    return any(True for _ in untolerated_taints(pod, node))


def untolerated_taints(pod: Pod, node: Node) -> Iterator[Taint]:
    """The taints that keep the pod from the node."""
    for taint in node.taints:
        if taint.effect in _REPELLING and not tolerates(pod.tolerations, taint):
            yield taint


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def matches_affinity(pod: Pod, node: Node) -> bool:
    """Whether the node matches the pod's node selector, and one of its required affinity terms."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.node_terms is None or any(_holds(term, node) for term in pod.node_terms)


def named_nodes(pod: Pod) -> frozenset[str] | None:
    """The nodes that the affinity names, if every term names some; else None.

    The empty set means that the terms contradict themselves.
    """
    if not pod.node_terms:
        return None
    found: set[str] = set()
    for term in pod.node_terms:
        names = [
            set(wanted.values)
            for wanted in term.fields
            if wanted.key == FIELD_NAME and wanted.operator == "In"
        ]
        if not names:
            return None
        found |= set.intersection(*names)
    return frozenset(found)


def avoided_taints(pod: Pod, node: Node) -> int:
    """Number of PreferNoSchedule taints that the pod does not tolerate."""
    tolerations = [
        toleration
        for toleration in pod.tolerations
        if toleration.effect in {"", PREFER_NO_SCHEDULE}
    ]
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, taint)
        for taint in node.taints
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Operators that compare numbers are off by default upstream, and tolerate nothing."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def _holds(term: NodeTerm, node: Node) -> bool:
    """Whether the node matches the term. A term that cannot be read matches no node."""
    if not term.expressions and not term.fields:
        return False
    selector = _selector(term.expressions)
    if selector is None or not all(_is_readable(wanted) for wanted in term.fields):
        return False
    return selector.matches(node.labels) and all(
        _field_matches(wanted, node) for wanted in term.fields
    )


def _is_readable(wanted: NodeRequirement) -> bool:
    return wanted.operator in {"In", "NotIn"} and len(wanted.values) == 1


def _field_matches(wanted: NodeRequirement, node: Node) -> bool:
    """Whether a field of the node matches. A field other than the name counts as empty."""
    held = node.name if wanted.key == FIELD_NAME else ""
    return (held == wanted.values[0]) == (wanted.operator == "In")


# Pods of one workload have equal terms, which are compared with every node.
@lru_cache(maxsize=1024)
def _selector(expressions: tuple[NodeRequirement, ...]) -> Selector | None:
    try:
        return all_of(
            requirement(wanted.key, _OPERATORS[wanted.operator], wanted.values)
            for wanted in expressions
        )
    except (KeyError, SelectorError):
        return None


_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
