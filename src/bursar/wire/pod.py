"""Pods: the fields of a v1 Pod that we read, and their translation to the core."""

import msgspec

from bursar.core.model import pod as core
from bursar.wire.fields import (
    RawResourceList,
    Scalar,
    decode_quantity,
    decode_resources,
    decode_time,
)


class Struct(msgspec.Struct, rename="camel", gc=False):
    """Foreign objects: unknown fields are ignored, missing ones take their default."""


class ObjectMeta(Struct):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None


class ClaimReference(Struct):
    name: str = ""
    request: str | None = None


class ResourceRequirements(Struct):
    requests: RawResourceList | None = None
    limits: RawResourceList | None = None
    claims: list[ClaimReference] | None = None


class Container(Struct):
    name: str = ""
    image: str | None = None
    restart_policy: str | None = None
    resources: ResourceRequirements | None = None


class EmptyDirSource(Struct):
    medium: str | None = None
    size_limit: Scalar = None


class Volume(Struct):
    name: str = ""
    empty_dir: EmptyDirSource | None = None


class Named(Struct):
    name: str = ""


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
    scheduling_gates: list[Named] | None = None


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
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: RawResourceList | None = None
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class Condition(Struct):
    type: str = ""
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodStatus(Struct):
    phase: str | None = None
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


def to_core(pod: Pod) -> core.Pod:
    """Translate a decoded pod. Raises `FieldError` for a quantity or time that cannot be read."""
    meta = pod.metadata or ObjectMeta()
    spec = pod.spec or PodSpec()
    status = pod.status or PodStatus()
    return core.Pod(
        namespace=meta.namespace or "",
        name=meta.name or meta.generate_name or "",
        uid=meta.uid or "",
        labels=meta.labels or core.NO_LABELS,
        annotations=meta.annotations or core.NO_LABELS,
        created_at=decode_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        containers=_containers(spec.containers, "spec.containers"),
        init_containers=_containers(spec.init_containers, "spec.initContainers"),
        ephemeral_containers=_containers(spec.ephemeral_containers, "spec.ephemeralContainers"),
        resources=_requirements(spec.resources, "spec.resources"),
        overhead=decode_resources(spec.overhead, "spec.overhead"),
        claim_names=tuple(claim.name for claim in spec.resource_claims or ()),
        empty_dirs=_empty_dirs(spec.volumes or []),
        node_name=spec.node_name or "",
        os_name=spec.os.name if spec.os else "",
        priority=spec.priority,
        priority_class=spec.priority_class_name or "",
        scheduling_gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        phase=status.phase or "",
        conditions=tuple(_condition(condition) for condition in status.conditions or ()),
        container_statuses=_statuses(status.container_statuses, "status.containerStatuses"),
        init_container_statuses=_statuses(
            status.init_container_statuses, "status.initContainerStatuses"
        ),
        reported_qos=status.qos_class or "",
        status_resources=_requirements(status.resources, "status.resources"),
        status_allocated=decode_resources(status.allocated_resources, "status.allocatedResources"),
    )


def _requirements(raw: ResourceRequirements | None, field: str) -> core.ResourceRequirements | None:
    if raw is None:
        return None
    return core.ResourceRequirements(
        requests=decode_resources(raw.requests, f"{field}.requests"),
        limits=decode_resources(raw.limits, f"{field}.limits"),
        claims=tuple(
            core.ClaimReference(name=claim.name, request=claim.request or "")
            for claim in raw.claims or ()
        ),
    )


def _containers(raw: list[Container] | None, field: str) -> tuple[core.Container, ...]:
    return tuple(
        core.Container(
            name=container.name,
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
            name=volume.name,
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
        type=raw.type,
        status=raw.status or "",
        reason=raw.reason or "",
        message=raw.message or "",
    )


def _statuses(raw: list[ContainerStatus] | None, field: str) -> tuple[core.ContainerStatus, ...]:
    return tuple(_status(status, f"{field}[{index}]") for index, status in enumerate(raw or ()))


def _status(raw: ContainerStatus, field: str) -> core.ContainerStatus:
    return core.ContainerStatus(
        name=raw.name,
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
