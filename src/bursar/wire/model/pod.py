"""Decoding of pods: the fields of a v1 Pod that Bursar reads."""

from collections.abc import Mapping

import msgspec

from bursar.core.model import pod as core
from bursar.core.model.pod import NO_RULES, SchedulingRules
from bursar.wire.model.scheduling import (
    ContainerPort,
    PodAffinity,
    PodTerm,
    SpreadConstraint,
    host_ports,
    pod_terms,
    spread_constraints,
)
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import (
    RawResourceList,
    RawTexts,
    Scalar,
    decode_quantity,
    decode_resources,
    decode_texts,
    decode_time,
)
from bursar.wire.structs.metadata import (
    Condition,
    MatchExpression,
    Named,
    ObjectMeta,
    controller_of,
)
from bursar.wire.structs.struct import Struct


class ClaimReference(Struct):
    name: str | None = None
    request: str | None = None


class ResourceRequirements(Struct):
    requests: RawResourceList | None = None
    limits: RawResourceList | None = None
    claims: list[ClaimReference] | None = None


class Container(Struct):
    name: str | None = None
    image: str | None = None
    restart_policy: str | None = None
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None


class EmptyDirSource(Struct):
    medium: str | None = None
    size_limit: Scalar = None


class VolumeSource(Struct):
    """A volume source that may tie the pod to some nodes. Only its presence matters."""


class Volume(Struct):
    name: str | None = None
    empty_dir: EmptyDirSource | None = None
    persistent_volume_claim: VolumeSource | None = None
    ephemeral: VolumeSource | None = None
    csi: VolumeSource | None = None
    gce_persistent_disk: VolumeSource | None = msgspec.field(name="gcePersistentDisk", default=None)
    aws_elastic_block_store: VolumeSource | None = None
    iscsi: VolumeSource | None = None
    rbd: VolumeSource | None = None


class Toleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeTerm(Struct):
    match_expressions: list[MatchExpression] | None = None
    match_fields: list[MatchExpression] | None = None


class RequiredTerms(Struct):
    node_selector_terms: list[NodeTerm] | None = None


class NodeAffinity(Struct):
    required: RequiredTerms | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodSpec(Struct):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: RawResourceList | None = None
    resource_claims: list[Named] | None = None
    volumes: list[Volume] | None = None
    node_name: str | None = None
    os: Named | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None
    active_deadline_seconds: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[Named] | None = None
    scheduler_name: str | None = None
    tolerations: list[Toleration] | None = None
    node_selector: RawTexts | None = None
    affinity: Affinity | None = None
    host_network: bool | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None


class StateDetail(Struct):
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Struct):
    waiting: StateDetail | None = None
    running: StateDetail | None = None
    terminated: StateDetail | None = None


class ContainerStatus(Struct):
    name: str | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: RawResourceList | None = None
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatus(Struct):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    qos_class: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: RawResourceList | None = None


