"""The end of objects, and of what depends on them.

Deleting an object may only begin its end: a finalizer or a node still holds it.
When it is gone, the objects it owned go as well unless another owner lives, and
a namespace that is being deleted goes when it is empty. A real cluster does this
in the background within seconds; here it has happened when the call returns.
"""

from collections import deque
from datetime import datetime

from bursar.adapters.memory import pods
from bursar.adapters.memory.kinds import CRDS, NAMESPACES, Kind, custom_kind
from bursar.adapters.memory.objects import metadata
from bursar.adapters.memory.objects.objects import Objects
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.ports import Clock, Key


class Ending:
    """Ends objects, one after the other, until nothing more has to go."""

    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    def begin(self, kind: Kind, key: Key, grace_seconds: int | None) -> None:
        """Begin the end of an object. Raises `NotFoundError`."""
        self._objects.get(kind, key)
        self._drain(deque([(kind, key, grace_seconds)]))

    def finish_if_free(self, kind: Kind, key: Key, body: JsonObject) -> bool:
        """End an object whose last holder has just let go, `body` being what it came to."""
        if not self._may_go(kind, key, body):
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
            if marked is not None and kind.resource == NAMESPACES:
                todo.extend(
                    (inner, each, None) for inner, each in self._objects.content_of(key.name)
                )
            if self._may_go(kind, key, stored.body) or not _must_be_marked(kind, stored.body):
                self._remove(kind, key, todo)

    def _may_go(self, kind: Kind, key: Key, body: JsonObject) -> bool:
        if not metadata.may_go(kind, body):
            return False
        return kind.resource != NAMESPACES or next(self._objects.content_of(key.name), None) is None

    def _remove(self, kind: Kind, key: Key, todo: deque[tuple[Kind, Key, int | None]]) -> None:
        defined = custom_kind(self._objects.get(kind, key).body) if kind.resource == CRDS else None
        if defined is not None:
            # Its objects go first, while the kind is still known.
            for each in [*self._objects.collection(defined).keys]:
                self._objects.remove(defined, each)
        last = self._objects.remove(kind, key)
        for dependent, each in [*self._objects.dependents_of(last.body["metadata"]["uid"])]:
            self._let_go_of_dead_owners(dependent, each, todo)
        if key.namespace and self._objects.is_terminating(key.namespace):
            todo.append((self._objects.kinds.of(NAMESPACES), Key("", key.namespace), None))

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
    """Whether the end takes two steps; without a holder, an object goes in one."""
    held = bool(body["metadata"].get("finalizers"))
    return held or kind.is_graceful or kind.resource == NAMESPACES


def _marked(
    kind: Kind, body: JsonObject, now: datetime, requested: int | None
) -> JsonObject | None:
    """The object with its end written into it; None if there is nothing to write."""
    if requested is not None and requested < 0:
        requested = 1
    if "deletionTimestamp" in body["metadata"]:
        return metadata.hastened(body, now, requested) if kind.is_graceful else None
    if not _must_be_marked(kind, body):
        return None
    if kind.resource == NAMESPACES:
        ended = metadata.doomed(body, now, None)
        return {**ended, "status": {**(ended.get("status") or {}), "phase": "Terminating"}}
    period = pods.grace_seconds(body, requested) if kind.is_graceful else 0
    return metadata.doomed(body, now, period)
