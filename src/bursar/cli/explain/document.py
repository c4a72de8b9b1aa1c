"""An explanation as plain data, for `-o json` and `-o yaml`: quantities are their text."""

from typing import TypeAlias

from bursar.app.reports.explain import Placement, PodExplanation
from bursar.cli.explain.wording import pod_name, remedy_text, taint_text
from bursar.core.explain.fate import Fate
from bursar.core.placement.fit import Shortfall
from bursar.core.placement.remedies.obstacles import NodeVerdict
from bursar.core.placement.remedies.remedy import (
    AddLabels,
    AddNode,
    FreePods,
    LowerRequests,
    Remedy,
    RepairNode,
    Tolerate,
    TooLarge,
)
from bursar.core.placement.vector import as_quantity

Document: TypeAlias = dict[str, object]


def as_dict(found: PodExplanation) -> Document:
    """The explanation in camel case."""
    return {
        "namespace": found.pod.namespace,
        "name": found.pod.name,
        "template": found.owner or None,
        "answer": found.answer.value,
        "good": found.answer.is_good,
        "summary": found.summary,
        "node": found.pod.node_name or None,
        "schedulerSaid": found.scheduler_said or None,
        "placement": None if found.placement is None else _placement(found.placement),
        "status": [_fate(fate) for fate in found.fates],
        "nextSteps": list(found.next_steps),
        "notChecked": list(found.unchecked),
    }


def _placement(placement: Placement) -> Document:
    return {
        "event": placement.message or None,
        "firstChoice": placement.best or None,
        "replicas": placement.replicas,
        "replicasFitting": placement.replicas_fitting,
        "nodes": [_verdict(verdict) for verdict in placement.verdicts],
        "remedies": [_remedy(remedy) for remedy in placement.remedies],
        "never": placement.is_never,
        "largerThanAnyNode": [_too_large(each) for each in placement.too_large],
    }


def _verdict(verdict: NodeVerdict) -> Document:
    rejection = verdict.rejection
    return {
        "node": verdict.node.name,
        "fits": verdict.fits,
        "refusedBy": [each.value for each in verdict.filters],
        "reasons": [] if rejection is None else list(rejection.reasons),
        "evictionMayHelp": rejection is not None and rejection.eviction_may_help,
        "missing": {lack.resource: _missing(lack) for lack in verdict.shortfalls},
        "taints": [taint_text(taint) for taint in verdict.taints],
        "lackingLabels": dict(verdict.labels),
        "portsHeldBy": [pod_name(pod) for pod in verdict.port_holders],
    }


def _missing(lack: Shortfall) -> dict[str, str]:
    return {
        "requested": str(lack.requested_amount),
        "allocatable": str(as_quantity(lack.resource, lack.allocatable)),
        "used": str(as_quantity(lack.resource, lack.used)),
        "missing": str(lack.missing_amount),
    }


def _remedy(remedy: Remedy) -> Document:
    document: Document = {"kind": type(remedy).__name__, "text": remedy_text(remedy)}
    match remedy:
        case AddNode(like=like):
            return document | {"like": like}
        case LowerRequests(shortfalls=lacks):
            document["to"] = {lack.resource: str(lack.free_amount) for lack in lacks}
        case FreePods(pods=pods, is_smallest=is_smallest):
            document |= {"pods": [pod_name(pod) for pod in pods], "smallest": is_smallest}
        case Tolerate(taints=taints) | RepairNode(taints=taints):
            document["taints"] = [taint_text(taint) for taint in taints]
        case AddLabels(labels=labels):
            document["labels"] = dict(labels)
        case _:
            pass
    return document | {"node": remedy.node}


def _too_large(found: TooLarge) -> dict[str, str]:
    return {
        "resource": found.resource,
        "requested": str(as_quantity(found.resource, found.requested)),
        "largest": str(as_quantity(found.resource, found.largest)),
        "node": found.node,
    }


def _fate(fate: Fate) -> Document:
    return {
        "subject": fate.subject,
        "reason": fate.reason,
        "sentence": fate.sentence,
        "nextStep": fate.next_step,
        "failure": fate.is_failure,
    }
