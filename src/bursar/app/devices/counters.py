"""Counters of the proxy, exposed as metrics."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bursar.app.devices.ports import Method, Version
from bursar.core.devices.allocation import ProblemKind

USUAL_CLIENT_BYTES: Final = 4 * 2**20
"""The default maximum message size of gRPC clients; older DCGM exporters use it."""


@dataclass(slots=True)
class CallCounts:
    """Counters of the calls that clients made."""

    ended: Counter[tuple[Version, Method, int]] = field(default_factory=Counter)
    """Completed calls by version, method and gRPC code."""
    nanos: Counter[tuple[Version, Method]] = field(default_factory=Counter)
    """Total duration of completed calls."""
    under_way: int = 0
    reply_bytes_max: int = 0
    long_replies: int = 0
    """Responses larger than `USUAL_CLIENT_BYTES`."""

    def end(self, version: Version, method: Method, code: int, *, nanos: int, size: int) -> None:
        self.ended[version, method, code] += 1
        self.nanos[version, method] += nanos
        self.reply_bytes_max = max(self.reply_bytes_max, size)
        self.long_replies += size > USUAL_CLIENT_BYTES


@dataclass(slots=True)
class ProxyCounts:
    """Counters of how responses were made."""

    bare: int = 0
    """Responses without added devices, because the pods were not known."""
    aged: int = 0
    """Responses made from stale pods, because a fresh read failed or took too long."""
    refused: int = 0
    """Calls refused because the pods were not known (`fails_closed`)."""
    unreadable: int = 0
    """Responses of kubelet that could not be decoded; they are passed on unchanged."""
    trimmed: int = 0
    """Responses that were too long, and were sent without the pods that have no devices."""
    filled: int = 0
    """Devices added to all responses. A response that clients share counts once."""
    problems: Counter[ProblemKind] = field(default_factory=Counter)
    """Problems reported so far."""
    standing: Counter[ProblemKind] = field(default_factory=Counter)
    """Problems that exist now."""
