"""The size of a peer pod's VM.

Upstream's mode adds up all containers, init containers included, and takes either all limits or
all requests. The effective mode counts the greater of request and limit of each container,
because a VM cannot borrow from a neighbour, and takes what the pod needs at any one time: the
rule of `core/model/demand`, for the three numbers of a size. Both modes leave out the pod's
overhead, which is spent on the worker. Both expect a pod with the API server's defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from bursar.core.model.names import CPU, MEMORY, is_pod_level
from bursar.core.model.numbers.int64 import INT64_MAX, quotient
from bursar.core.model.pod import Pod, ResourceRequirements
from bursar.core.model.quantity import NANOS_PER_UNIT, ZERO, ZERO_BINARY, Quantity
from bursar.core.peerpods.instances import MIB, MachineSize
from bursar.core.peerpods.names import GPU_RESOURCE
from bursar.core.peerpods.settings import PeerPodSettings

SIZE_MAX: Final = (1 << 31) - 1
"""Most vCPUs, MiB or GPUs that a pod may ask for. Two PiB of memory are beyond any machine."""


class ContainerKind(Enum):
    """When in the pod's life a container runs."""

    CONTAINER = "container"
    INIT = "init"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container asked for before the rewrite."""

    name: str
    kind: ContainerKind
    resources: ResourceRequirements


class SizeTexts(NamedTuple):
    """A size as the annotations spell it; empty where there is no annotation."""

    vcpus: str = ""
    memory: str = ""
    gpus: str = ""


NO_SIZE: Final = SizeTexts()


class SizeError(ValueError):
    """The pod asks for more than any VM has. The text names the resource and the amount."""


# ------------------------------------------------------------------ as upstream


def upstream_size(pod: Pod) -> SizeTexts:
    """The size that upstream's webhook annotates, with its overflows and its text for GPUs."""
    cpu = _upstream_amount(pod, CPU, ZERO)
    memory = _upstream_amount(pod, MEMORY, ZERO_BINARY)
    gpus, _ = _upstream_sums(pod, GPU_RESOURCE, ZERO)
    return SizeTexts(
        vcpus="" if cpu is None else str(cpu.value()),
        memory="" if memory is None else _upstream_mib(memory),
        gpus=gpus.canonical if gpus > ZERO else "",
    )


def _upstream_amount(pod: Pod, name: str, zero: Quantity) -> Quantity | None:
    requested, limit = _upstream_sums(pod, name, zero)
    if not requested.is_zero and limit >= requested:
        return limit
    return requested if requested > ZERO else None


def _upstream_sums(pod: Pod, name: str, zero: Quantity) -> tuple[Quantity, Quantity]:
    requested = limit = zero
    for container in (*pod.containers, *pod.init_containers):
        # Adding a zero would change upstream's internal form of the sum, and so its overflow.
        if name in container.resources.requests:
            requested += container.resources.requests[name]
        if name in container.resources.limits:
            limit += container.resources.limits[name]
    return requested, limit


def _upstream_mib(amount: Quantity) -> str:
    if amount.nanos >= INT64_MAX * NANOS_PER_UNIT:
        return "0"  # upstream logs the overflow and continues
    size = amount.value()
    whole = quotient(size, MIB)
    return str(whole + 1 if size - whole * MIB > 0 else whole)


# ------------------------------------------------------------------ the effective size


def effective_size(
    containers: Sequence[ContainerResources],
    stated: ResourceRequirements,
    settings: PeerPodSettings,
) -> MachineSize:
    """The smallest VM that is enough for the pod at any one time. Raises `SizeError`.

    `stated` is the pod's own `spec.resources`. A pod that asks for nothing has no size and gets
    the provider's default. A floor applies as soon as the pod asks for any resource.
    """
    cpu = _at_once(CPU, containers, stated)
    memory = _at_once(MEMORY, containers, stated)
    gpus = sum(_at_once(name, containers, stated) for name in settings.gpu_resources)
    if not cpu and not memory and not gpus:
        return MachineSize()
    cpu += settings.headroom_cpu.nanos if cpu else 0
    memory += settings.headroom_memory.nanos if memory else 0
    memory = max(memory, settings.floor_memory.nanos)
    return MachineSize(
        vcpus=_bounded(max(-(-cpu // NANOS_PER_UNIT), settings.floor_vcpus), "vCPUs"),
        memory_mib=_bounded(-(-memory // (MIB * NANOS_PER_UNIT)), "MiB of memory"),
        gpus=_bounded(-(-gpus // NANOS_PER_UNIT), "GPUs"),
    )


def _at_once(
    name: str, containers: Sequence[ContainerResources], stated: ResourceRequirements
) -> int:
    """How much of a resource the VM must have, in nanos.

    A limit in `spec.resources` bounds all containers together, so it decides. A request there
    bounds nothing, so it counts only if it is more than the containers need.
    """
    running = sidecars = peak = 0
    for each in containers:
        amount = _greater(each.resources, name)
        if each.kind is ContainerKind.CONTAINER:
            running += amount
        elif each.kind is ContainerKind.SIDECAR:
            sidecars += amount
        else:
            peak = max(peak, amount + sidecars)
    needed = max(running + sidecars, peak)
    if not is_pod_level(name):
        return needed
    own = _greater(stated, name)
    return own if name in stated.limits else max(own, needed)


def _greater(resources: ResourceRequirements, name: str) -> int:
    request, limit = resources.requests.get(name, ZERO), resources.limits.get(name, ZERO)
    return max(request.nanos, limit.nanos)


def _bounded(count: int, unit: str) -> int:
    if count > SIZE_MAX:
        raise SizeError(f"the pod asks for {count} {unit}; a VM can have at most {SIZE_MAX}")
    return count
