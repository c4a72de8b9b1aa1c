"""Machines in virtual time whose clocks are set wrong, run at rates of their own, or stop.

`run` drives a coroutine on a loop whose time passes only when everybody waits, so that
hours of backing off cost nothing and the same program always takes the same course. A
`MachineClock` is the Clock port of one machine in it. A machine can be paused, and then
nothing on it wakes up for a while, though its clock goes on.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import TypeVar

T = TypeVar("T")
EPOCH = datetime(2026, 11, 15, tzinfo=UTC)


class StandstillError(Exception):
    """Everybody waits for somebody: nothing will ever happen again."""


class _NoWaiting(selectors.SelectSelector):
    """Lets the loop's time jump to where the loop would have waited to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StandstillError
        self.now += timeout
        return []


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._waits = _NoWaiting()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.now


def run(main: Coroutine[None, None, T]) -> T:
    """What the coroutine returns, on a loop of its own; a task that outlives it is a failure."""
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        outcome = runner.run(main)
        left = asyncio.all_tasks(runner.get_loop())
        assert not left, left
        return outcome


class MachineClock:
    def __init__(self, *, rate: float = 1, offset: timedelta = timedelta()) -> None:
        self._loop = asyncio.get_running_loop()
        self._rate, self._offset = rate, offset
        self._pauses: list[tuple[float, float]] = []

    def pause(self, start: float, end: float) -> None:
        """The machine does nothing from `start` to `end`, in the loop's time."""
        self._pauses.append((start, end))

    def now(self) -> datetime:
        return EPOCH + self._offset + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)
        await self.wake()

    async def wake(self) -> None:
        """Go on, but not during a pause. Whatever reaches a machine passes here."""
        for start, end in self._pauses:
            if start <= self._loop.time() < end:
                await asyncio.sleep(end - self._loop.time())
