"""Wait for a condition: how tests wait for another task, thread, process or server.

The time limit is generous, since it costs nothing while tests pass, and a busy machine needs it.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_SECONDS = 300
POLL_SECONDS = 0.05

Condition = Callable[[], object | Awaitable[object]]
Description = str | Callable[[], object]
"""What is waited for; the source of the condition if it is empty.

A callable is called only for the message of a failure.
"""


async def until(
    condition: Condition, what: Description = "", seconds: float = PATIENCE_SECONDS
) -> Any:
    """Wait until the condition holds, and return its value, which is true in the sense of `if`.

    The condition is a function or a coroutine function. On a loop with virtual time, the limit
    is virtual seconds.
    """
    waiting = _Waiting(condition, what, seconds, asyncio.get_running_loop().time)
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if waiting.is_over(value):
            return value
        await asyncio.sleep(POLL_SECONDS)


async def until_blocking(
    condition: Callable[[], object], what: Description = "", seconds: float = PATIENCE_SECONDS
) -> Any:
    """`until` for a function that blocks, such as a call of kubectl: a thread calls it."""
    what = what or inspect.getsource(condition).strip()
    return await until(lambda: asyncio.to_thread(condition), what, seconds)


def until_sync(
    condition: Callable[[], object], what: Description = "", seconds: float = PATIENCE_SECONDS
) -> Any:
    """`until` for tests without an event loop."""
    waiting = _Waiting(condition, what, seconds, time.monotonic)
    while not waiting.is_over(value := condition()):
        time.sleep(POLL_SECONDS)
    return value


class _Waiting:
    def __init__(
        self, condition: Condition, what: Description, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._condition, self._what = condition, what
        self._seconds, self._clock = seconds, clock
        self._deadline = clock() + seconds

    def is_over(self, value: object) -> bool:
        """True if the value is; fail if it is not and the time is up."""
        if value:
            return True
        if self._clock() > self._deadline:
            what = self._what if isinstance(self._what, str) else self._what()
            what = what or inspect.getsource(self._condition).strip()
            raise AssertionError(f"not within {self._seconds} s: {what} (last value: {value!r})")
        return False
