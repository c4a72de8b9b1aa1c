"""The choice of a node for one pod: filter, score, and the message if none fits.

Where upstream picks one of the best nodes at random, the first by name is taken here,
so that the same cluster always ends up the same. Nothing is evicted: what preemption
would have found only shows in the message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.pod import Pod
from bursar.core.placement.attempt import Attempt
from bursar.core.placement.filters import avoided_taints
from bursar.core.placement.message import NO_NODES, Rejection
from bursar.core.placement.neighbours import NamespaceLabels
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.score import SCORE_MAX, balanced_allocation, least_allocated

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


def choose(
    pod: Pod, nodes: Sequence[NodeBooks], namespaces: NamespaceLabels | None = None
) -> Choice:
    """The node for a pod. `namespaces` is needed for terms that select namespaces by label."""
    if not nodes:
        return Choice(message=NO_NODES)
    attempt = Attempt(pod, nodes, namespaces)
    fitting: list[NodeBooks] = []
    rejections: list[Rejection] = []
    for books in nodes:
        rejection = attempt.rejection(books)
        if rejection is None:
            fitting.append(books)
        else:
            rejections.append(rejection)
    if not fitting:
        message = attempt.message(rejections)
        return Choice(message=message, rejections=tuple(rejections))
    scores = scores_of(pod, fitting)
    best = min(scores, key=lambda name: (-scores[name], name))
    return Choice(node=best, scores=scores, rejections=tuple(rejections))


def objection(pod: Pod, books: NodeBooks) -> Rejection | None:
    """The rejection of a pod by one node; None if it fits. Pods of other nodes do not count."""
    return Attempt(pod, [books]).rejection(books)


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
