"""The port of traces: what a process did, from when to when.

A trace is off unless the user asks for it. Where it is off, no tracer exists: each place that
records a span is told `None`, and does nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias

NAMESPACE: Final = "k8s.namespace.name"
POD: Final = "k8s.pod.name"
OBJECT: Final = "bursar.object"
"""Which object was reconciled: kind, namespace and name."""
NAMES: Final = frozenset({NAMESPACE, POD, OBJECT})
"""Attributes with names that users gave. They are sent only if the user allows it."""

Attributes: TypeAlias = Mapping[str, str | int | bool]
NO_ATTRIBUTES: Final[Attributes] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that was done. Times are in seconds since 1970."""

    name: str
    began_s: float
    ended_s: float
    attributes: Attributes = field(default_factory=lambda: NO_ATTRIBUTES)
    problem: str = ""
    """Why the operation failed; empty if it did not. The text has no names that users gave."""
    parent: str = ""
    """The header `traceparent` of the request that caused it; empty if there is none."""
    steps: tuple["Span", ...] = ()
    """Spans of the parts of the operation."""


class Tracer(Protocol):
    def record(self, span: Span) -> None:
        """Record a span that has ended. Returns at once; a span that cannot be kept is dropped."""


class Drop(Enum):
    """Why a span was not sent; the values are those of a metric's label."""

    QUEUE_FULL = "queue-full"
    UNREACHABLE = "unreachable"
    """The collector gave no answer in time."""
    REFUSED = "refused"
    """The collector answered and rejected the span."""


@dataclass(slots=True)
class TraceCounts:
    """Totals since the start of the process."""

    exported: int = 0
    dropped: Counter[Drop] = field(default_factory=lambda: Counter(dict.fromkeys(Drop, 0)))
