"""The choice of a node for one pod: filter, score, and the message if none fits.

Where upstream picks one of the best nodes at random, the first by name is taken here,
so that the same cluster always ends up the same. Nothing is evicted: what preemption
would have found only shows in the message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.pod import Pod
from bursar.core.placement.filters import (
    AFFINITY_CONFLICT,
    NOT_AMONG_NAMED,
    avoided_taints,
    named_nodes,
    refusal,
)
from bursar.core.placement.fit import incoming_request, shortfalls_of
from bursar.core.placement.message import (
    NO_CLAIMS,
    NO_NODES,
    Rejection,
    failure_text,
    preemption_text,
    rejection_of,
)
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.score import SCORE_MAX, balanced_allocation, least_allocated
from bursar.core.placement.vector import Vector

# After a conflict the plugin for devices looks for notes it never came to write, and
# what it says of that ends up in the message.
_NOT_PREPARED: Final = "not found"
_TAINT_TOLERATION_WEIGHT: Final = 3
"""Factor of this plugin's score in the default profile. The scores of resources have factor 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen node of a pod, or the message why no node fits."""

    node: str = ""
    message: str = ""
    """The scheduler's message in the event and in the condition `PodScheduled`."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """The score of each node that fits."""
    rejections: tuple[Rejection, ...] = ()


def choose(pod: Pod, nodes: Sequence[NodeBooks]) -> Choice:
    if not nodes:
        return Choice(message=NO_NODES)
    request = incoming_request(pod)
    named = named_nodes(pod)
    fitting: list[NodeBooks] = []
    rejections: list[Rejection] = []
    for books in nodes:
        rejection = _rejection(pod, request, books, named=named)
        if rejection is None:
            fitting.append(books)
        else:
            rejections.append(rejection)
    if not fitting:
        message = _message(pod, nodes, rejections)
        return Choice(message=message, rejections=tuple(rejections))
    scores = scores_of(pod, fitting)
    best = min(scores, key=lambda name: (-scores[name], name))
    return Choice(node=best, scores=scores, rejections=tuple(rejections))


def objection(pod: Pod, books: NodeBooks) -> Rejection | None:
    """The rejection of a pod by one node; None if it fits."""
    return _rejection(pod, incoming_request(pod), books, named=named_nodes(pod))


def scores_of(pod: Pod, nodes: Sequence[NodeBooks]) -> dict[str, int]:
    """The scores of nodes that fit, by the default plugins that apply."""
    avoided = [avoided_taints(pod, books.node) for books in nodes]
    most = max(avoided)
    scores: dict[str, int] = {}
    # Many nodes have the same size and load. Each combination is scored once.
    known: dict[tuple[int, ...], int] = {}
    for books, count in zip(nodes, avoided, strict=True):
        load = _scored_load(books)
        if load not in known:
            known[load] = least_allocated(pod, books) + (balanced_allocation(pod, books) or 0)
        welcome = SCORE_MAX - (SCORE_MAX * count // most if most else 0)
        scores[books.node.name] = known[load] + _TAINT_TOLERATION_WEIGHT * welcome
    return scores


def _scored_load(books: NodeBooks) -> tuple[int, ...]:
    """All numbers of a node that its score by resources depends on."""
    return tuple(
        number
        for held in (books.allocatable, books.taken, books.weighed)
        for number in (held.milli_cpu, held.memory)
    )


def _rejection(
    pod: Pod, request: Vector, books: NodeBooks, *, named: frozenset[str] | None
) -> Rejection | None:
    node = books.node
    if named is not None and node.name not in named:
        return Rejection(node=node.name, reasons=(NOT_AMONG_NAMED,), eviction_may_help=False)
    reason = refusal(pod, node)
    if reason is not None:
        return Rejection(node=node.name, reasons=(reason,), eviction_may_help=False)
    lacks = shortfalls_of(request, books)
    return rejection_of(books, lacks) if lacks else None


def _message(pod: Pod, nodes: Sequence[NodeBooks], rejections: Sequence[Rejection]) -> str:
    if named_nodes(pod) == frozenset():
        return failure_text(
            rejections,
            node_count=len(nodes),
            pre_filter=AFFINITY_CONFLICT,
            post_filter=_NOT_PREPARED,
        )
    post_filter = ""
    if not pod.claim_names:
        preemption = preemption_text(pod, nodes, rejections)
        post_filter = f"{NO_CLAIMS}, preemption: {preemption}" if preemption else ""
    return failure_text(rejections, node_count=len(nodes), post_filter=post_filter)