class Pod(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


def decode_pod(body: bytes) -> core.Pod:
    """Decode a pod with every field of the model. Raises `ValueError`."""
    return to_core(decode_body(body, Pod))


def to_core(pod: Pod) -> core.Pod:
    """Translate a decoded pod. Raises `FieldError` for a quantity or time that cannot be read."""
    meta = pod.metadata or ObjectMeta()
    spec = pod.spec or PodSpec()
    status = pod.status or PodStatus()
    controller = controller_of(meta)
    return core.Pod(
        namespace=meta.namespace or "",
        name=meta.name or meta.generate_name or "",
        uid=meta.uid or "",
        labels=decode_texts(meta.labels),
        annotations=decode_texts(meta.annotations),
        created_at=decode_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        deleted_at=decode_time(meta.deletion_timestamp, "metadata.deletionTimestamp"),
        deletion_grace_s=meta.deletion_grace_period_seconds,
        containers=_containers(spec.containers, "spec.containers"),
        init_containers=_containers(spec.init_containers, "spec.initContainers"),
        ephemeral_containers=_containers(spec.ephemeral_containers, "spec.ephemeralContainers"),
        resources=_requirements(spec.resources, "spec.resources"),
        overhead=decode_resources(spec.overhead, "spec.overhead"),
        claim_names=_names(spec.resource_claims),
        empty_dirs=_empty_dirs(spec.volumes or []),
        node_name=spec.node_name or "",
        os_name=(spec.os and spec.os.name) or "",
        priority=spec.priority,
        priority_class=spec.priority_class_name or "",
        runtime_class=spec.runtime_class_name or "",
        deadline_s=spec.active_deadline_seconds,
        preemption_policy=spec.preemption_policy or "",
        scheduling_gates=_names(spec.scheduling_gates),
        scheduler_name=spec.scheduler_name or "",
        tolerations=tuple(_toleration(raw) for raw in spec.tolerations or ()),
        node_selector=decode_texts(spec.node_selector),
        node_terms=_node_terms(spec.affinity),
        crosses_namespaces=spec.affinity is not None
        and crosses_namespaces(spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity),
        rules=_rules(spec, decode_texts(meta.labels)),
        controller_kind=(controller and controller.kind) or "",
        controller_name=(controller and controller.name) or "",
        phase=status.phase or "",
        reason=status.reason or "",
        message=status.message or "",
        conditions=tuple(_condition(condition) for condition in status.conditions or ()),
        container_statuses=_statuses(status.container_statuses, "status.containerStatuses"),
        init_container_statuses=_statuses(
            status.init_container_statuses, "status.initContainerStatuses"
        ),
        reported_qos=status.qos_class or "",
        status_resources=_requirements(status.resources, "status.resources"),
        status_allocated=decode_resources(status.allocated_resources, "status.allocatedResources"),
    )


def _rules(spec: PodSpec, labels: Mapping[str, str]) -> SchedulingRules:
    affinity = spec.affinity or Affinity()
    # As the API server does it: the ports of plain init containers are not reserved.
    starting = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    place = "spec.affinity.{}.requiredDuringSchedulingIgnoredDuringExecution"
    rules = SchedulingRules(
        host_ports=host_ports(
            [*(spec.containers or ()), *starting], host_network=bool(spec.host_network)
        ),
        affinity=pod_terms(affinity.pod_affinity, labels, place.format("podAffinity")),
        anti_affinity=pod_terms(
            affinity.pod_anti_affinity, labels, place.format("podAntiAffinity")
        ),
        spread=spread_constraints(spec.topology_spread_constraints, labels),
        volumes=tuple(each.name or "" for each in spec.volumes or () if _binds(each)),
    )
    # Most pods have none, and share one object.
    return rules if rules != NO_RULES else NO_RULES


def _binds(volume: Volume) -> bool:
    """Whether the volume may tie the pod to some nodes."""
    sources = (
        *(volume.persistent_volume_claim, volume.ephemeral, volume.csi, volume.iscsi, volume.rbd),
        *(volume.gce_persistent_disk, volume.aws_elastic_block_store),
    )
    return any(source is not None for source in sources)


def crosses_namespaces(*affinities: PodAffinity | None) -> bool:
    """Whether any term names or selects namespaces, even the pod's own."""
    return any(
        term.namespaces or term.namespace_selector is not None
        for affinity in affinities
        if affinity is not None
        for term in _pod_terms(affinity)
    )


def _pod_terms(affinity: PodAffinity) -> list[PodTerm]:
    weighted = [each.pod_affinity_term for each in affinity.preferred or ()]
    return (affinity.required or []) + [term for term in weighted if term is not None]


def _toleration(raw: Toleration) -> core.Toleration:
    return core.Toleration(
        key=raw.key or "",
        operator=raw.operator or "",
        value=raw.value or "",
        effect=raw.effect or "",
    )


def _node_terms(affinity: Affinity | None) -> tuple[core.NodeTerm, ...] | None:
    if affinity is None or affinity.node_affinity is None:
        return None
    required = affinity.node_affinity.required
    if required is None:
        return None
    return tuple(
        core.NodeTerm(
            expressions=_node_requirements(term.match_expressions),
            fields=_node_requirements(term.match_fields),
        )
        for term in required.node_selector_terms or ()
    )


def _node_requirements(raw: list[MatchExpression] | None) -> tuple[core.NodeRequirement, ...]:
    return tuple(
        core.NodeRequirement(
            key=wanted.key or "",
            operator=wanted.operator or "",
            values=tuple(value or "" for value in wanted.values or ()),
        )
        for wanted in raw or ()
    )


def _names(raw: list[Named] | None) -> tuple[str, ...]:
    return tuple(named.name or "" for named in raw or ())


def _requirements(raw: ResourceRequirements | None, field: str) -> core.ResourceRequirements | None:
    if raw is None:
        return None
    return core.ResourceRequirements(
        requests=decode_resources(raw.requests, f"{field}.requests"),
        limits=decode_resources(raw.limits, f"{field}.limits"),
        claims=tuple(
            core.ClaimReference(name=claim.name or "", request=claim.request or "")
            for claim in raw.claims or ()
        ),
    )


def _containers(raw: list[Container] | None, field: str) -> tuple[core.Container, ...]:
    return tuple(
        core.Container(
            name=container.name or "",
            resources=_requirements(container.resources, f"{field}[{index}].resources")
            or core.NO_RESOURCES,
            restart_policy=container.restart_policy or "",
            image=container.image or "",
        )
        for index, container in enumerate(raw or ())
    )


def _empty_dirs(volumes: list[Volume]) -> tuple[core.EmptyDir, ...]:
    return tuple(
        core.EmptyDir(
            index=index,
            name=volume.name or "",
            medium=volume.empty_dir.medium or "",
            size_limit=None
            if volume.empty_dir.size_limit is None
            else decode_quantity(
                volume.empty_dir.size_limit, f"spec.volumes[{index}].emptyDir.sizeLimit"
            ),
        )
        for index, volume in enumerate(volumes)
        if volume.empty_dir is not None
    )


def _condition(raw: Condition) -> core.Condition:
    return core.Condition(
        type=raw.type or "",
        status=raw.status or "",
        reason=raw.reason or "",
        message=raw.message or "",
    )


def _statuses(raw: list[ContainerStatus] | None, field: str) -> tuple[core.ContainerStatus, ...]:
    return tuple(_status(status, f"{field}[{index}]") for index, status in enumerate(raw or ()))


def _status(raw: ContainerStatus, field: str) -> core.ContainerStatus:
    return core.ContainerStatus(
        name=raw.name or "",
        resources=_requirements(raw.resources, f"{field}.resources"),
        allocated=decode_resources(raw.allocated_resources, f"{field}.allocatedResources"),
        ready=bool(raw.ready),
        restart_count=raw.restart_count or 0,
        state=_state(raw.state, f"{field}.state"),
        last_state=_state(raw.last_state, f"{field}.lastState"),
    )


def _state(raw: ContainerState | None, field: str) -> core.ContainerState | None:
    if raw is None:
        return None
    for kind, detail in (
        ("running", raw.running),
        ("terminated", raw.terminated),
        ("waiting", raw.waiting),
    ):
        if detail is not None:
            return core.ContainerState(
                kind=kind,
                reason=detail.reason or "",
                message=detail.message or "",
                exit_code=detail.exit_code or 0,
                signal=detail.signal or 0,
                started_at=decode_time(detail.started_at, f"{field}.{kind}.startedAt"),
                finished_at=decode_time(detail.finished_at, f"{field}.{kind}.finishedAt"),
            )
    return None
