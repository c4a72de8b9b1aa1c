"""The objects of one kind, sorted, with the log of their changes.

Every write gets the next revision of the cluster. A watch is a position in this log. A later page
of a list is computed by undoing the log. Changes before the oldest kept revision are dropped;
requests for them fail with `ExpiredError`.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.ports import EventKind, Key

_AFTER_ALL_NAMES: Final = "\U0010ffff"
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Stored:
    """An object at one revision. Both forms are immutable."""

    body: JsonObject
    raw: bytes
    revision: int


def stored_at(body: JsonObject, revision: int) -> Stored:
    """The object with its resourceVersion set. The bytes begin with apiVersion and kind."""
    marked = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        **body,
        "metadata": {**body["metadata"], "resourceVersion": str(revision)},
    }
    return Stored(marked, encoded(marked), revision)


def encoded(body: JsonObject) -> bytes:
    return _encoder.encode(body)


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the object before it and after it. `after` of a deletion is the last state."""

    kind: EventKind
    key: Key
    before: Stored | None
    after: Stored

    @property
    def revision(self) -> int:
        return self.after.revision


@dataclass(slots=True)
class Collection:
    """The objects of one kind, sorted by key, with the log of their changes."""

    objects: dict[Key, Stored] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    log: list[Change] = field(default_factory=list)
    forgotten: int = 0
    """Number of changes that were dropped from the log. The position of a watch includes them."""
    waiting: set[asyncio.Future[None]] = field(default_factory=set)

    def put(self, change: Change) -> None:
        key = change.key
        if change.kind is EventKind.DELETED:
            del self.objects[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if key not in self.objects:
                insort(self.keys, key)
            self.objects[key] = change.after
        self.log.append(change)
        self.wake()

    def wake(self) -> None:
        """Wake all waiting watches."""
        for waiter in self.waiting:
            if not waiter.done():
                waiter.set_result(None)
        self.waiting.clear()

    def forget(self, revision: int) -> None:
        """Drop the changes up to and including a revision."""
        count = self.place_after(revision) - self.forgotten
        del self.log[:count]
        self.forgotten += count

    def place_after(self, revision: int) -> int:
        """The position in the log of the first change after a revision."""
        return self.forgotten + bisect_right(self.log, revision, key=lambda each: each.revision)

    def keys_in(self, namespace: str) -> Iterator[Key]:
        """The sorted keys of a namespace, or of all namespaces for an empty name."""
        start, end = _span(self.keys, namespace)
        return (self.keys[index] for index in range(start, end))

    def as_of(self, revision: int, namespace: str, after: Key | None) -> Iterator[Stored]:
        """The sorted objects at a revision, beginning after a key."""
        past = self._undone_since(revision)
        keys = self.keys
        if past:
            keys = sorted({*keys, *past})
        start, end = _span(keys, namespace)
        if after is not None:
            start = max(start, bisect_right(keys, after))
        for index in range(start, end):
            key = keys[index]
            stored = past[key] if key in past else self.objects[key]
            if stored is not None:
                yield stored

    def _undone_since(self, revision: int) -> dict[Key, Stored | None]:
        """The objects at a revision that changed since; None for those that did not exist."""
        past: dict[Key, Stored | None] = {}
        for change in self.log[self.place_after(revision) - self.forgotten :]:
            past.setdefault(change.key, change.before)
        return past


def _span(keys: list[Key], namespace: str) -> tuple[int, int]:
    if not namespace:
        return 0, len(keys)
    return (
        bisect_left(keys, Key(namespace, "")),
        bisect_right(keys, Key(namespace, _AFTER_ALL_NAMES)),
    )
