"""Allocatable: what a node has left for pods once the system has its share.

The kubelet subtracts from what the machine has what is reserved for the system and
for itself, and the hard eviction thresholds, below which it would start to evict.
Hugepages are carved out of memory, so they are subtracted from it too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from bursar.core.model.binary_float import binary32, binary64, truncated_int64
from bursar.core.model.names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    PODS,
    is_extended,
    is_hugepages,
)
from bursar.core.model.quantity import (
    MILLI,
    NANO,
    TEXT_LENGTH_MAX,
    ZERO,
    Format,
    Quantity,
    QuantityError,
)
from bursar.core.model.resources import NOTHING, ResourceList

PID: Final = "pid"
RESERVABLE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PID)
MAX_PODS: Final = 110

MEMORY_AVAILABLE: Final = "memory.available"
NODEFS_AVAILABLE: Final = "nodefs.available"
EVICTION_SIGNALS: Final = frozenset(
    {
        MEMORY_AVAILABLE,
        NODEFS_AVAILABLE,
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "containerfs.available",
        "containerfs.inodesFree",
        "allocatableMemory.available",
        "pid.available",
    }
)
DEFAULT_EVICTION_HARD: Final[Mapping[str, str]] = MappingProxyType(
    {
        MEMORY_AVAILABLE: "100Mi",
        NODEFS_AVAILABLE: "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
    }
)
"""On Linux."""

_RESERVING_SIGNALS: Final = {MEMORY_AVAILABLE: MEMORY, NODEFS_AVAILABLE: EPHEMERAL_STORAGE}


class KubeletConfigError(ValueError):
    """A setting with which the kubelet does not start. The message is the kubelet's own."""


