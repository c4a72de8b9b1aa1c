"""Measurement of the agent's calls to kubelet: outcome and duration."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bursar.app.cluster.ports import Clock
from bursar.app.devices.ports import CallError, Kubelet, Method, Version

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)
OK: Final = 0
CANCELLED: Final = 1
"""gRPC's code CANCELLED. It is also counted if a call is abandoned because all callers are gone."""


@dataclass(slots=True)
class UpstreamCounts:
    ended: Counter[tuple[Version, Method, int]] = field(default_factory=Counter)
    """Calls by version, method and gRPC status code."""
    by_duration: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Calls by duration: one bucket for each bound, one for longer calls."""
    seconds: float = 0.0

    def end(self, version: Version, method: Method, code: int, seconds: float) -> None:
        self.ended[version, method, code] += 1
        self.by_duration[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds


class MeasuredKubelet:
    """A `Kubelet` that measures the calls to another one."""

    def __init__(self, inner: Kubelet, clock: Clock) -> None:
        self._inner, self._clock = inner, clock
        self.counts = UpstreamCounts()

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        began, code = self._clock.monotonic(), CANCELLED
        try:
            answer = await self._inner.call(version, method, request, within_s)
        except CallError as error:
            code = error.code
            raise
        else:
            code = OK
            return answer
        finally:
            self.counts.end(version, method, code, self._clock.monotonic() - began)
