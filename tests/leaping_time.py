"""An event loop whose time passes only when everybody waits, and the clock that shows it.

Hours of backing off cost nothing, and the same program always takes the same course.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

R = TypeVar("R")

START = datetime(2026, 1, 1, tzinfo=UTC)


class DeadlockError(AssertionError):
    """Every task waits for another, and no timer is set."""


class LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._elapsed = 0.0
        super().__init__(_Leaping(self))

    def time(self) -> float:
        return self._elapsed

    def leap(self, seconds: float) -> None:
        self._elapsed += seconds


class _Leaping(selectors.SelectSelector):
    def __init__(self, loop: LeapingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise DeadlockError
        if timeout > 0:
            self._loop.leap(timeout)
        return []


class LeapingClock:
    """The `Clock` of a leaping loop; outside of one, time stands still."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_leaping(story: Coroutine[Any, Any, R]) -> R:
    """Run to the end in leaping time; tasks that outlive the story are a failure."""
    loop = LeapingLoop()
    try:
        outcome = loop.run_until_complete(story)
        left = asyncio.all_tasks(loop)
        assert not left, left
        return outcome
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
