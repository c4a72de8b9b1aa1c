"""Decoding of nodes: the fields of a v1 Node that Bursar reads."""

import msgspec

from bursar.core.model import node as core
from bursar.wire.model.node_address import AddressedStatus
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawResourceList, decode_resources, decode_texts, decode_time
from bursar.wire.structs.metadata import Condition, ObjectMeta
from bursar.wire.structs.struct import Struct


class Taint(Struct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Struct):
    taints: list[Taint] | None = None
    unschedulable: bool | None = None
    pod_cidr: str | None = msgspec.field(name="podCIDR", default=None)
    pod_cidrs: list[str] | None = msgspec.field(name="podCIDRs", default=None)
    provider_id: str | None = msgspec.field(name="providerID", default=None)


class Swap(Struct):
    capacity: int | None = None


class NodeInfo(Struct):
    architecture: str | None = None
    boot_id: str | None = msgspec.field(name="bootID", default=None)
    container_runtime_version: str | None = None
    kernel_version: str | None = None
    kube_proxy_version: str | None = None
    kubelet_version: str | None = None
    machine_id: str | None = msgspec.field(name="machineID", default=None)
    operating_system: str | None = None
    os_image: str | None = None
    system_uuid: str | None = msgspec.field(name="systemUUID", default=None)
    swap: Swap | None = None


class NodeStatus(AddressedStatus):
    capacity: RawResourceList | None = None
    allocatable: RawResourceList | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class Node(Struct):
    metadata: ObjectMeta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


def decode_node(body: bytes) -> core.Node:
    """Decode a node. Raises `ValueError`."""
    return to_core(decode_body(body, Node))


def to_core(node: Node) -> core.Node:
    """Translate a decoded node. Raises `FieldError` for a quantity or time that cannot be read."""
    meta = node.metadata or ObjectMeta()
    spec = node.spec or NodeSpec()
    status = node.status or NodeStatus()
    capacity = decode_resources(status.capacity, "status.capacity")
    allocatable = decode_resources(status.allocatable, "status.allocatable")
    return core.Node(
        name=meta.name or "",
        labels=decode_texts(meta.labels),
        annotations=decode_texts(meta.annotations),
        created_at=decode_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        taints=tuple(
            core.Taint(key=taint.key or "", value=taint.value or "", effect=taint.effect or "")
            for taint in spec.taints or ()
        ),
        unschedulable=bool(spec.unschedulable),
        pod_cidr=spec.pod_cidr or "",
        pod_cidrs=tuple(spec.pod_cidrs or ()),
        provider_id=spec.provider_id or "",
        capacity=capacity,
        allocatable=capacity if status.allocatable is None else allocatable,
        conditions=tuple(
            _condition(condition, f"status.conditions[{index}]")
            for index, condition in enumerate(status.conditions or ())
        ),
        addresses=tuple(
            core.NodeAddress(type=address.type or "", address=address.address or "")
            for address in status.addresses or ()
        ),
        info=_info(status.node_info or NodeInfo()),
    )


def _condition(raw: Condition, field: str) -> core.NodeCondition:
    return core.NodeCondition(
        type=raw.type or "",
        status=raw.status or "",
        reason=raw.reason or "",
        message=raw.message or "",
        heartbeat_at=decode_time(raw.last_heartbeat_time, f"{field}.lastHeartbeatTime"),
        transition_at=decode_time(raw.last_transition_time, f"{field}.lastTransitionTime"),
    )


def _info(raw: NodeInfo) -> core.SystemInfo:
    return core.SystemInfo(
        machine_id=raw.machine_id or "",
        system_uuid=raw.system_uuid or "",
        boot_id=raw.boot_id or "",
        kernel_version=raw.kernel_version or "",
        os_image=raw.os_image or "",
        operating_system=raw.operating_system or "",
        architecture=raw.architecture or "",
        container_runtime_version=raw.container_runtime_version or "",
        kubelet_version=raw.kubelet_version or "",
        kube_proxy_version=raw.kube_proxy_version or "",
        swap_capacity=raw.swap.capacity if raw.swap else None,
    )
