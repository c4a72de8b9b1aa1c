"""Kubelet's rate limit: one token bucket for all clients; calls above it are refused at once.

Clients of kubelet know this limit. Without it, a runaway client could use the agent to get around
the limit of kubelet.
"""

from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.ports import Clock
from bursar.app.devices.ports import CallError, Kubelet, Method, Version

RESOURCE_EXHAUSTED: Final = 8
_NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRules:
    """The rate limit. The defaults are kubelet's."""

    per_second: int = 100
    """Calls per second. 0: no limit."""
    burst: int = 10


class CallBucket:
    """A token bucket that starts full. It counts billionths of a token, so nothing is rounded."""

    def __init__(self, rules: RateRules, now_ns: int) -> None:
        self._rules = rules
        self._full = rules.burst * _NANOS
        self._amount = self._full
        self._as_of_ns = now_ns

    def take(self, now_ns: int) -> bool:
        """Take a token if there is one, and return whether there was."""
        if not self._rules.per_second:
            return True
        elapsed = max(now_ns - self._as_of_ns, 0)
        self._amount = min(self._amount + elapsed * self._rules.per_second, self._full)
        self._as_of_ns = now_ns
        if self._amount < _NANOS:
            return False
        self._amount -= _NANOS
        return True


class RateLimited:
    """A `Kubelet` that refuses calls above the rate limit, with kubelet's error."""

    def __init__(self, inner: Kubelet, *, clock: Clock, rules: RateRules) -> None:
        self._inner = inner
        self._clock = clock
        self._bucket = CallBucket(rules, self._now_ns())
        self.refused = 0

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        if not self._bucket.take(self._now_ns()):
            self.refused += 1
            raise CallError(RESOURCE_EXHAUSTED, "rejected by rate limit")
        return await self._inner.call(version, method, request, within_s)

    def _now_ns(self) -> int:
        return round(self._clock.monotonic() * _NANOS)
