"""What the proxy counts of itself, for whoever makes metrics of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Final

from bursar.app.devices.ports import Version
from bursar.core.devices.allocation import Additions, ProblemKind

USUAL_CLIENT_BYTES: Final = 4 * 2**20
"""What a gRPC client takes at most unless told otherwise; older DCGM exporters are such."""


class Method(Enum):
    LIST = "List"
    GET = "Get"
    ALLOCATABLE = "GetAllocatableResources"


@dataclass(slots=True)
class CallCounts:
    """Calls that ended."""

    ended: Counter[tuple[Version, Method, int]] = field(default_factory=Counter)
    """By version, method and gRPC's number of the outcome."""
    nanos: Counter[tuple[Version, Method]] = field(default_factory=Counter)
    """Spent on them."""
    under_way: int = 0
    reply_bytes_max: int = 0
    long_replies: int = 0
    """Answers beyond what clients usually take."""

    def end(self, version: Version, method: Method, code: int, *, nanos: int, size: int) -> None:
        self.ended[version, method, code] += 1
        self.nanos[version, method] += nanos
        self.reply_bytes_max = max(self.reply_bytes_max, size)
        self.long_replies += size > USUAL_CLIENT_BYTES


@dataclass(slots=True)
class ProxyCounts:
    """How answers came about."""

    bare: int = 0
    """Answers that are kubelet's own because nothing was known of the pods."""
    aged: int = 0
    """Answers made of pods that could not be read again in time."""
    refused: int = 0
    """Calls that failed for the same reason, by choice."""
    unreadable: int = 0
    """Answers of kubelet that are no such message as expected; passed on."""
    trimmed: int = 0
    """Answers without the pods that have no devices, for their length."""
    filled: int = 0
    """Devices in all answers that kubelet did not name. What clients share is one answer."""
    problems: Counter[ProblemKind] = field(default_factory=Counter)
    """Told so far."""
    standing: Counter[ProblemKind] = field(default_factory=Counter)
    """That there are now."""


class DeviceTally:
    """How many devices there are in additions.

    Much the same ones come with every answer, so what was counted is kept for a while.
    """

    KEPT_MAX: Final = 512

    def __init__(self) -> None:
        self._kept: list[Additions] = []
        self._counts: dict[int, int] = {}
        """By identity, which is nobody else's while they are kept."""

    def devices(self, additions: Sequence[Additions]) -> int:
        try:
            return sum(map(self._counts.__getitem__, map(id, additions)))
        except KeyError:
            return sum(self._count(each) for each in additions)

    def _count(self, additions: Additions) -> int:
        known = self._counts.get(id(additions))
        if known is not None:
            return known
        if len(self._kept) >= self.KEPT_MAX:
            self._kept.clear()
            self._counts.clear()
        count = sum(len(line.devices) for line in chain(*additions.entries.values()))
        self._kept.append(additions)
        self._counts[id(additions)] = count
        return count
