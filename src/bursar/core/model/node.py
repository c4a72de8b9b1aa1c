"""A node: capacity, allocatable and the other fields that Bursar reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bursar.core.model.resources import ResourceList, nothing
from bursar.core.sharing import no_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCondition:
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    heartbeat_at: datetime | None = None
    transition_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    type: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemInfo:
    """`status.nodeInfo`: the versions and identities a kubelet reports."""

    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""
    operating_system: str = ""
    architecture: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    swap_capacity: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    created_at: datetime | None = None
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    provider_id: str = ""
    capacity: ResourceList = field(default_factory=nothing)
    allocatable: ResourceList = field(default_factory=nothing)
    """The amounts for pods. The API server sets it to capacity if a node reports none."""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    info: SystemInfo = field(default_factory=SystemInfo)
