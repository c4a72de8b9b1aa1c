"""The words for remedies and obstacles, shared by text and documents."""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.node import Taint
from bursar.core.model.pod import Pod
from bursar.core.model.problem import counted, some_of
from bursar.core.placement.fit import Shortfall
from bursar.core.placement.remedies.obstacles import Filter, NodeVerdict
from bursar.core.placement.remedies.remedy import (
    AddLabels,
    AddNode,
    FreePods,
    LowerRequests,
    Remedy,
    RepairNode,
    Tolerate,
    TooLarge,
    Uncordon,
)
from bursar.core.placement.vector import as_quantity

PODS_NAMED_MAX: Final = 5
"""Pods of a remedy that the text names; documents have all."""


def pod_name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def taint_text(taint: Taint) -> str:
    """The taint as `kubectl taint` takes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def remedy_text(remedy: Remedy) -> str:
    """What to do, as a sentence without a stop."""
    match remedy:
        case LowerRequests(node=node, shortfalls=lacks):
            return f"request less: {', '.join(map(_lowered, lacks))}. Then {node} takes it"
        case FreePods(node=node, pods=pods, is_smallest=is_smallest):
            named = some_of([pod_name(pod) for pod in pods], PODS_NAMED_MAX)
            hedge = "" if is_smallest else " (fewer may be enough)"
            return f"end {counted(len(pods), 'pod')} on {node}: {named}{hedge}"
        case Uncordon(node=node):
            return f"kubectl uncordon {node}"
        case Tolerate(node=node, taints=taints):
            listed = ", ".join(map(taint_text, taints))
            return f"tolerate {listed} in the pod, or remove it from {node}"
        case RepairNode(node=node, taints=taints):
            listed = ", ".join(map(taint_text, taints))
            return f"repair {node}, which has {listed}: kubectl describe node {node}"
        case AddLabels(node=node, labels=labels):
            listed = " ".join(f"{key}={value}" for key, value in labels)
            return f"kubectl label node {node} {listed}, or remove it from the node selector"
        case AddNode(like=like):
            return f"add a node of the size, labels and taints of {like}"


def _lowered(lack: Shortfall) -> str:
    amount = "no" if lack.free_amount.is_zero else str(lack.free_amount)
    return f"{amount} {lack.resource} instead of {lack.requested_amount}"


def too_large_text(found: TooLarge) -> str:
    requested = as_quantity(found.resource, found.requested)
    if not found.largest:
        return f"{found.resource}: requests {requested}, and no node has any"
    largest = as_quantity(found.resource, found.largest)
    return f"{found.resource}: requests {requested}, and the most is {largest} on {found.node}"


def obstacle_details(verdict: NodeVerdict) -> Iterator[str]:
    """What filters other than resources have against the pod, in particular."""
    if verdict.taints:
        yield f"taints {', '.join(map(taint_text, verdict.taints))}"
    if verdict.labels and Filter.NODE_AFFINITY in verdict.filters:
        yield f"lacks labels {', '.join(f'{key}={value}' for key, value in verdict.labels)}"
    if verdict.port_holders:
        yield f"ports held by {', '.join(map(pod_name, verdict.port_holders[:PODS_NAMED_MAX]))}"
