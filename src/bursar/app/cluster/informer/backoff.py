"""Back-off after a failed list or watch.

The delay has full jitter: it is random between zero and a ceiling that doubles with each failure.
Many clients of one API server then do not reconnect at the same time.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final

_DOUBLINGS_MAX: Final = 30
"""Limit of the exponent. The ceiling is reached long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffRules:
    """The defaults are client-go's."""

    first_s: float = 0.8
    """Ceiling of the delay after the first failure."""
    max_s: float = 30.0
    """Highest ceiling, and the longest `retry_after` that is honoured."""
    healthy_s: float = 120.0
    """After this time without a failure, the next failure counts as the first."""


@dataclass(slots=True)
class Backoff:
    rules: BackoffRules
    random: Random
    _failures: int = field(default=0, init=False)
    _waited_until: float = field(default=float("-inf"), init=False)

    def delay_s(self, now: float, retry_after: float | None = None) -> float:
        """Seconds to wait after a failure at `now`.

        The jitter is added to the server's `retry_after`, because other clients got the same
        value.
        """
        if now - self._waited_until >= self.rules.healthy_s:
            self._failures = 0
        doublings = min(self._failures, _DOUBLINGS_MAX)
        ceiling = min(self.rules.first_s * 2**doublings, self.rules.max_s)
        asked = min(max(retry_after or 0.0, 0.0), self.rules.max_s)
        delay = asked + self.random.uniform(0.0, ceiling)
        self._failures += 1
        self._waited_until = now + delay
        return delay
