"""DaemonSets: one pod for every node that its pods tolerate and select."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from bursar.adapters.memory.simulation.cluster import Raw
from bursar.adapters.memory.simulation.workloads.effects import Delete, Effect, status_change
from bursar.adapters.memory.simulation.workloads.templates import (
    REVISION_LABEL,
    field,
    is_active,
    is_being_deleted,
    is_ready,
    new_pod,
    observed,
    revision_of,
    template_hash,
)
from bursar.app.cluster.kinds import DAEMON_SETS, PODS
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.placement.filters import FIELD_NAME, refusal
from bursar.wire.model import pod as wire_pod

_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Tolerations that every pod of a DaemonSet gets, as upstream."""


def decide_daemon_set(owner: Raw, pods: Sequence[Raw], nodes: Sequence[Node]) -> list[Effect]:
    pattern = _pattern(owner)
    eligible = [node.name for node in nodes if refusal(pattern, node) is None]
    revision = template_hash(owner["spec"]["template"])
    by_node: dict[str, list[Raw]] = {}
    for pod in pods:
        by_node.setdefault(_node_of(pod), []).append(pod)
    effects: list[Effect] = []
    for name in eligible:
        held = by_node.pop(name, [])
        effects += [
            Delete(resource=PODS, target=pod)
            for pod in _superfluous(held, revision)
            if not is_being_deleted(pod)
        ]
        if not held:
            effects.append(_pod(owner, name, revision))
    misplaced = [pod for held in by_node.values() for pod in held]
    effects += [Delete(resource=PODS, target=pod) for pod in misplaced if not is_being_deleted(pod)]
    placed = [pod for pod in pods if pod not in misplaced]
    ready = sum(is_ready(pod) for pod in placed)
    status = {
        "desiredNumberScheduled": len(eligible),
        "currentNumberScheduled": len({_node_of(pod) for pod in placed}),
        "numberMisscheduled": len(misplaced),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": len(eligible) - ready,
        "updatedNumberScheduled": sum(revision_of(pod) == revision for pod in placed),
    }
    return effects + status_change(DAEMON_SETS, owner, status | observed(owner))


def _pattern(owner: Raw) -> Pod:
    """A pod of the set, with the fields that decide which nodes accept it."""
    spec = _with_tolerations(owner["spec"]["template"].get("spec") or {})
    raw = msgspec.convert({"spec": spec}, wire_pod.Pod, strict=False)
    return replace(wire_pod.to_core(raw), node_name="")


def _superfluous(held: Sequence[Raw], revision: str) -> list[Raw]:
    """Pods to delete: finished ones, ones of an old template, and all but the first."""
    good = [pod for pod in held if is_active(pod) and revision_of(pod) == revision]
    return [pod for pod in held if pod not in good[:1]]


def _pod(owner: Raw, node: str, revision: str) -> Effect:
    """A pod with a node affinity for one node. The scheduler binds it."""
    spec = _with_tolerations(owner["spec"]["template"].get("spec") or {})
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": FIELD_NAME, "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec["affinity"] = {
        **affinity,
        "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required},
    }
    return new_pod(DAEMON_SETS, owner, labels={REVISION_LABEL: revision}, spec=spec)


def _with_tolerations(spec: Raw) -> Raw:
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), *added]}


def _node_of(pod: Raw) -> str:
    """The node of the pod, or the node of its affinity while it is pending."""
    name = str(field(pod, "spec", "nodeName", ""))
    if name:
        return name
    affinity = field(pod, "spec", "affinity", {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for wanted in term.get("matchFields") or ():
            return str(wanted["values"][0])
    return ""
