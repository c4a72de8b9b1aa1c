"""What all pods of a workload ask for together, in the names under which a quota counts it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.names import PODS
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.provenance import Decision
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList, add
from bursar.core.placement.attempt import Attempt
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.remedies.obstacles import verdicts
from bursar.core.placement.remedies.remedy import DAEMON_SET
from bursar.wire.model.workloads.autoscaler import Autoscaler
from bursar.wire.model.workloads.workload import WorkloadTemplate

CLAIMS: Final = "persistentvolumeclaims"
STORAGE: Final = "requests.storage"
CLASS_MIDDLE: Final = ".storageclass.storage.k8s.io/"
CRON_JOB: Final = "CronJob"

OVERLAPS: Final = {
    "Forbid": "one run at a time (concurrencyPolicy Forbid)",
    "Replace": "one run at a time, a new one replaces it (concurrencyPolicy Replace)",
}
MAY_OVERLAP: Final = "of one run; runs may overlap (concurrencyPolicy Allow)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What a number of pods of the workload asks for."""

    count: int
    meaning: str
    """Why this number: `replicas`, `HPA maximum`."""
    amounts: ResourceList


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasReport:
    """The pods of a workload together."""

    per_pod: ResourceList
    """What one pod asks for, with the PersistentVolumeClaims that are created for it."""
    totals: tuple[Total, ...]
    """Empty if it is not known how many pods there will be."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingObjects:
    """Autoscalers and nodes, which decide how many pods a workload has."""

    autoscalers: Mapping[tuple[str, str, str], Autoscaler] = field(default_factory=dict)
    """By the kind, namespace and name of the workload that they scale."""
    nodes: Sequence[Node] = ()


def scaling_objects(
    autoscalers: Iterable[Autoscaler], nodes: Sequence[Node], default_namespace: str
) -> ScalingObjects:
    """Autoscalers by what they scale. Without a namespace they are in `default_namespace`."""
    return ScalingObjects(
        autoscalers={
            (each.target_kind, each.namespace or default_namespace, each.target_name): each
            for each in autoscalers
        },
        nodes=nodes,
    )


def replicas_report(
    template: WorkloadTemplate,
    pod: Pod,
    requests: Mapping[str, Decision],
    limits: Mapping[str, Decision],
    scaling: ScalingObjects,
) -> ReplicasReport:
    """Report on a workload, of which `pod` is one pod as admission leaves it."""
    per_pod = dict(_per_pod(template, requests, limits))
    counts = _counts(template, pod, scaling)
    return ReplicasReport(
        per_pod=per_pod,
        totals=tuple(
            Total(
                count=count,
                meaning=meaning,
                amounts={name: _times(amount, count) for name, amount in per_pod.items()},
            )
            for count, meaning in counts
        ),
        notes=tuple(_notes(template, scaling)),
    )


def _per_pod(
    template: WorkloadTemplate, requests: Mapping[str, Decision], limits: Mapping[str, Decision]
) -> Iterator[tuple[str, Quantity]]:
    for name, decision in sorted(requests.items()):
        yield f"requests.{name}", decision.amount
    for name, decision in sorted(limits.items()):
        yield f"limits.{name}", decision.amount
    yield PODS, Quantity.of(1)
    if template.claims:
        yield from _claimed(template)


def _claimed(template: WorkloadTemplate) -> Iterator[tuple[str, Quantity]]:
    """The claims of one pod, as a ResourceQuota counts them: all, and by StorageClass."""
    total: dict[str, Quantity] = {}
    for claim in template.claims:
        amounts = {CLAIMS: Quantity.of(1)}
        if claim.storage is not None:
            amounts[STORAGE] = claim.storage
        if claim.storage_class:
            of_class = f"{claim.storage_class}{CLASS_MIDDLE}"
            amounts |= {of_class + name: amount for name, amount in amounts.items()}
        total = add(total, amounts)
    yield from sorted(total.items())


def _counts(template: WorkloadTemplate, pod: Pod, scaling: ScalingObjects) -> list[tuple[int, str]]:
    if template.owner_kind == DAEMON_SET:
        matching = sum(_takes(node, pod) for node in scaling.nodes)
        return [(matching, "nodes that take it")] if scaling.nodes else []
    if template.replicas is None:
        return []
    meaning = "in one run" if template.owner_kind == CRON_JOB else "replicas"
    if template.owner_kind == "Job":
        meaning = "in parallel"
    counts = [(template.replicas, meaning)]
    scaler = scaling.autoscalers.get((template.owner_kind, pod.namespace, template.owner_name))
    if scaler is not None:
        counts += [(scaler.minimum, "HPA minimum"), (scaler.maximum, "HPA maximum")]
    return counts


def _takes(node: Node, pod: Pod) -> bool:
    """Whether the node, while it is empty, would take the pod."""
    books = NodeBooks(node, ())
    (verdict,) = verdicts(Attempt(pod, (), None), (books,))
    return verdict.fits


def _notes(template: WorkloadTemplate, scaling: ScalingObjects) -> Iterator[str]:
    if template.owner_kind == CRON_JOB:
        yield OVERLAPS.get(template.concurrency_policy, MAY_OVERLAP)
    if template.owner_kind == DAEMON_SET and not scaling.nodes:
        yield "one pod on each node that takes it; the input has no nodes"
    if any(not claim.storage_class for claim in template.claims):
        yield "claims without a class get the cluster's default StorageClass"


def _times(amount: Quantity, count: int) -> Quantity:
    """The amount `count` times, in the notation of the amount."""
    return Quantity(amount.nanos * count, amount.format, amount.scale, amount.big)
