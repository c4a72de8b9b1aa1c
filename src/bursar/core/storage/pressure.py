"""Eviction under disk pressure: the kubelet's thresholds, and the order in which it evicts pods."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Final

from bursar.core.model.numbers.binary_float import binary32, binary64, truncated_int64
from bursar.core.model.quantity import ZERO, Format, Quantity, QuantityError
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.usage import PodUse

_PERCENT: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,9})?")


class Signal(Enum):
    """The kubelet's signals of disk space."""

    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"

    @property
    def is_inodes(self) -> bool:
        return self in {Signal.NODEFS_INODES, Signal.IMAGEFS_INODES}

    @property
    def is_image_filesystem(self) -> bool:
        return self in {Signal.IMAGEFS, Signal.IMAGEFS_INODES}


class ThresholdError(ValueError):
    """A text that is not a threshold. The error says what is expected."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The kubelet evicts pods while less than this is available."""

    signal: Signal
    amount: Quantity | Fraction
    """An amount, or the share of the capacity, as the kubelet's float32 has it."""

    def least(self, capacity: int) -> Quantity:
        """The amount that has to be available."""
        if isinstance(self.amount, Quantity):
            return self.amount
        share = truncated_int64(binary64(binary64(capacity) * self.amount))
        return Quantity.of(share, Format.BINARY_SI)


def parse_thresholds(text: str) -> tuple[Threshold, ...]:
    """Read the text of the kubelet's option `--eviction-hard`. Raises `ThresholdError`.

    Signals that are not about disks, such as `memory.available`, are left out.

    >>> len(parse_thresholds("memory.available<1Gi,nodefs.available<10%"))
    1
    """
    found = [_parse_one(part) for part in text.split(",") if part.strip()]
    return tuple(each for each in found if each is not None)


def _parse_one(text: str) -> Threshold | None:
    name, sign, value = (part.strip() for part in text.partition("<"))
    if not sign or not name or not value:
        raise ThresholdError(f"{text!r}: SIGNAL<AMOUNT is expected, such as nodefs.available<10%")
    signal = next((each for each in Signal if each.value == name), None)
    if signal is None:
        return None
    if value.endswith("%"):
        return _parse_percent(signal, value)
    try:
        amount = Quantity.parse(value)
    except QuantityError as error:
        raise ThresholdError(f"{name}: {error}") from None
    if amount <= ZERO:
        raise ThresholdError(f"{name}: {value!r}: an amount above zero is expected")
    return Threshold(signal, amount)


def _parse_percent(signal: Signal, value: str) -> Threshold | None:
    digits = value[:-1]
    if not _PERCENT.fullmatch(digits) or Fraction(digits) > 100:
        raise ThresholdError(f"{signal.value}: {value!r}: a percentage up to 100% is expected")
    if value in {"0%", "100%"}:
        # The kubelet ignores these two.
        return None
    return Threshold(signal, binary32(binary32(Fraction(digits)) * Fraction(1, 100)))


# ------------------------------------------------------------------ pressure


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem:
    capacity: int
    available: int
    inodes: int = 0
    """0 for a filesystem without a fixed number, such as btrfs."""
    inodes_free: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalState:
    signal: Signal
    available: int
    threshold: Quantity

    @property
    def is_met(self) -> bool:
        """Whether the kubelet evicts pods for this signal."""
        return self.threshold > Quantity.of(self.available)

    @property
    def left(self) -> int:
        """How much more can be used before the threshold is met; negative if it is met."""
        return self.available - self.threshold.whole_units


def signal_states(
    thresholds: Iterable[Threshold], nodefs: Filesystem, imagefs: Filesystem | None
) -> tuple[SignalState, ...]:
    """The state of each threshold whose filesystem is known."""
    states: list[SignalState] = []
    for each in thresholds:
        filesystem = imagefs if each.signal.is_image_filesystem else nodefs
        if filesystem is None or (each.signal.is_inodes and not filesystem.inodes):
            continue
        capacity, available = filesystem.capacity, filesystem.available
        if each.signal.is_inodes:
            capacity, available = filesystem.inodes, filesystem.inodes_free
        states.append(
            SignalState(signal=each.signal, available=available, threshold=each.least(capacity))
        )
    return tuple(states)


def eviction_order(
    pods: Sequence[tuple[StoragePod, PodUse]], *, has_image_filesystem: bool
) -> list[StoragePod]:
    """The order in which the kubelet evicts pods while the node's filesystem is nearly full.

    Pods that use more than they request go first, then pods of lower priority, then those
    that exceed their request by more. Pods that it never evicts are left out.
    """

    def rank(entry: tuple[StoragePod, PodUse]) -> tuple[bool, int, Quantity]:
        pod, use = entry
        layers = 0 if has_image_filesystem else use.writable
        used = Quantity.of(layers + use.logs + use.volume_bytes)
        return used <= pod.request, pod.priority, pod.request - used

    candidates = [entry for entry in pods if not entry[0].is_critical and not entry[0].is_ended]
    return [pod for pod, _ in sorted(candidates, key=rank)]
