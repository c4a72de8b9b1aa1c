"""Decoding of workloads: their pod template and number of replicas."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bursar.core.model.pod import Pod
from bursar.core.model.problem import counted
from bursar.core.model.quantity import Quantity
from bursar.wire.documents.tree import Value
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.amounts import require_amounts_of_pod, require_not_negative
from bursar.wire.model.pod import PodSpec
from bursar.wire.structs.fields import FieldError, decode_resources
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.shape import shaped
from bursar.wire.structs.struct import Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """One of a StatefulSet's `volumeClaimTemplates`: a PersistentVolumeClaim for each pod."""

    name: str
    storage_class: str
    """Empty: the default class of the cluster, or none."""
    storage: Quantity | None
    """The storage requested; None if the claim does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTemplate:
    """The pod that a workload creates, with the name of the workload."""

    owner_kind: str
    owner_name: str
    """`Kind/name` of the object that made the workload, such as a ReplicaSet's Deployment."""
    replicas: int | None
    """Number of concurrent pods; None for a DaemonSet and for a PodTemplate."""
    pod: Pod
    claims: tuple[ClaimTemplate, ...] = ()
    concurrency_policy: str = ""
    """`concurrencyPolicy` of a CronJob; empty if it is not written, and for other kinds."""

    def __str__(self) -> str:
        """The workload and its number of pods, such as `Deployment shop, 3 replicas`."""
        many = "" if self.replicas is None else f", {counted(self.replicas, 'replica')}"
        return f"{self.owner_kind} {self.owner_name}{many}"


class ClaimSpec(Struct):
    storage_class_name: str | None = None
    resources: wire_pod.ResourceRequirements | None = None


class RawClaim(Struct):
    metadata: ObjectMeta | None = None
    spec: ClaimSpec | None = None


class PodTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class ReplicatedSpec(Struct):
    replicas: int | None = None
    template: PodTemplateSpec | None = None
    volume_claim_templates: list[RawClaim] | None = None


class Replicated(Struct):
    """Deployment, ReplicaSet, StatefulSet, ReplicationController; a DaemonSet without replicas."""

    metadata: ObjectMeta | None = None
    spec: ReplicatedSpec | None = None


class JobSpec(Struct):
    parallelism: int | None = None
    completions: int | None = None
    template: PodTemplateSpec | None = None


class Job(Struct):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class JobTemplate(Struct):
    spec: JobSpec | None = None


class CronJobSpec(Struct):
    job_template: JobTemplate | None = None
    concurrency_policy: str | None = None


class CronJob(Struct):
    metadata: ObjectMeta | None = None
    spec: CronJobSpec | None = None


class PodTemplate(Struct):
    metadata: ObjectMeta | None = None
    template: PodTemplateSpec | None = None


def decode_workload(kind: str, value: Value) -> WorkloadTemplate:
    """Decode an object of a kind in `WORKLOAD_KINDS`. Raises `FieldError`."""
    return WORKLOAD_KINDS[kind](kind, value)


def _replicated(kind: str, value: Value) -> WorkloadTemplate:
    raw = shaped(value, Replicated)
    spec = raw.spec or ReplicatedSpec()
    is_per_node = kind == "DaemonSet"
    count = None if is_per_node else _count(spec.replicas, "spec.replicas", missing=1)
    template = _template(kind, raw.metadata, spec.template, "spec.template", replicas=count)
    claims = spec.volume_claim_templates if kind == "StatefulSet" else None
    return replace(template, claims=tuple(map(_claim, claims or (), itertools.count())))


def _claim(raw: RawClaim, index: int) -> ClaimTemplate:
    spec = raw.spec or ClaimSpec()
    field = f"spec.volumeClaimTemplates[{index}].spec.resources.requests"
    stated = None if spec.resources is None else spec.resources.requests
    requests = decode_resources(stated, field)
    for name, amount in requests.items():
        require_not_negative(f"{field}[{name}]", amount)
    return ClaimTemplate(
        name=(raw.metadata and raw.metadata.name) or "",
        storage_class=spec.storage_class_name or "",
        storage=requests.get("storage"),
    )


def _job(kind: str, value: Value) -> WorkloadTemplate:
    raw = shaped(value, Job)
    spec = raw.spec or JobSpec()
    count = _pods_of_job(spec, "spec")
    return _template(kind, raw.metadata, spec.template, "spec.template", replicas=count)


def _cron_job(kind: str, value: Value) -> WorkloadTemplate:
    raw = shaped(value, CronJob)
    cron = raw.spec or CronJobSpec()
    outer = cron.job_template or JobTemplate()
    spec = outer.spec or JobSpec()
    field = "spec.jobTemplate.spec"
    count = _pods_of_job(spec, field)
    template = _template(kind, raw.metadata, spec.template, f"{field}.template", replicas=count)
    return replace(template, concurrency_policy=cron.concurrency_policy or "")


def _pod_template(kind: str, value: Value) -> WorkloadTemplate:
    raw = shaped(value, PodTemplate)
    return _template(kind, raw.metadata, raw.template, "template", replicas=None)


WORKLOAD_KINDS: Final[dict[str, Callable[[str, Value], WorkloadTemplate]]] = {
    "Deployment": _replicated,
    "ReplicaSet": _replicated,
    "StatefulSet": _replicated,
    "ReplicationController": _replicated,
    "DaemonSet": _replicated,
    "Job": _job,
    "CronJob": _cron_job,
    "PodTemplate": _pod_template,
}


def _pods_of_job(spec: JobSpec, field: str) -> int:
    """Number of pods that run at the same time, at most as many as `completions`."""
    parallelism = _count(spec.parallelism, f"{field}.parallelism", missing=1)
    return min(parallelism, _count(spec.completions, f"{field}.completions", missing=parallelism))


def _count(raw: int | None, field: str, *, missing: int) -> int:
    if raw is None:
        return missing
    if raw < 0:
        raise FieldError(field, f"Invalid value: {raw}: must be greater than or equal to 0")
    return raw


def _template(
    kind: str,
    meta: ObjectMeta | None,
    template: PodTemplateSpec | None,
    field: str,
    *,
    replicas: int | None,
) -> WorkloadTemplate:
    if template is None:
        raise FieldError(field, "required, but missing")
    owner = meta or ObjectMeta()
    try:
        pod = wire_pod.to_core(wire_pod.Pod(metadata=template.metadata, spec=template.spec))
        require_amounts_of_pod(pod)
    except FieldError as error:
        raise error.under(field) from None
    name = owner.name or owner.generate_name or ""
    return WorkloadTemplate(
        owner_kind=kind,
        owner_name=name,
        replicas=replicas,
        pod=replace(pod, name=name, namespace=owner.namespace or ""),
    )
