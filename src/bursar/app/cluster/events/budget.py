"""How many events may be written: per object, so that none drowns the others, and altogether.

The defaults per object are client-go's: a burst, then one every five minutes, counted
apart for each type, so that a flood of Normal events does not silence a Warning.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

OBJECTS_MAX: Final = 4096
"""How many objects are remembered. One that is forgotten starts with a full burst again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    object_burst: int = 25
    """New events about one object, of one type, before they become rare."""
    object_refill_seconds: float = 300
    """Then one new event every so often."""
    burst: int = 100
    """Writes of any kind at once."""
    writes_per_second: float = 10
    """Then so many a second; what is over waits in the queue."""
    queue_max: int = 1000
    """Events that wait to be written; what is over is dropped."""


class TokenBucket:
    """Full at first; a token comes back every `refill_seconds`."""

    def __init__(self, burst: int, refill_seconds: float, now: float) -> None:
        self._burst, self._refill_seconds = burst, refill_seconds
        self._tokens, self._counted_at = float(burst), now

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def seconds_until_next(self, now: float) -> float:
        """How long until `take` will succeed; 0 if it would now."""
        self._refill(now)
        return max(0.0, 1 - self._tokens) * self._refill_seconds

    def _refill(self, now: float) -> None:
        grown = self._tokens + (now - self._counted_at) / self._refill_seconds
        self._tokens, self._counted_at = min(float(self._burst), grown), now


class ObjectBuckets:
    """One bucket for each object and type, the ones used last."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            budget = self._budget
            bucket = TokenBucket(budget.object_burst, budget.object_refill_seconds, now)
        self._buckets[key] = bucket
        if len(self._buckets) > OBJECTS_MAX:
            self._buckets.popitem(last=False)
        return bucket.take(now)
