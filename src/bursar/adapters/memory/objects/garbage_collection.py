"""Deletion of objects and garbage collection of their dependents.

A deletion only marks an object that has finalizers or that a node still runs. When an object is
removed, its dependents are deleted unless another owner exists. A namespace that is being deleted
is removed when it is empty, and the definition of a kind when no object of the kind is left. A real
cluster does this in the background; here it is complete when the call returns.
"""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from bursar.adapters.memory import pods
from bursar.adapters.memory.kinds import Kind, custom_kind
from bursar.adapters.memory.objects import metadata
from bursar.adapters.memory.objects.objects import Objects
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.kinds import CRDS, NAMESPACES
from bursar.app.cluster.ports import Clock, Key

_CONTAINERS: Final = frozenset({NAMESPACES, CRDS})
"""They are removed when nothing is left in them."""


class GarbageCollector:
    """Deletes objects and, in turn, everything that their removal leaves without an owner."""

    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    def delete(self, kind: Kind, key: Key, grace_seconds: int | None) -> None:
        """Mark an object as deleted, or remove it. Raises `NotFoundError`."""
        self._objects.get(kind, key)
        self._drain(deque([(kind, key, grace_seconds)]))

    def remove_if_released(self, kind: Kind, key: Key, body: JsonObject) -> bool:
        """Remove an object if its deletion is pending and nothing holds `body`; whether it did."""
        if not self._is_released(kind, key, body):
            return False
        todo: deque[tuple[Kind, Key, int | None]] = deque()
        self._remove(kind, key, todo)
        self._drain(todo)
        return True

    def _drain(self, todo: deque[tuple[Kind, Key, int | None]]) -> None:
        while todo:
            kind, key, grace_seconds = todo.popleft()
            stored = self._objects.current(kind, key)
            if stored is None:
                continue
            marked = _marked(kind, stored.body, self._clock.now(), grace_seconds)
            if marked is not None:
                stored = self._objects.commit(kind, key, marked)
                content = self._content(kind, key, stored.body)
                todo.extend((inner, each, None) for inner, each in content)
            if self._is_released(kind, key, stored.body) or not _must_be_marked(kind, stored.body):
                self._remove(kind, key, todo)

    def _is_released(self, kind: Kind, key: Key, body: JsonObject) -> bool:
        if not metadata.is_released(kind, body):
            return False
        return next(self._content(kind, key, body), None) is None

    def _content(self, kind: Kind, key: Key, body: JsonObject) -> Iterator[tuple[Kind, Key]]:
        """The objects that are deleted with a namespace or with the definition of a kind."""
        if kind.resource == NAMESPACES:
            yield from self._objects.content_of(key.name)
        defined = custom_kind(body) if kind.resource == CRDS else None
        if defined is not None:
            yield from ((defined, each) for each in self._objects.collection(defined).keys)

    def _remove(self, kind: Kind, key: Key, todo: deque[tuple[Kind, Key, int | None]]) -> None:
        last = self._objects.remove(kind, key)
        for dependent, each in [*self._objects.dependents_of(last.body["metadata"]["uid"])]:
            self._let_go_of_dead_owners(dependent, each, todo)
        if key.namespace and self._objects.is_terminating(key.namespace):
            todo.append((self._objects.kinds.of(NAMESPACES), Key("", key.namespace), None))
        definition = Key("", str(kind.resource))
        if self._objects.is_deleted_definition(definition.name):
            todo.append((self._objects.kinds.of(CRDS), definition, None))

    def _let_go_of_dead_owners(
        self, kind: Kind, key: Key, todo: deque[tuple[Kind, Key, int | None]]
    ) -> None:
        body = self._objects.get(kind, key).body
        owners = body["metadata"]["ownerReferences"]
        living = [owner for owner in owners if self._objects.lives(owner["uid"])]
        if living:
            kept = {**body["metadata"], "ownerReferences": living}
            self._objects.commit(kind, key, {**body, "metadata": kept})
        else:
            todo.append((kind, key, None))


def _must_be_marked(kind: Kind, body: JsonObject) -> bool:
    """Whether deletion only sets `deletionTimestamp`, because something still holds the object."""
    held = bool(body["metadata"].get("finalizers"))
    return held or kind.is_graceful or kind.resource in _CONTAINERS


def _marked(
    kind: Kind, body: JsonObject, now: datetime, requested: int | None
) -> JsonObject | None:
    """The object with its `deletionTimestamp`; None if that is unchanged."""
    if requested is not None and requested < 0:
        requested = 1
    if "deletionTimestamp" in body["metadata"]:
        return metadata.with_shorter_grace(body, now, requested) if kind.is_graceful else None
    if not _must_be_marked(kind, body):
        return None
    if kind.resource == NAMESPACES:
        ended = metadata.marked_deleted(body, now, None)
        return {**ended, "status": {**(ended.get("status") or {}), "phase": "Terminating"}}
    period = pods.grace_seconds(body, requested) if kind.is_graceful else 0
    return metadata.marked_deleted(body, now, period)
