"""How peer pods are rewritten: whose, by which rule, and with what added."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.peerpods.capacity import VM_RESOURCE
from bursar.core.peerpods.instances import InstanceType

RUNTIME_CLASS: Final = "kata-remote"
GPU_RESOURCE: Final = "nvidia.com/gpu"

_HYPERVISOR: Final = "io.katacontainers.config.hypervisor."
VCPUS_ANNOTATION: Final = f"{_HYPERVISOR}default_vcpus"
MEMORY_ANNOTATION: Final = f"{_HYPERVISOR}default_memory"
MEMORY_ALIAS_ANNOTATION: Final = f"{_HYPERVISOR}default_mem"
"""What upstream's documentation says. Its code, and Kata, know only the one above."""
GPUS_ANNOTATION: Final = f"{_HYPERVISOR}default_gpus"
MACHINE_TYPE_ANNOTATION: Final = f"{_HYPERVISOR}machine_type"


class Mode(Enum):
    UPSTREAM = "upstream"
    """Sum everything, as the webhook of peer pods does, bit for bit."""
    EFFECTIVE = "effective"
    """What the pod needs at any one time, by the scheduler's rule."""


class OwnSizes(Enum):
    """What becomes of a size that the pod's author has annotated."""

    AT_LEAST = "at-least"
    """It stays if it is enough for what the containers ask for; else they win, with a warning."""
    OVERRIDE = "override"
    """What the containers ask for wins in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPodSettings:
    """Raises `ValueError` for settings that no pod could satisfy."""

    mode: Mode = Mode.EFFECTIVE
    runtime_classes: frozenset[str] = frozenset({RUNTIME_CLASS})
    vm_resource: str = VM_RESOURCE
    gpu_resources: tuple[str, ...] = (GPU_RESOURCE,)
    """Counted together."""
    headroom_cpu: Quantity = ZERO
    """Added to what the containers ask for, if they do: the guest has to live as well."""
    headroom_memory: Quantity = ZERO
    floor_vcpus: int = 0
    """The least for a pod that asks for anything at all; others get the provider's default."""
    floor_memory: Quantity = ZERO
    own_sizes: OwnSizes = OwnSizes.AT_LEAST
    kept: frozenset[str] = frozenset()
    """Resources that exist on the worker and stay in the containers."""
    writes_memory_alias: bool = False
    catalogue: tuple[InstanceType, ...] = ()
    """Instance types of which the best is written to the pod; none to leave it to the adaptor."""

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
