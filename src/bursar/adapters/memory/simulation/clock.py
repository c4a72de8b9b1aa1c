"""Time that passes only when told to, or when everybody waits for it.

A day of a cluster's life takes as long as its work does, and the same things happen at
the same moments each time: whoever sleeps is woken in the order of deadlines, and all
that follows from it is done before the next one wakes.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)

TURNS_MAX: Final = 10_000_000
"""Turns of the event loop after which work that should come to rest is called endless."""


class EndlessWorkError(Exception):
    """Something is always ready to run, so time can never pass."""


class VirtualClock:
    """The Clock port, on whatever event loop uses it first. It knows nothing of real I/O."""

    def __init__(self, start: datetime = START, *, turns_max: int = TURNS_MAX) -> None:
        self._turns_max = turns_max
        self._start = start
        self._elapsed = timedelta()
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []
        self._count = 0
        self._bedtime = asyncio.Event()

    def now(self) -> datetime:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        # What rounds to nothing still takes a moment, or whoever waits for a rest of time too
        # short to be counted would wait for ever without any passing.
        duration = max(timedelta(seconds=seconds), timedelta.resolution * (seconds > 0))
        deadline = self._elapsed + max(duration, timedelta())
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (deadline, self._count, waker))
        self._bedtime.set()
        # Whoever is cancelled leaves a done future behind, which is skipped at its deadline.
        await waker

    async def advance(self, seconds: float) -> None:
        """Let that much time pass, with everything that happens in it."""
        end = self._elapsed + timedelta(seconds=seconds)
        await self.settle()
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self._wake(deadline)
            await self.settle()
        self._elapsed = max(self._elapsed, end)

    async def settle(self) -> None:
        """Let everybody run until all of them wait, without letting time pass."""
        # The queue of callbacks that are ready has no public name. Without ours in it, an
        # empty one means that nothing will happen before time passes.
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            raise TypeError("a virtual clock needs asyncio's own event loop")
        for _ in range(self._turns_max):
            await asyncio.sleep(0)
            if not ready:
                return
        raise EndlessWorkError

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Within it, time jumps to the next deadline as soon as everybody waits."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.settle()
            deadline = self._next_deadline()
            if deadline is not None:
                self._wake(deadline)
            else:
                self._bedtime.clear()
                await self._bedtime.wait()

    def _next_deadline(self) -> timedelta | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def _wake(self, deadline: timedelta) -> None:
        """Everybody who sleeps until this moment, in the order in which they lay down."""
        self._elapsed = max(self._elapsed, deadline)
        while self._sleepers and self._sleepers[0][0] <= deadline:
            waker = heapq.heappop(self._sleepers)[2]
            if not waker.done():
                waker.set_result(None)
