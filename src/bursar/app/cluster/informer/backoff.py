"""How long to wait before asking a cluster again that has just failed us.

Full jitter: anything between nothing and a ceiling that doubles with each failure.
A thousand clients that lost the same API server then do not return to it together.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final

_DOUBLINGS_MAX: Final = 30
"""More would only make the number longer; the ceiling has been reached long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffRules:
    """The defaults are those of client-go, so that we are no worse a guest than a Go controller."""

    first_s: float = 0.8
    """Ceiling after the first failure."""
    max_s: float = 30.0
    """Ceiling after many, and the longest wait a server may ask for."""
    healthy_s: float = 120.0
    """After so long without a failure, the next one counts as the first."""


@dataclass(slots=True)
class Backoff:
    rules: BackoffRules
    random: Random
    _failures: int = field(default=0, init=False)
    _waited_until: float = field(default=float("-inf"), init=False)

    def delay_s(self, now: float, retry_after: float | None = None) -> float:
        """Seconds to wait after a failure at `now`.

        What the server asks for in `retry_after` comes first, and the jitter on top of
        it, since everybody else was asked the same.
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
