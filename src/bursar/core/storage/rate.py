"""How fast an amount grows, from a bounded history of samples, in integers."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

SAMPLES_MAX: Final = 32
WINDOW_MS: Final = 120_000
"""Samples older than this do not count: the rate is the present one."""
SPAN_MS_LEAST: Final = 1_000
"""Two samples that are closer together say nothing about a rate."""


@dataclass(slots=True)
class Growth:
    """The recent samples of one amount of bytes."""

    _samples: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))

    def add(self, at_ms: int, used: int) -> None:
        """Add a sample. Samples come in the order of time."""
        self._samples.append((at_ms, used))
        while self._samples[0][0] < at_ms - WINDOW_MS:
            self._samples.popleft()

    @property
    def bytes_per_second(self) -> int | None:
        """The rate over the window; negative if the amount shrinks, None if it is not known yet."""
        if not self._samples:
            return None
        (first_ms, first), (last_ms, last) = self._samples[0], self._samples[-1]
        span_ms = last_ms - first_ms
        return None if span_ms < SPAN_MS_LEAST else (last - first) * 1000 // span_ms


def seconds_until(bytes_left: int, bytes_per_second: int | None) -> int | None:
    """After how many seconds more than `bytes_left` is added; None if never, or not known.

    >>> seconds_until(100, 10), seconds_until(-1, None), seconds_until(100, 0)
    (11, 0, None)
    """
    if bytes_left < 0:
        return 0
    if bytes_per_second is None or bytes_per_second <= 0:
        return None
    return -(-(bytes_left + 1) // bytes_per_second)
