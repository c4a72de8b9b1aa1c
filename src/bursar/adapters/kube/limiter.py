"""The number of requests in flight, adapted to what the API server accepts.

The limit grows by one after a run of successes and halves when the server throttles, as in TCP.
A request that started before a halving does not halve the limit again: its failure is about the
old limit. Waiting requests are served in the order in which they came.
"""

import asyncio
import contextlib
from collections import deque
from typing import Self


class Slot:
    """The permission for one request in flight. Leaving the context manager returns it."""

    def __init__(self, limiter: "Limiter", halvings: int) -> None:
        self._limiter = limiter
        self._halvings = halvings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._limiter._release()  # noqa: SLF001 - a slot is the limiter's other half

    def succeeded(self) -> None:
        self._limiter._grow()  # noqa: SLF001 - a slot is the limiter's other half

    def throttled(self) -> None:
        self._limiter._shrink(self._halvings)  # noqa: SLF001 - a slot is the limiter's other half


class Limiter:
    """A bounded, adaptive and fair limit. The public attributes are for metrics."""

    def __init__(self, *, floor: int, ceiling: int, growth_after: int) -> None:
        assert 1 <= floor <= ceiling
        self._floor, self._ceiling, self._growth_after = floor, ceiling, growth_after
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._successes = 0
        self._halvings = 0
        self.limit = ceiling
        self.in_flight = 0
        self.throttled_total = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def acquire(self, *, seconds_max: float) -> Slot:
        """Return a slot, to be used as a context manager. Raises `TimeoutError`."""
        if self._waiting or self.in_flight >= self.limit:
            await self._wait(seconds_max)
        else:
            self.in_flight += 1
        return Slot(self, self._halvings)

    async def _wait(self, seconds_max: float) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(granted)
        try:
            async with asyncio.timeout(seconds_max):
                await granted
        except (TimeoutError, asyncio.CancelledError):
            if granted.done() and not granted.cancelled():
                self._release()  # The slot was granted in the same loop iteration.
            else:
                granted.cancel()
                with contextlib.suppress(ValueError):
                    self._waiting.remove(granted)
            raise

    def _release(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            granted = self._waiting.popleft()
            if not granted.done():
                self.in_flight += 1
                granted.set_result(None)

    def _grow(self) -> None:
        self._successes += 1
        if self._successes >= self._growth_after:
            self._successes = 0
            self.limit = min(self.limit + 1, self._ceiling)
            self._admit()

    def _shrink(self, halvings_at_start: int) -> None:
        self.throttled_total += 1
        self._successes = 0
        if halvings_at_start == self._halvings:
            self._halvings += 1
            self.limit = max(self.limit // 2, self._floor)
