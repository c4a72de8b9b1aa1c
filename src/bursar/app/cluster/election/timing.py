"""Durations of the leader election, safe for clocks of different speed.

The wall clocks of two machines are never compared. A candidate measures how long it saw no renewal.
The leader measures how long ago it sent its last acknowledged renewal. The renewal was sent before
a candidate could see it, so the leader's period starts first. It also ends first, as long as no
clock runs faster than another by more than `CLOCK_RATIO_MAX`.
"""

from dataclasses import dataclass
from typing import Final

CLOCK_RATIO_MAX: Final = 1.1
"""Highest supported ratio of two clocks' speeds. Real clocks stay below 1.001."""
JITTER: Final = 1.2
"""A candidate waits between 1 and 1 + JITTER retry periods, as in client-go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    lease_seconds: int = 15
    """How long candidates wait for a renewal: `leaseDurationSeconds`, a whole number."""
    deadline_seconds: float = 10
    """Time from the last renewal until the leader's work is cancelled."""
    retry_seconds: float = 2
    """Interval between renewals, and minimum interval between attempts to acquire."""

    def __post_init__(self) -> None:
        if self.retry_seconds <= 0:
            raise ValueError("the retry period must be longer than 0 seconds")
        if self.deadline_seconds <= self.retry_seconds * JITTER:
            raise ValueError(f"the renew deadline must be longer than {JITTER} retry periods")
        if self.stop_seconds <= 0:
            raise ValueError(
                f"the lease duration must be longer than {CLOCK_RATIO_MAX} renew deadlines"
            )

    @property
    def stop_seconds(self) -> float:
        """How long cancelled work can take to end before another leader can start."""
        return self.lease_seconds / CLOCK_RATIO_MAX - self.deadline_seconds

    @property
    def request_seconds(self) -> float:
        """Timeout of one request, short enough for a second attempt before the deadline."""
        return self.deadline_seconds / 2


DEFAULT_TIMING: Final = Timing()
