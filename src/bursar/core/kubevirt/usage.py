"""What a quota counts for a launcher pod, by the mode that AAQ calls the VMI calculator."""

from typing import Final, NamedTuple

from bursar.core.kubevirt.launchers import Role
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.kubevirt.names import DEDICATED_NAMES
from bursar.core.kubevirt.overhead import memory_overhead
from bursar.core.kubevirt.vmi import Guest, KubeVirtSettings, Vmi
from bursar.core.model.names import CPU, MEMORY, PODS, QUOTA_REQUESTS_PREFIX
from bursar.core.model.quantity import ZERO, Format, Quantity
from bursar.core.model.resources import ResourceList, subtract
from bursar.core.quota.names import LIMITS_PREFIX, POD_COUNT

_ONE: Final = Quantity.of(1)
_REDUCED: Final = (QUOTA_REQUESTS_PREFIX + MEMORY, LIMITS_PREFIX + MEMORY)
"""AAQ does not reduce the plain name `memory`."""


class PodUse(NamedTuple):
    """What Kubernetes counts for a launcher pod."""

    whole: ResourceList
    compute: ResourceList
    """For a pod that had only the container `compute`, without overhead."""


def launcher_usage(
    mode: VmiMode,
    role: Role,
    vmi: Vmi,
    pod: PodUse,
    *,
    source: PodUse,
    settings: KubeVirtSettings | None = None,
) -> ResourceList:
    """What a launcher pod costs: the VM at its source, growth at its target.

    `source` is the use of the pod that the VM runs in, which may be the same pod. AAQ compares
    the target with itself in the modes that count pods, so that a hotplug costs nothing there;
    here it is compared with the source. A leftover costs what it requests more than the source,
    which is nothing unless it was made to look like one. Without `settings`, because there is no
    KubeVirt object, no overhead is subtracted.
    """
    if role is Role.LEFTOVER:
        grown = growth(pod.whole, source.whole)
        return {name: each for name, each in grown.items() if not each.is_zero}
    if mode in (VmiMode.VIRTUAL, VmiMode.DEDICATED):
        running = guest_usage(mode, vmi, is_running=True)
        own = running if role is Role.SOURCE else guest_usage(mode, vmi, is_running=False)
    elif mode is VmiMode.GUEST_EFFECTIVE:
        own, running = (
            without_overhead(each.compute, vmi.guest, settings) for each in (pod, source)
        )
    else:
        own, running = pod.whole, source.whole
    return own if role is Role.SOURCE else growth(own, running)


def guest_usage(mode: VmiMode, vmi: Vmi, *, is_running: bool) -> ResourceList:
    """The cost of the guest itself: what it has now, or what the VM's spec asks for."""
    memory, cpu = _memory(vmi, is_running=is_running), _cpu(vmi, is_running=is_running)
    if mode is VmiMode.DEDICATED:
        guest = dict(zip(DEDICATED_NAMES, (_ONE, memory, cpu), strict=True))
        return guest | {QUOTA_REQUESTS_PREFIX + name: each for name, each in guest.items()}
    guest = {POD_COUNT: _ONE, PODS: _ONE}
    for prefix in ("", QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX):
        guest |= {prefix + MEMORY: memory, prefix + CPU: cpu}
    return guest


def _memory(vmi: Vmi, *, is_running: bool) -> Quantity:
    guest = vmi.guest
    stated = (guest.memory, guest.requests.get(MEMORY), guest.limits.get(MEMORY))
    candidates = (vmi.requested_memory, *stated) if is_running else stated
    return next((each for each in candidates if each is not None), ZERO)


def _cpu(vmi: Vmi, *, is_running: bool) -> Quantity:
    guest = vmi.guest
    topology = guest.cpu
    if is_running and vmi.current_cpu is not None:
        topology = vmi.current_cpu
    if topology is not None:
        return Quantity.of(topology.vcpus, Format.BINARY_SI)
    return guest.requests.get(CPU, guest.limits.get(CPU, ZERO))


def without_overhead(
    compute: ResourceList, guest: Guest, settings: KubeVirtSettings | None
) -> ResourceList:
    """The use of the compute container without KubeVirt's memory overhead, at least zero."""
    if settings is None:
        return compute
    overhead = Quantity.of(memory_overhead(guest, settings))
    reduced = {name: _floor(compute[name] - overhead) for name in _REDUCED if name in compute}
    return {**compute, **reduced}


def growth(target: ResourceList, source: ResourceList) -> ResourceList:
    """What a pod costs on top of the source, by each name of either; at least zero."""
    return {name: _floor(each) for name, each in subtract(target, source).items()}


def _floor(amount: Quantity) -> Quantity:
    return ZERO if amount.is_negative else amount
