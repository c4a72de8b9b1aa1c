"""How large the VM of a peer pod has to be.

In upstream's mode everything is added up, init containers included, and either all limits
or all requests are taken. In the effective mode each container counts with the greater of
its request and its limit, for a VM has nobody to borrow from, and the pod with what is
needed at any one time: the rule of `core/model/demand`, here for the few numbers that make a
size and not for every resource with its text. Overhead is left out in both, since it is
spent on the worker.

Both want a pod that has its defaults, as an API server has put them in.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bursar.core.model.int64 import INT64_MAX, quotient
from bursar.core.model.names import CPU, MEMORY, is_pod_level
from bursar.core.model.pod import Pod, ResourceRequirements
from bursar.core.model.quantity import NANOS_PER_UNIT, ZERO, ZERO_BINARY, Quantity
from bursar.core.peerpods.instances import MachineSize
from bursar.core.peerpods.removed import ContainerKind, Removed
from bursar.core.peerpods.settings import GPU_RESOURCE, PeerPodSettings

MIB: Final = 1 << 20
SIZE_MAX: Final = (1 << 31) - 1
"""Most vCPUs, MiB or GPUs that can be asked for. Two PiB of memory are beyond any machine."""


class SizeTexts(NamedTuple):
    """A size as annotations spell it; empty where there is none."""

    vcpus: str = ""
    memory: str = ""
    gpus: str = ""


NO_SIZE: Final = SizeTexts()


class SizeError(ValueError):
    """A demand that no VM can meet. The text says which and how much."""


# ------------------------------------------------------------------ as upstream


def upstream_size(pod: Pod) -> SizeTexts:
    """What upstream's webhook writes, with its overflows and its canonical text for GPUs."""
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
        # Not even a zero is added where there is none: it would change the number's shape.
        if name in container.resources.requests:
            requested += container.resources.requests[name]
        if name in container.resources.limits:
            limit += container.resources.limits[name]
    return requested, limit


def _upstream_mib(amount: Quantity) -> str:
    if amount.nanos >= INT64_MAX * NANOS_PER_UNIT:
        return "0"  # upstream logs that it overflows, and goes on
    size = amount.value()
    whole = quotient(size, MIB)
    return str(whole + 1 if size - whole * MIB > 0 else whole)


# ------------------------------------------------------------------ what is needed


def effective_size(
    containers: Sequence[Removed], stated_by_pod: ResourceRequirements, settings: PeerPodSettings
) -> MachineSize:
    """The VM that is enough for the pod at any one time. Raises `SizeError`.

    A resource nobody asks for is not asked for either, unless another one is and there is
    a floor for it: the provider's default is for pods that ask for nothing at all.
    """
    cpu = _at_once(CPU, containers, stated_by_pod)
    memory = _at_once(MEMORY, containers, stated_by_pod)
    gpus = sum(_at_once(name, containers, stated_by_pod) for name in settings.gpu_resources)
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


def _at_once(name: str, containers: Sequence[Removed], stated_by_pod: ResourceRequirements) -> int:
    """How many nanos of a resource the VM has to have, exactly.

    A limit that the pod states for itself holds all containers, so it decides. A request
    that the pod states for itself does not hold them, so it counts only if it is more.
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
    stated = _greater(stated_by_pod, name)
    return stated if name in stated_by_pod.limits else max(stated, needed)


def _greater(resources: ResourceRequirements, name: str) -> int:
    request, limit = resources.requests.get(name, ZERO), resources.limits.get(name, ZERO)
    return max(request.nanos, limit.nanos)


def _bounded(count: int, unit: str) -> int:
    if count > SIZE_MAX:
        raise SizeError(f"the pod asks for {count} {unit}; a VM can have at most {SIZE_MAX}")
    return count
