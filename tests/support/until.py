"""Wait for a condition: how tests wait for another task, thread, process or server.

The time limit is generous, since it costs nothing while tests pass, and a busy machine needs it.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

PATIENCE_SECONDS = 120
POLL_SECONDS = 0.05

Condition = Callable[[], object | Awaitable[object]]
Description = str | Callable[[], object]
"""What is waited for. A callable is called only for the message of a failure."""


async def until(
    condition: Condition, what: Description = "", seconds: float = PATIENCE_SECONDS
) -> object:
    """Wait until the condition holds, and return its value, which is true in the sense of `if`.

    The condition is a function or a coroutine function. A function that blocks, such as a call
    of kubectl, holds up the other tasks of the event loop; give `asyncio.to_thread` where that
    matters. On a loop with virtual time, the limit is virtual seconds.
    """
    described = what or (lambda: inspect.getsource(condition))
    waiting = _Waiting(described, seconds, asyncio.get_running_loop().time)
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if waiting.is_over(value):
            return value
        await asyncio.sleep(POLL_SECONDS)


async def until_in_thread(
    condition: Condition, what: Description = "", seconds: float = PATIENCE_SECONDS
) -> object:
    """`until` for a condition that blocks: it runs in a thread, and the event loop goes on."""

    async def in_thread() -> object:
        value = await asyncio.to_thread(condition)
        return await value if inspect.isawaitable(value) else value

    return await until(in_thread, what or (lambda: inspect.getsource(condition)), seconds)


def until_sync(
    condition: Callable[[], object], what: Description, seconds: float = PATIENCE_SECONDS
) -> object:
    """`until` for tests without an event loop."""
    waiting = _Waiting(what, seconds, time.monotonic)
    while not waiting.is_over(value := condition()):
        time.sleep(POLL_SECONDS)
    return value


class _Waiting:
    def __init__(self, what: Description, seconds: float, clock: Callable[[], float]) -> None:
        self._what, self._seconds, self._clock = what, seconds, clock
        self._deadline = clock() + seconds

    def is_over(self, value: object) -> bool:
        """True if the value is; fail if it is not and the time is up."""
        if value:
            return True
        if self._clock() > self._deadline:
            what = self._what if isinstance(self._what, str) else self._what()
            raise AssertionError(f"not within {self._seconds} s: {what} (last value: {value!r})")
        return False
