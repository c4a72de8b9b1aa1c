"""Failure reports at a bounded rate: the first of each class at once, then one per interval."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

REPORT_SECONDS: Final = 60.0


def report_nothing(_: str) -> None:
    """Ignore a line. The default where the caller passes no `report`."""


@dataclass(slots=True)
class _Class:
    reported_at: float
    unreported: int = 0


@dataclass(slots=True)
class FailureReporter:
    """Calls `write` with one line per class of failure and interval."""

    write: Callable[[str], None] = report_nothing
    interval_s: float = REPORT_SECONDS
    _classes: dict[str, _Class] = field(default_factory=dict, init=False)

    def report(self, now: float, failure_class: str, text: str) -> None:
        """Report a failure at `now`, in seconds of a monotonic clock.

        Failures of the same class within the interval are only counted. The next line of
        that class says how many they were.
        """
        known = self._classes.get(failure_class)
        if known is None:
            self._classes[failure_class] = _Class(now)
            self.write(f"{failure_class}: {text}")
        elif now - known.reported_at < self.interval_s:
            known.unreported += 1
        else:
            more = f" ({known.unreported} more since the last report)" if known.unreported else ""
            known.reported_at, known.unreported = now, 0
            self.write(f"{failure_class}: {text}{more}")
