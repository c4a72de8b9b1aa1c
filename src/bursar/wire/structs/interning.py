"""Bounded caches that keep one object for equal values.

There are two generations. Values that are used go to the young one. When it is full, it becomes
the old one, and the previous old one is dropped. A dropped value can still be in use elsewhere; the
next equal value is then a second object.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Generations(Generic[K, V]):
    """A cache of at most `2 * limit` values."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def find(self, key: K) -> V | None:
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.keep(key, value)
        return value

    def keep(self, key: K, value: V) -> None:
        if len(self._young) >= self._limit:
            self._young, self._old = {}, self._young
        self._young[key] = value


class Interner(Generic[K]):
    def __init__(self, limit: int) -> None:
        self._known: Generations[K, K] = Generations(limit)

    def __len__(self) -> int:
        return len(self._known)

    def shared(self, value: K) -> K:
        """The first seen object that is equal to this one."""
        found = self._known.find(value)
        if found is None:
            self._known.keep(value, value)
            return value
        return found
