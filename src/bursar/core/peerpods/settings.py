"""Settings of the peer pod rewrite."""

from dataclasses import dataclass
from enum import Enum

from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.names import GPU_RESOURCE, RUNTIME_CLASS, VM_RESOURCE


class Mode(Enum):
    UPSTREAM = "upstream"
    """Add up all containers, exactly as upstream's webhook does."""
    EFFECTIVE = "effective"
    """Take what the pod needs at any one time, by the scheduler's rule."""


class OwnSizes(Enum):
    """What the rewrite does with a size annotation of the pod's author."""

    AT_LEAST = "at-least"
    """Keep it if it is at least the computed size; else replace it and warn."""
    OVERRIDE = "override"
    """Always replace it with the computed size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPodSettings:
    """Raises `ValueError` for settings that contradict each other or are out of range."""

    mode: Mode = Mode.EFFECTIVE
    runtime_classes: frozenset[str] = frozenset({RUNTIME_CLASS})
    vm_resource: str = VM_RESOURCE
    gpu_resources: tuple[str, ...] = (GPU_RESOURCE,)
    """Resource names that count as GPUs; their amounts are added up."""
    headroom_cpu: Quantity = ZERO
    """CPU for the guest system, added if the containers ask for any CPU."""
    headroom_memory: Quantity = ZERO
    """Memory for the guest system, added if the containers ask for any memory."""
    floor_vcpus: int = 0
    """Fewest vCPUs of a pod that asks for any resource; other pods get the provider's default."""
    floor_memory: Quantity = ZERO
    """Least memory of a pod that asks for any resource."""
    own_sizes: OwnSizes = OwnSizes.AT_LEAST
    kept: frozenset[str] = frozenset()
    """Resources of the worker that stay in the containers."""
    writes_memory_alias: bool = False
    """Whether to write the memory size under `MEMORY_ALIAS_ANNOTATION` as well."""
    catalogue: tuple[InstanceType, ...] = ()
    """Instance types to choose from; if empty, the adaptor chooses and nothing is written."""

    def __post_init__(self) -> None:
        if not self.runtime_classes or "" in self.runtime_classes:
            raise ValueError("runtime classes: at least one is needed, and none may be empty")
        if not is_extended(self.vm_resource):
            raise ValueError(f"{self.vm_resource!r} is not the name of an extended resource")
        amounts = (self.headroom_cpu, self.headroom_memory, self.floor_memory)
        if self.floor_vcpus < 0 or any(amount.is_negative for amount in amounts):
            raise ValueError("headroom and floor must not be negative")
        counted = {CPU, MEMORY, self.vm_resource, *self.gpu_resources}
        for name in sorted(self.kept):
            if name in counted:
                raise ValueError(f"{name} goes to the VM and cannot be kept")
            if name != EPHEMERAL_STORAGE and not is_extended(name):
                raise ValueError(f"{name} cannot be kept without cpu or memory beside it")
