"""Looking after things: what was marked is looked at, and set right if it is wrong.

The rhythm of everything that is written to the cluster beside gates: soon, not too often,
several at a time, and again until there is nothing to do.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final, Generic, TypeVar

from bursar.app.cluster.ports import (
    AlreadyExistsError,
    Clock,
    ClusterError,
    ConflictError,
    NotFoundError,
)
from bursar.app.cluster.time_limit import within

IN_FLIGHT_MAX: Final = 8
REQUEST_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.2
RETRY_SECONDS_MAX: Final = 30.0

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class UpkeepCounters:
    """How often what happened; only ever growing."""

    looks: int = 0
    writes: int = 0
    failures: int = 0
    """Writes that have to be tried again."""
    gone: int = 0
    """Writes to something that was not there any more."""


class _Case:
    """Something that will be looked at, or is being looked at."""

    __slots__ = ("failures", "is_marked")

    def __init__(self) -> None:
        self.failures = 0
        self.is_marked = False
        """Something has changed since the look began."""


@dataclass(eq=False)
class Upkeep(Generic[K]):
    """Looks at what was marked and sets it right: soon, not too often, several at a time.

    After a write comes a second look, so that a case is closed only when there is nothing
    to do. What fails is tried again, ever more rarely, unless it is gone.
    """

    look: Callable[[K], Coroutine[object, object, bool]]
    """Compares and, if need be, writes. Returns whether something was written."""
    clock: Clock
    _: KW_ONLY
    random: Random
    may_write: Callable[[], bool]
    """Asked before each look. Until it says yes for the first time, nothing is lost."""
    interval_s: float

    counters: UpkeepCounters = field(default_factory=UpkeepCounters, init=False)

    def __post_init__(self) -> None:
        self._cases: dict[K, _Case] = {}
        self._queue: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._news = asyncio.Event()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was marked has been found right."""
        return not self._cases

    def mark(self, keys: Iterable[K]) -> None:
        """Have a look at these, as soon as their time has come."""
        for key in keys:
            case = self._cases.get(key)
            if case is not None:
                case.is_marked = True
            else:
                self._cases[key] = _Case()
                self._enqueue(key, self.clock.monotonic())

    async def run(self) -> None:
        """Look after things until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._slots.acquire()
                key = await self._next_due()
                tasks.create_task(self._attend(key))

    def _enqueue(self, key: K, due: float) -> None:
        self._sequence += 1
        heappush(self._queue, (due, self._sequence, key))
        self._news.set()

    async def _next_due(self) -> K:
        while True:
            pause = self._queue[0][0] - self.clock.monotonic() if self._queue else None
            if pause is not None and pause <= 0:
                if self.may_write():
                    return heappop(self._queue)[2]
                await self.clock.sleep(self.interval_s)
                continue
            self._news.clear()
            if pause is None:
                await self._news.wait()
            else:
                with suppress(TimeoutError):
                    await within(self.clock, pause, self._news.wait())

    async def _attend(self, key: K) -> None:
        case = self._cases[key]
        case.is_marked = False
        self.counters.looks += 1
        try:
            pause = await self._pause_after_look(key, case)
        finally:
            self._slots.release()
        if pause is None and not case.is_marked:
            del self._cases[key]
        else:
            self._enqueue(key, self.clock.monotonic() + (pause or 0.0))

    async def _pause_after_look(self, key: K, case: _Case) -> float | None:
        """Seconds until the next look; None if that can wait until something changes."""
        try:
            has_written = await within(self.clock, REQUEST_SECONDS, self.look(key))
        except NotFoundError:
            # The watch will tell, and if it is made anew, we shall be told of that, too.
            self.counters.gone += 1
            return None
        except (ConflictError, AlreadyExistsError):
            # It is not what we thought, and the watch is about to say so.
            self.counters.failures += 1
            return max(self.interval_s, RETRY_SECONDS)
        except ClusterError as error:
            return self._patience(case, error.retry_after)
        except TimeoutError:
            return self._patience(case, None)
        case.failures = 0
        if not has_written:
            return None
        self.counters.writes += 1
        return self.interval_s

    def _patience(self, case: _Case, retry_after: float | None) -> float:
        self.counters.failures += 1
        pause = min(RETRY_SECONDS * 2.0**case.failures, RETRY_SECONDS_MAX)
        # Beyond the longest pause there is nothing to count.
        case.failures += pause < RETRY_SECONDS_MAX
        # Spread out, so that those who failed together do not come back together.
        return max(retry_after or 0.0, self.interval_s, pause * (0.5 + self.random.random()))
