"""What an informer tells its consumers: each change once, in order, and no faster than they read.

A consumer that applies every change it is given holds, at any moment, what the
informer held at some moment. `old` and `last` are always what that consumer was
told before, never something it has not seen.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object is new, or has changed. Both states are of the same uid."""

    old: T | None
    new: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    last: T
    is_inferred: bool = False
    """Nobody told us: it was missing in a list, or another object has taken its name."""


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that existed at this moment has been told."""

    resource_version: str


ObjectChange: TypeAlias = Upserted[T] | Deleted[T]
Change: TypeAlias = Upserted[T] | Deleted[T] | Synced


class Changes(Generic[T]):
    """One consumer's bounded queue: `async for change in informer.changes()`.

    It begins with what is known already, and ends when the informer does. When it
    is full the informer waits, and with it the watch and the socket behind it.
    """

    def __init__(self, known: Iterator[Change[T]], limit: int) -> None:
        self._known = known
        self._limit = limit
        self._pending: deque[Change[T]] = deque()
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_ended = False
        self._is_closed = False

    def __aiter__(self) -> "Changes[T]":
        return self

    async def __anext__(self) -> Change[T]:
        for change in self._known:
            return change
        while not self._pending:
            if self._is_ended or self._is_closed:
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()
        self._has_room.set()
        return self._pending.popleft()

    def __len__(self) -> int:
        """How many changes wait to be read, beyond those that were known at the start."""
        return len(self._pending)

    def close(self) -> None:
        """Read no more. The informer drops what it has for us and stops waiting."""
        self._is_closed = True
        self._known = iter(())
        self._pending.clear()
        self._has_room.set()
        self._has_news.set()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # ------------------------------------------------------------------ the informer's side

    async def put(self, change: Change[T]) -> None:
        while len(self._pending) >= self._limit and not self._is_closed:
            self._has_room.clear()
            await self._has_room.wait()
        if not self._is_closed:
            self._pending.append(change)
            self._has_news.set()

    def end(self) -> None:
        """Nothing more will be put; what is pending may still be read."""
        self._is_ended = True
        self._has_news.set()
