"""A metric of the list, and a section of it.

The families that a process prints take their type and help from the list, and the page
`docs/reference/metrics.md` is generated from it, so neither can differ from the other.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """Type of a metric family, in Prometheus's words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Process(Enum):
    """A process of Bursar that serves `/metrics`."""

    CONTROLLER = "controller"
    WEBHOOK = "webhook"
    AGENT = "agent"
    OPERATOR = "operator"
    EXTENDER = "extender"


CONTROLLER: Final = (Process.CONTROLLER,)
WEBHOOK: Final = (Process.WEBHOOK,)
AGENT: Final = (Process.AGENT,)
OPERATOR: Final = (Process.OPERATOR,)
EXTENDER: Final = (Process.EXTENDER,)
TRACED: Final = (Process.CONTROLLER, Process.WEBHOOK, Process.OPERATOR)
"""Processes that can trace what they do."""
SERVERS: Final = (Process.CONTROLLER, Process.WEBHOOK, Process.OPERATOR, Process.EXTENDER)
LEADERS: Final = (Process.CONTROLLER, Process.OPERATOR, Process.EXTENDER)
EVERY: Final = tuple(Process)

FLAG: Final = "0 or 1"
COUNT: Final = "count"
SECONDS: Final = "seconds"
BYTES: Final = "bytes"
BY_LABEL: Final = "by label `unit`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric family of the list: name, type, labels, unit, help and processes."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    """Labels that every sample has. A histogram has the label `le` in addition."""
    unit: str
    help: str
    processes: tuple[Process, ...]

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind is not Kind.HISTOGRAM:
            return (self.name,)
        return tuple(self.name + suffix for suffix in ("_bucket", "_sum", "_count"))


@dataclass(frozen=True, slots=True)
class Section:
    """Metrics that are listed in one table."""

    name: str
    metrics: tuple[Metric, ...]


def metric(
    name: str,
    help: str,
    *labels: str,
    unit: str = "",
    kind: Kind | None = None,
    processes: tuple[Process, ...] = CONTROLLER,
) -> Metric:
    """A metric whose type and unit follow from its name, unless they are given.

    As Prometheus recommends, the names of counters, and only theirs, end in `_total`, and the
    unit comes before that.
    """
    is_counter = name.endswith("_total")
    return Metric(
        name=name,
        kind=kind or (Kind.COUNTER if is_counter else Kind.GAUGE),
        labels=labels,
        unit=unit or _unit(name.removesuffix("_total"), labels),
        help=help,
        processes=processes,
    )


def _unit(name: str, labels: tuple[str, ...]) -> str:
    if name.endswith("_seconds"):
        return SECONDS
    if name.endswith("_bytes"):
        return BYTES
    return BY_LABEL if "unit" in labels else COUNT
