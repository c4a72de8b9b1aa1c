"""Concurrent callers share one piece of work, so that many clients cost kubelet one call.

A caller gets only what was begun after it asked: an answer that was already on its way may lack
the pod it asks about. So at most one call runs and one waits for it, however many ask.
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


class Flight(Generic[T]):
    """What `work` returns or raises, for all who asked before it began."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._boarding: _Call[T] | None = None
        """Not begun yet: whoever asks now may have it."""
        self._running: _Call[T] | None = None
        self.begun = 0

    async def join(self, *, may_have_begun: bool = False) -> T:
        """Each caller may be cancelled without harm to others; work nobody waits for is ended.

        Whoever does not mind that it `may_have_begun` before is spared the wait for the next.
        """
        call = self._board(may_have_begun=may_have_begun)
        try:
            # Waiting does not cancel what is waited for, and leaves its errors to be raised here.
            await asyncio.wait((call.task,))
        finally:
            call.callers -= 1
            if not call.callers:
                await self._abandon(call)
        return call.task.result()

    def begin(self, *, may_have_begun: bool = False) -> asyncio.Task[T]:
        """Work that goes on to its end, whoever leaves; to be closed by whoever begins such."""
        # As if for a caller who never leaves.
        return self._board(may_have_begun=may_have_begun).task

    async def close(self) -> None:
        """End what runs and what waits its turn. Whoever still waits for it is cancelled."""
        calls = [call for call in (self._boarding, self._running) if call is not None]
        self._boarding = None
        await end(*(call.task for call in calls))

    def _board(self, *, may_have_begun: bool) -> _Call[T]:
        call = (self._kept() if may_have_begun else None) or self._boarding or self._open()
        call.callers += 1
        return call

    def _kept(self) -> _Call[T] | None:
        """What runs, unless it is about to be ended."""
        return self._running if self._running is not None and self._running.callers else None

    def _open(self) -> _Call[T]:
        call = _Call(self._run)
        self._boarding = call
        return call

    async def _run(self, call: "_Call[T]") -> T:
        while self._running is not None:
            await asyncio.wait((self._running.task,))
        self._boarding, self._running = None, call
        self.begun += 1
        try:
            return await self._work()
        finally:
            self._running = None

    async def _abandon(self, call: _Call[T]) -> None:
        if self._boarding is call:
            self._boarding = None
        if not call.task.done():
            await end(call.task)
        if not call.task.cancelled():
            # An error that came when nobody waited any more is nobody's.
            call.task.exception()
