"""One object for equal values, in tables that cannot grow without end.

Two generations: what was asked for lately is in the young one, and is carried over
when that is full; what nobody asks for is forgotten with the old one. Whoever still
holds a forgotten object keeps it; only the next equal value will be a second one.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Generations(Generic[K, V]):
    """A memory of at most `2 * limit` values."""

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
        """The object that was first seen of those equal to this one."""
        found = self._known.find(value)
        if found is None:
            self._known.keep(value, value)
            return value
        return found
