"""All objects of a cluster and its revision counter. Every change goes through `Objects`."""

from collections.abc import Iterable, Iterator
from typing import Final

from bursar.adapters.memory import errors
from bursar.adapters.memory.kinds import Kind, Kinds, custom_kind
from bursar.adapters.memory.objects.history import Change, Collection, Stored, stored_at
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.kinds import CRDS, NAMESPACES
from bursar.app.cluster.ports import EventKind, Key, Resource

HISTORY_MAX: Final = 50_000


class Objects:
    """Objects by kind and key. Every write gets the next revision."""

    def __init__(self, *, history_max: int = HISTORY_MAX) -> None:
        self.kinds = Kinds()
        self.revision = 0
        self.compacted = 0
        """Changes up to this revision were dropped."""
        self._history_max = history_max
        self._collections: dict[str, Collection] = {}
        self._uids: set[str] = set()
        self._dependents: dict[str, set[tuple[str, Key]]] = {}

    def collection(self, kind: Kind) -> Collection:
        found = self._collections.get(kind.place)
        if found is None:
            found = self._collections[kind.place] = Collection()
        return found

    # -------------------------------------------------------------- reading

    def current(self, kind: Kind, key: Key) -> Stored | None:
        return self.collection(kind).objects.get(key)

    def get(self, kind: Kind, key: Key) -> Stored:
        """The current object. Raises `NotFoundError`."""
        stored = self.current(kind, key)
        if stored is None:
            raise errors.not_found(kind.resource, key)
        return stored

    def find(self, resource: Resource, name: str) -> JsonObject | None:
        stored = self.current(self.kinds.of(resource), Key("", name))
        return None if stored is None else stored.body

    def all(self, resource: Resource) -> Iterable[JsonObject]:
        collection = self.collection(self.kinds.of(resource))
        return [stored.body for stored in collection.objects.values()]

    def content_of(self, namespace: str) -> Iterator[tuple[Kind, Key]]:
        """The kinds and keys of all objects in a namespace."""
        for kind in list(self.kinds):
            if kind.resource.is_namespaced:
                for key in self.collection(kind).keys_in(namespace):
                    yield kind, key

    def is_ending(self, kind: Kind) -> bool:
        """Whether the objects of a kind are being deleted together with its definition.

        As in the API server, a definition that a finalizer holds afterwards is an ordinary one.
        """
        return self.is_deleted_definition(str(kind.resource)) and bool(
            self.collection(kind).objects
        )

    def is_deleted_definition(self, name: str) -> bool:
        """Whether a CustomResourceDefinition is being deleted."""
        body = self.find(CRDS, name)
        return body is not None and "deletionTimestamp" in body["metadata"]

    def is_terminating(self, namespace: str) -> bool | None:
        """Whether a namespace is being deleted; None if it does not exist."""
        body = self.find(NAMESPACES, namespace)
        return None if body is None else "deletionTimestamp" in body["metadata"]

    def lives(self, uid: str) -> bool:
        return uid in self._uids

    def dependents_of(self, uid: str) -> Iterator[tuple[Kind, Key]]:
        """The objects that have an owner reference with this uid, sorted."""
        by_place = {kind.place: kind for kind in self.kinds}
        for place, key in sorted(self._dependents.get(uid, ())):
            if place in by_place:
                yield by_place[place], key

    # -------------------------------------------------------------- writing

    def commit(self, kind: Kind, key: Key, body: JsonObject) -> Stored:
        """Store a new or changed object."""
        before = self.current(kind, key)
        self.revision += 1
        after = stored_at(body, self.revision)
        event = EventKind.ADDED if before is None else EventKind.MODIFIED
        self._index(kind, key, before, after)
        self.collection(kind).put(Change(event, key, before, after))
        self._bound_history()
        return after

    def remove(self, kind: Kind, key: Key) -> Stored:
        """Remove an object and return its last state, at the revision of the removal."""
        before = self.get(kind, key)
        self.revision += 1
        last = stored_at(before.body, self.revision)
        self._index(kind, key, before, None)
        self.collection(kind).put(Change(EventKind.DELETED, key, before, last))
        self._bound_history()
        return last

    def replace_all(self, revision: int, saved: Iterable[tuple[str, JsonObject]]) -> None:
        """Replace all objects by saved ones and drop the history."""
        fresh = Objects(history_max=self._history_max)
        for place, body in saved:
            fresh._restore(place, body)
        old = self._collections
        self.kinds, self._uids, self._dependents = fresh.kinds, fresh._uids, fresh._dependents
        self._collections = fresh._collections
        self.revision = self.compacted = max(revision, self.revision)
        for collection in old.values():
            collection.wake()

    def _restore(self, place: str, body: JsonObject) -> None:
        kind = next((each for each in self.kinds if each.place == place), None)
        if kind is None:
            raise KeyError(place)
        fields = body["metadata"]
        stored = stored_at(body, int(fields["resourceVersion"]))
        key = Key(fields.get("namespace", ""), fields["name"])
        self._index(kind, key, None, stored)
        collection = self.collection(kind)
        collection.put(Change(EventKind.ADDED, key, None, stored))
        collection.log.clear()

    def compact(self, revision: int) -> None:
        """Drop the changes up to a revision."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        for collection in self._collections.values():
            collection.forget(self.compacted)

    def wake_all(self) -> None:
        for collection in self._collections.values():
            collection.wake()

    def _bound_history(self) -> None:
        # A quarter more than the guaranteed history, so that dropping is rare and cheap.
        if self.revision - self.compacted > self._history_max + self._history_max // 4:
            self.compact(self.revision - self._history_max)

    def _index(self, kind: Kind, key: Key, before: Stored | None, after: Stored | None) -> None:
        place = (kind.place, key)
        for owner in () if before is None else _owners(before.body):
            self._dependents[owner].discard(place)
            if not self._dependents[owner]:
                del self._dependents[owner]
        if before is not None:
            self._uids.discard(before.body["metadata"]["uid"])
        if after is not None:
            self._uids.add(after.body["metadata"]["uid"])
            for owner in _owners(after.body):
                self._dependents.setdefault(owner, set()).add(place)
        if kind.resource == CRDS:
            self._serve(before, after)

    def _serve(self, before: Stored | None, after: Stored | None) -> None:
        old = None if before is None else custom_kind(before.body)
        new = None if after is None else custom_kind(after.body)
        if old is not None:
            self.kinds.remove(old)
        if new is not None:
            self.kinds.add(new)


def _owners(body: JsonObject) -> set[str]:
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()}
