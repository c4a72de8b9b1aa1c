"""Rate limits for writing events, per object and in total.

The limits per object are client-go's: a burst, then one event every five minutes. Each event type
is counted separately, so that many Normal events do not suppress a Warning.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

OBJECTS_MAX: Final = 1024
"""Objects with a remembered limit. An object that is evicted has its full burst again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    object_burst: int = 25
    """Burst of new events about one object, per event type."""
    object_refill_seconds: float = 300
    """Interval of new events about one object after the burst."""
    burst: int = 100
    """Burst of writes in total."""
    writes_per_second: float = 10
    """Rate of writes after the burst. Further events wait in the queue."""
    queue_max: int = 1000
    """Length of the queue. Further events are dropped."""


class TokenBucket:
    """A token bucket that starts full and gains a token every `refill_seconds`."""

    __slots__ = ("_burst", "_counted_at", "_refill_seconds", "_tokens")

    def __init__(self, burst: int, refill_seconds: float, now: float) -> None:
        self._burst, self._refill_seconds = burst, refill_seconds
        self._tokens, self._counted_at = float(burst), now

    def take(self, now: float) -> bool:
        """Take a token; false if there is none."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def seconds_until_next(self, now: float) -> float:
        """Seconds until `take` succeeds."""
        self._refill(now)
        return max(0.0, 1 - self._tokens) * self._refill_seconds

    def _refill(self, now: float) -> None:
        grown = self._tokens + (now - self._counted_at) / self._refill_seconds
        self._tokens, self._counted_at = min(float(self._burst), grown), now


class ObjectBuckets:
    """A bucket for each object and event type. The least recently used ones are evicted.

    Of each bucket only the time is kept at which it is full again: thousands are remembered.
    """

    def __init__(self, budget: Budget) -> None:
        self._refill_seconds = budget.object_refill_seconds
        self._seconds_max = (budget.object_burst - 1) * budget.object_refill_seconds
        """A bucket that is full again after more than this time has no token left."""
        self._full_at: dict[int, float] = {}
        """When each bucket is full again: by the hash of the bucket's key, in order of use."""

    def take(self, key: Hashable, now: float) -> bool:
        """Take a token of a bucket; false if there is none."""
        bucket = hash(key)
        full_at = max(self._full_at.pop(bucket, now), now)
        has_token = full_at - now <= self._seconds_max
        self._full_at[bucket] = full_at + self._refill_seconds if has_token else full_at
        if len(self._full_at) > OBJECTS_MAX or self._full_at[next(iter(self._full_at))] <= now:
            drop_oldest(self._full_at)
        return has_token


def drop_oldest(memory: dict[K, V]) -> None:
    """Remove the first entry of a table whose entries are in order of use."""
    del memory[next(iter(memory))]
