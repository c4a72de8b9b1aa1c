"""Changes that an informer passes to its consumers: once each, in order, with back-pressure.

A consumer that applies all changes always has a state that the informer had. `old` and `last` are
states that the same consumer received before.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object was added or changed. `old` and `new` have the same uid."""

    old: T | None
    new: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    last: T
    is_inferred: bool = False
    """No event reported the deletion: a list lacks the object, or its name has a new uid."""


@dataclass(frozen=True, slots=True)
class Relisted:
    """All objects were listed again. The differences follow, and then `Synced`.

    Until then the consumer has a mixture of two states, which the cluster never had.
    """


@dataclass(frozen=True, slots=True)
class Synced:
    """The consumer has received all objects of a complete list."""

    resource_version: str


ObjectChange: TypeAlias = Upserted[T] | Deleted[T]
Change: TypeAlias = Upserted[T] | Deleted[T] | Relisted | Synced


class Changes(Generic[T]):
    """One consumer's bounded queue: `async for change in informer.changes()`.

    It begins with all cached objects, and ends when the informer ends. When it is full, the
    informer stops reading its watch until the consumer catches up.
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
        """Number of unread changes, without the objects that were cached at the start."""
        return len(self._pending)

    def close(self) -> None:
        """Stop reading. The informer drops the unread changes and no longer waits."""
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
        """Mark the end. Pending changes can still be read."""
        self._is_ended = True
        self._has_news.set()