# ------------------------------------------------------------------ what the machine has


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    cores: int
    memory_bytes: int
    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Number of pages by page size in bytes."""
    ephemeral_bytes: int | None = None
    """Size of the filesystem the kubelet keeps its files on; None if that is not measured."""
    max_pods: int = MAX_PODS
    pods_per_core: int = 0


def machine_capacity(machine: Machine) -> dict[str, Quantity]:
    """`status.capacity` as the kubelet reports it, before device plugins add theirs."""
    pods = machine.max_pods
    if machine.pods_per_core > 0:
        pods = min(machine.cores * machine.pods_per_core, pods)
    capacity = {
        CPU: Quantity.of(machine.cores * 1000, scale=MILLI),
        MEMORY: Quantity.of(machine.memory_bytes, Format.BINARY_SI),
        PODS: Quantity.of(pods),
    }
    for size, count in machine.hugepages.items():
        name = f"{HUGEPAGES_PREFIX}{Quantity.of(size, Format.BINARY_SI)}"
        capacity[name] = Quantity.of(size * count, Format.BINARY_SI)
    if machine.ephemeral_bytes is not None:
        capacity[EPHEMERAL_STORAGE] = Quantity.of(machine.ephemeral_bytes, Format.BINARY_SI)
    return capacity


# ------------------------------------------------------------------ what is kept back


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """How much of a resource must stay free: an amount, or a part of the capacity."""

    quantity: Quantity | None = None
    part: Fraction = Fraction(0)
    """Exactly the float32 the kubelet holds; counts only without a quantity."""

    def amount(self, capacity: Quantity) -> Quantity:
        """The threshold as an amount. 10% of 100Gi is 10737418400, an artefact of float32."""
        if self.quantity is not None:
            return self.quantity
        free = truncated_int64(binary64(binary64(capacity.value()) * self.part))
        return Quantity.of(free, Format.BINARY_SI)


NO_THRESHOLDS: Final[Mapping[str, Threshold]] = MappingProxyType({})


def parse_reservation(texts: Mapping[str, str]) -> dict[str, Quantity]:
    """Read `kubeReserved` or `systemReserved`; raise `KubeletConfigError` as the kubelet does."""
    reserved: dict[str, Quantity] = {}
    for name, text in texts.items():
        if name not in RESERVABLE:
            raise KubeletConfigError(f'cannot reserve "{name}" resource')
        try:
            amount = Quantity.parse(text)
        except QuantityError as error:
            raise KubeletConfigError(
                f'failed to parse quantity "{text}" for "{name}" resource: {error}'
            ) from None
        if amount.is_negative:
            raise KubeletConfigError(f'resource quantity for "{name}" cannot be negative: {text}')
        reserved[name] = amount
    return reserved


def eviction_settings(
    explicit: Mapping[str, str] | None, *, merge_defaults: bool = False
) -> Mapping[str, str]:
    """`evictionHard` as it takes effect: naming one signal drops the defaults of all others.

    Unless `mergeDefaultEvictionSettings` is set. None means that the file says nothing.
    """
    if explicit is None:
        return DEFAULT_EVICTION_HARD
    return {**DEFAULT_EVICTION_HARD, **explicit} if merge_defaults else explicit


def parse_thresholds(texts: Mapping[str, str]) -> dict[str, Threshold]:
    """Read `evictionHard`; raise `KubeletConfigError` as the kubelet does.

    `0%` and `100%`, written just so, switch a signal off.
    """
    thresholds = {}
    for signal, text in texts.items():
        if signal not in EVICTION_SIGNALS:
            raise KubeletConfigError(f"unsupported eviction signal {signal}")
        if text not in {"0%", "100%"}:
            thresholds[signal] = _parse_threshold(signal, text)
    return thresholds


def _parse_threshold(signal: str, text: str) -> Threshold:
    if text.endswith("%"):
        part = _parse_percentage(text)
        if part < 0:
            raise KubeletConfigError(
                f"eviction percentage threshold {signal} must be >= 0%: {text}"
            )
        if part > 1:
            raise KubeletConfigError(
                f"eviction percentage threshold {signal} must be <= 100%: {text}"
            )
        return Threshold(part=part)
    try:
        quantity = Quantity.parse(text)
    except QuantityError as error:
        raise KubeletConfigError(str(error)) from None
    if quantity.nanos <= 0:
        raise KubeletConfigError(f"eviction threshold {signal} must be positive: {quantity}")
    return Threshold(quantity=quantity)


_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII
)
_EXPONENT_MAX: Final = 10_000


def _parse_percentage(text: str) -> Fraction:
    """The percentage as a part of one, in float32.

    Go would also read hexadecimal digits, underscores, `inf` and `nan`. Nobody writes a
    percentage so, and the last is a threshold that nothing can be compared with.
    """
    number = text.rstrip("%")
    match = _DECIMAL.fullmatch(number)
    if match is None or len(number) > TEXT_LENGTH_MAX:
        raise KubeletConfigError(f'strconv.ParseFloat: parsing "{number}": invalid syntax')
    exponent = match.group(1) or "0"
    bounded = max(-_EXPONENT_MAX, min(int(exponent), _EXPONENT_MAX))
    mantissa = number.lower().partition("e")[0]
    try:
        percentage = binary32(Fraction(f"{mantissa}e{bounded}"))
    except OverflowError:
        raise KubeletConfigError(
            f'strconv.ParseFloat: parsing "{number}": value out of range'
        ) from None
    return binary32(Fraction(percentage, 100))


# ------------------------------------------------------------------ what is left


def reservation(
    capacity: ResourceList,
    *,
    kube_reserved: ResourceList = NOTHING,
    system_reserved: ResourceList = NOTHING,
    eviction_hard: Mapping[str, Threshold] = NO_THRESHOLDS,
) -> dict[str, Quantity]:
    """What of the capacity is kept from pods, as far as anything is."""
    evicted = {
        name: eviction_hard[signal].amount(capacity.get(name, ZERO))
        for signal, name in _RESERVING_SIGNALS.items()
        if signal in eviction_hard
    }
    totals = {
        name: ZERO
        + system_reserved.get(name, ZERO)
        + kube_reserved.get(name, ZERO)
        + evicted.get(name, ZERO)
        for name in capacity
    }
    return {name: total for name, total in totals.items() if not total.is_zero}


def allocatable(
    capacity: ResourceList,
    *,
    kube_reserved: ResourceList = NOTHING,
    system_reserved: ResourceList = NOTHING,
    eviction_hard: Mapping[str, Threshold] = NO_THRESHOLDS,
    devices: ResourceList = NOTHING,
    before: ResourceList = NOTHING,
) -> dict[str, Quantity]:
    """`status.allocatable` as the kubelet reports it.

    `devices` is what healthy devices the plugins report. What was reported `before`
    stays, even once its capacity is gone, unless it is an extended resource.
    """
    reserved = reservation(
        capacity,
        kube_reserved=kube_reserved,
        system_reserved=system_reserved,
        eviction_hard=eviction_hard,
    )
    left = {name: amount for name, amount in before.items() if not is_extended(name)}
    for name, amount in capacity.items():
        left[name] = _at_least_zero(amount - reserved[name] if name in reserved else amount)
    left.update(devices)
    for name, amount in capacity.items():
        if is_hugepages(name):
            left[MEMORY] = _at_least_zero(left.get(MEMORY, ZERO) - amount)
    return left


def kubepods_limits(
    capacity: ResourceList,
    *,
    kube_reserved: ResourceList = NOTHING,
    system_reserved: ResourceList = NOTHING,
) -> dict[str, Quantity]:
    """The bounds of the cgroup that holds all pods, enforced by the kubelet by default.

    Eviction thresholds are not subtracted, so pods together can use the room between
    allocatable and this, and are evicted for it.
    """
    limits = dict(capacity)
    for reserved in (system_reserved, kube_reserved):
        if reserved:
            limits = {name: limits[name] - reserved.get(name, ZERO) for name in limits}
    return {name: _at_least_zero(amount) for name, amount in limits.items()}


def startup_error(capacity: ResourceList, reserved: ResourceList) -> str | None:
    """Why the kubelet refuses to start: more is reserved than there is. None if all is well."""
    problems = [
        f'Resource "{name}" has a reservation of {_go_struct(amount)}'
        f" but capacity of {_go_struct(capacity[name])}. Expected capacity >= reservation."
        for name, amount in sorted(reserved.items())
        if amount > capacity[name]
    ]
    if not problems:
        return None
    return f"invalid Node Allocatable configuration. {' '.join(problems)}"


def _at_least_zero(amount: Quantity) -> Quantity:
    return Quantity(0, amount.format) if amount.is_negative else amount


def _go_struct(amount: Quantity) -> str:
    """A quantity as Go prints the bare struct, which is what the kubelet does here by mistake."""
    if amount.big:
        return f"{{{amount}}}"
    shift = amount.scale - NANO
    stored = amount.nanos // 10**shift
    text = amount.verbatim or ""
    return f"{{{{{stored} {amount.scale}}} {{<nil>}} {text} {amount.format.value}}}"
