"""What the proxy counts of itself, for whoever makes metrics of it."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bursar.app.devices.ports import Version
from bursar.core.devices.allocation import ProblemKind

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
    """Devices that kubelet does not name, when all of an answer was last looked at."""
    problems: Counter[ProblemKind] = field(default_factory=Counter)
    """Told so far."""
    standing: Counter[ProblemKind] = field(default_factory=Counter)
    """That there are now."""
