"""Virtual time: an event loop whose clock jumps to the next timer instead of waiting.

`run` drives a coroutine on such a loop, so that hours of back-off cost nothing and a program
always takes the same course. `in_virtual_time` decorates tests that are coroutines. A
`MachineClock` is the Clock port of one machine: its rate and its time of day may be wrong, and
`pause` stops everything on that machine for a while, though its clock goes on.
"""

import asyncio
import contextlib
import functools
import inspect
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

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


def spend(seconds: float) -> None:
    """Work for so long: time passes, and no other task runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _JumpingLoop)
    loop._waits.now += seconds


def in_virtual_time(
    test: Callable[..., Awaitable[None]] | None = None,
    *,
    on: Callable[[], object] | None = None,
) -> Any:
    """Make a test of a coroutine; parameters and fixtures reach it as usual.

    With `on`, the first argument of the test is what `on()` returns, or gives as an async
    context manager:

        @in_virtual_time(on=a_cluster)
        async def test_pods_are_listed(cluster): ...
    """
    if test is None:
        return functools.partial(in_virtual_time, on=on)
    signature = inspect.signature(test)

    async def main(named: dict[str, object]) -> None:
        if on is None:
            await test(**named)
            return
        scene = on()
        if not isinstance(scene, AbstractAsyncContextManager):
            scene = contextlib.nullcontext(scene)
        async with scene as entered:
            await test(entered, **named)

    def wrapper(**named: object) -> None:
        run(main(named))

    wrapper.__name__, wrapper.__doc__ = test.__name__, test.__doc__
    left = [*signature.parameters.values()][0 if on is None else 1 :]
    wrapper.__signature__ = signature.replace(parameters=left)
    return wrapper


class MachineClock:
    def __init__(self, *, rate: float = 1, offset: timedelta = timedelta()) -> None:
        self._loop = asyncio.get_running_loop()
        self._rate, self.offset = rate, offset
        self._pauses: list[tuple[float, float]] = []

    def pause(self, start: float, end: float) -> None:
        """The machine does nothing from `start` to `end`, in the loop's time."""
        self._pauses.append((start, end))

    def now(self) -> datetime:
        return EPOCH + self.offset + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    async def sleep(self, seconds: float) -> None:
        due = self._loop.time() + seconds / self._rate
        await asyncio.sleep(seconds / self._rate)
        if isinstance(self._loop, _JumpingLoop):
            # asyncio ends a sleep up to a nanosecond early, and no time would pass meanwhile.
            self._loop._waits.now = max(self._loop._waits.now, due)
        await self.wake()

    async def wake(self) -> None:
        """Go on, but not during a pause. Whatever reaches a machine passes here."""
        for start, end in self._pauses:
            if start <= self._loop.time() < end:
                await asyncio.sleep(end - self._loop.time())
