"""Messages of the scheduler and the kubelet for a pod that fits no node.

The scheduler counts reasons over all nodes and adds what preemption found, in the
event `FailedScheduling` and in the condition `PodScheduled`; the kubelet names one
resource. Only what resources decide is known here: reasons of other kinds, such as
taints, come in as `Rejection`s made elsewhere.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.core.model.pod import Pod
from bursar.core.placement.fit import Shortfall
from bursar.core.placement.node_books import NodeBooks

NO_NODES: Final = "no nodes available to schedule pods"
NO_CLAIMS: Final = "no new claims to deallocate"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER_PREEMPTS: Final = "not eligible due to preemptionPolicy=Never."
PREEMPT_NEVER: Final = "Never"

GATED_REASON: Final = "SchedulingGated"
GATED_MESSAGE: Final = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes into `PodScheduled` when it stores a gated pod."""

EVENT_BYTES_MAX: Final = 1024
_CUT_MARK: Final = " ..."

KUBELET_STATUS_PREFIX: Final = "Pod was rejected: "
"""Stands before the kubelet's message in the pod's status, but not in its event."""


Retry: TypeAlias = Callable[[NodeBooks, Sequence[Pod]], tuple[str, ...]]
"""Filter a node again, without these pods of it; the reasons why it still refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The rejection by one node, with all its reasons."""

    node: str
    reasons: tuple[str, ...]
    eviction_may_help: bool


def rejection_of(books: NodeBooks, lacks: Sequence[Shortfall]) -> Rejection:
    """The rejection for these lacks. Eviction may help only if it may help for each of them."""
    return Rejection(
        node=books.node.name,
        reasons=tuple(lack.reason for lack in lacks),
        eviction_may_help=all(lack.eviction_may_help for lack in lacks),
    )


def failure_text(
    rejections: Sequence[Rejection],
    *,
    node_count: int,
    absent_reasons: Sequence[str] = (),
    pre_filter: str = "",
    post_filter: str = "",
) -> str:
    """The scheduler's sentence: how many nodes there are, and each reason with its count.

    Nodes without a rejection of their own are counted under `absent_reasons`. A reason
    that holds before any node is looked at (`pre_filter`) replaces the count. Entries
    are sorted as text, so ten of one reason stand before two of another.
    """
    if pre_filter:
        return _sentence(node_count, [pre_filter], post_filter)
    counts = _counts(rejections, node_count, absent_reasons)
    return counted_text(counts, node_count=node_count, post_filter=post_filter)


def counted_text(counts: Counter[str], *, node_count: int, post_filter: str = "") -> str:
    """The scheduler's sentence, as `failure_text`, for reasons that are counted already.

    A reason with a count of zero is left out.
    """
    counted = sorted(f"{count} {reason}" for reason, count in counts.items() if count)
    return _sentence(node_count, counted, post_filter)


def _sentence(node_count: int, reasons: Sequence[str], post_filter: str) -> str:
    text = f"0/{node_count} nodes are available:"
    if reasons:
        text += f" {', '.join(reasons)}."
    return f"{text} {post_filter}" if post_filter else text


def preemption_text(
    pod: Pod, nodes: Sequence[NodeBooks], rejections: Sequence[Rejection], retry: Retry
) -> str:
    """What preemption found for a pod refused by all nodes; empty if it found victims.

    Each node that eviction may help is tried without all pods of lower priority.
    """
    if pod.preemption_policy == PREEMPT_NEVER:
        return NEVER_PREEMPTS
    priority = pod.priority or 0
    found: list[Rejection] = []
    for books, rejection in zip(nodes, rejections, strict=True):
        if rejection.eviction_may_help:
            reasons = _reasons_without_victims(books, priority, retry)
            if not reasons:
                return ""
            found.append(Rejection(node=rejection.node, reasons=reasons, eviction_may_help=False))
    return failure_text(found, node_count=len(nodes), absent_reasons=(NOT_HELPFUL,))


def event_text(message: str) -> str:
    """The message as an event may carry it: at most 1024 bytes. Conditions keep the whole."""
    encoded = message.encode()
    if len(encoded) <= EVENT_BYTES_MAX:
        return message
    kept = encoded[: EVENT_BYTES_MAX - len(_CUT_MARK)]
    return kept.decode(errors="replace") + _CUT_MARK


def gates_text(gates: Iterable[str]) -> str:
    """The message for a pod with scheduling gates.

    >>> gates_text(["a", "b"])
    'waiting for scheduling gates: [a b]'
    """
    return f"waiting for scheduling gates: [{' '.join(gates)}]"


def kubelet_reason(lack: Shortfall) -> str:
    """The reason of the failed pod when a kubelet refuses it.

    >>> kubelet_reason(Shortfall(resource="cpu", requested=3, used=2, allocatable=4))
    'OutOfcpu'
    """
    return f"OutOf{lack.resource}"


def kubelet_message(lack: Shortfall) -> str:
    """The message of the failed pod when a kubelet refuses it.

    The number that the kubelet calls "capacity" is what the node has allocatable.
    """
    return (
        f"Node didn't have enough resource: {lack.resource}, requested: {lack.requested}, "
        f"used: {lack.used}, capacity: {lack.allocatable}"
    )


def _counts(
    rejections: Sequence[Rejection], node_count: int, absent_reasons: Sequence[str]
) -> Counter[str]:
    counts = Counter(reason for rejection in rejections for reason in rejection.reasons)
    absent = node_count - len(rejections)
    if absent > 0:
        for reason in absent_reasons:
            counts[reason] += absent
    return counts


def _reasons_without_victims(books: NodeBooks, priority: int, retry: Retry) -> tuple[str, ...]:
    victims = [entry for entry in books.entries if entry.priority < priority]
    if not victims:
        return (NO_VICTIMS,)
    survivors = [entry for entry in books.entries if entry.priority >= priority]
    lighter = NodeBooks(books.node, entries=survivors)
    return retry(lighter, [entry.pod for entry in victims])
