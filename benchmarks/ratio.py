"""A measurement: our figure beside a ceiling or a rival taken in the same run."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """`ours` and `theirs` in `unit`; the ratio is what carries over to another machine."""

    what: str
    ours: float
    against: str
    theirs: float
    unit: str
    goal: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Median seconds of each, taken turn and turn about so that noise hits both."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)
