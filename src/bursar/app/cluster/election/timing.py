"""How long a Lease lasts, and when its holder must have given up, under clocks that differ.

Nobody compares two machines' times of day. A candidate measures, on its own clock, how
long it has seen no sign of life; the leader measures, on its own clock, how long ago it
sent the last renewal that was answered. The renewal was sent before anybody could see
it, so the leader's measure starts first, and ends first if no clock runs faster than
the other by more than `CLOCK_RATIO_MAX`.
"""

from dataclasses import dataclass
from typing import Final

CLOCK_RATIO_MAX: Final = 1.1
"""By how much one machine's clock may run faster than another's. Real ones: below 1.001."""
JITTER: Final = 1.2
"""A candidate pauses between 1 and 1 + JITTER retry periods, as client-go's do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    lease_seconds: int = 15
    """How long others wait for a sign of life. Whole, since the Lease says it in seconds."""
    deadline_seconds: float = 10
    """How long after its last renewal a leader's work is cancelled."""
    retry_seconds: float = 2
    """How long between two tries to renew, and at least between two tries to acquire."""

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
        """How long cancelled work may take to end before somebody else can begin."""
        return self.lease_seconds / CLOCK_RATIO_MAX - self.deadline_seconds

    @property
    def request_seconds(self) -> float:
        """How long to wait for one answer: short enough for a second try before the deadline."""
        return self.deadline_seconds / 2


DEFAULT_TIMING: Final = Timing()
