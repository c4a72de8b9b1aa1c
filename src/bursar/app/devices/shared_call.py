"""Concurrent callers share one call, so that many clients cost kubelet one call.

A caller gets the result of a call that began after the caller asked: an older call may miss the pod
that the caller asks about. So at most one call runs and one waits for it, however many callers
there are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Generic, TypeVar

from bursar.app.cluster.time_limit import end

T = TypeVar("T")


class _Call(Generic[T]):
    def __init__(self, run: "Callable[[_Call[T]], Coroutine[object, object, T]]") -> None:
        self.callers = 0
        self.task = asyncio.create_task(run(self))


class SharedCall(Generic[T]):
    """Runs `work` for all callers that asked before it began, and gives each its result."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._waiting: _Call[T] | None = None
        """The call that has not begun yet; new callers join it."""
        self._running: _Call[T] | None = None
        self.begun = 0

    async def join(self, *, may_have_begun: bool = False) -> T:
        """Wait for a call's result. A call is cancelled when all its callers are cancelled.

        With `may_have_begun` the caller also accepts the result of the call that is running now.
        """
        call = self._joined(may_have_begun=may_have_begun)
        try:
            # asyncio.wait neither cancels the task nor raises its error.
            await asyncio.wait((call.task,))
        finally:
            call.callers -= 1
            if not call.callers:
                await self._abandon(call)
        return call.task.result()

    def begin(self, *, may_have_begun: bool = False) -> asyncio.Task[T]:
        """Start a call that runs to its end without callers. `close` must be called later."""
        # The caller that is counted here never leaves.
        return self._joined(may_have_begun=may_have_begun).task

    async def close(self) -> None:
        """Cancel the running and the waiting call, and their callers."""
        calls = [call for call in (self._waiting, self._running) if call is not None]
        self._waiting = None
        await end(*(call.task for call in calls))

    def _joined(self, *, may_have_begun: bool) -> _Call[T]:
        # A running call without callers is about to be cancelled.
        is_running = self._running is not None and self._running.callers > 0
        call = self._running if may_have_begun and is_running else self._waiting
        if call is None:
            call = self._waiting = _Call(self._run)
        call.callers += 1
        return call

    async def _run(self, call: "_Call[T]") -> T:
        while self._running is not None:
            await asyncio.wait((self._running.task,))
        self._waiting, self._running = None, call
        self.begun += 1
        try:
            return await self._work()
        finally:
            self._running = None

    async def _abandon(self, call: _Call[T]) -> None:
        if self._waiting is call:
            self._waiting = None
        if not call.task.done():
            await end(call.task)
        if not call.task.cancelled():
            # Mark an error as retrieved: asyncio logs errors that no caller retrieves.
            call.task.exception()
