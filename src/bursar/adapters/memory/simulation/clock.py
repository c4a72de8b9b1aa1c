"""A virtual clock. Time passes only when a test advances it, or when all tasks wait.

A simulated day takes as long as its computation. Runs are reproducible: tasks wake in the order of
their deadlines, and all work that follows a wake-up is done before the next one.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from bursar.app.cluster.time_limit import end

START: Final = datetime(2026, 1, 1, tzinfo=UTC)

TURNS_MAX: Final = 10_000_000
"""Iterations of the event loop after which work counts as endless."""


class EndlessWorkError(Exception):
    """Some task is always ready to run, so time cannot pass."""


class VirtualClock:
    """`Clock` for the event loop that uses it first. Real I/O is not awaited."""

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
        # A sleep shorter than a microsecond takes one. Otherwise a loop that sleeps for a tiny
        # remainder would never end.
        duration = max(timedelta(seconds=seconds), timedelta.resolution * (seconds > 0))
        deadline = self._elapsed + max(duration, timedelta())
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (deadline, self._count, waker))
        self._bedtime.set()
        # A cancelled sleep leaves a done future, which is skipped at its deadline.
        await waker

    async def advance(self, seconds: float) -> None:
        """Advance the time, and run all tasks that become due."""
        end = self._elapsed + timedelta(seconds=seconds)
        await self.settle()
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self._wake(deadline)
            await self.settle()
        self._elapsed = max(self._elapsed, end)

    async def settle(self) -> None:
        """Run all tasks until each of them waits. Time does not pass."""
        # The event loop's queue of ready callbacks has no public name. If it is empty, nothing
        # happens before time passes.
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
        """Inside this context, time jumps to the next deadline as soon as all tasks wait."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            await end(task)

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
        """Wake all sleeps with this deadline, in the order in which they started."""
        self._elapsed = max(self._elapsed, deadline)
        while self._sleepers and self._sleepers[0][0] <= deadline:
            waker = heapq.heappop(self._sleepers)[2]
            if not waker.done():
                waker.set_result(None)
