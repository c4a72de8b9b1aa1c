"""Objects of one kind, in order, and what happened to them since a moment.

Every write has a revision of its own, counted over the whole cluster. A watch is
a place in this log, a page of a list is a look back along it. What is older than
the oldest revision kept is forgotten, and whoever asks for it starts afresh.
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
    """An object at one revision. Neither form is ever changed."""

    body: JsonObject
    raw: bytes
    revision: int


def stored_at(body: JsonObject, revision: int) -> Stored:
    """The object with the revision written into it; what it is always comes first."""
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
    """One write: what the object was before, and what it is now (of a deleted one, was last)."""

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
    """How many changes are no longer in the log; a watch's place counts them, too."""
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
        """Let every waiting watch look again."""
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
        """Where in the log the changes after a revision begin."""
        return self.forgotten + bisect_right(self.log, revision, key=lambda each: each.revision)

    def keys_in(self, namespace: str) -> Iterator[Key]:
        """The keys of a namespace, or all if none is given, in order."""
        start, end = _span(self.keys, namespace)
        return (self.keys[index] for index in range(start, end))

    def as_of(self, revision: int, namespace: str, after: Key | None) -> Iterator[Stored]:
        """The objects as they were at a revision, in order, beginning after a key."""
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
        """What the objects changed since then were at that revision; None if not there."""
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
