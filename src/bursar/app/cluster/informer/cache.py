"""The informer's cache: computes the changes that a list or a watch event causes. It does no I/O.

*Repeated states* change nothing. A watch sends resourceVersions in order, so an event with an older
one is a repetition, and so is the same uid with the same resourceVersion.

*A reused name* is a new object. If an event has another uid than the cached object, the cached
object was deleted.

*Undecodable bodies* leave the last decodable state in the cache: a pod that cannot be decoded
still occupies its node. Its key is in `suspects` until it can be decoded again or is deleted. If
the undecodable object has another uid than the cached one, the cached one was deleted.

*Unidentifiable bodies* do not even have a readable name. In a list such a body may be any object,
so objects that are missing from that list are not treated as deleted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from bursar.app.cluster.informer.changes import Deleted, ObjectChange, Upserted
from bursar.app.cluster.informer.store import Identity, Snapshot, Store, is_older
from bursar.app.cluster.ports import Key

T = TypeVar("T")


@dataclass(eq=False)
class TooManyObjectsError(Exception):
    """The cluster has more objects than `InformerRules.objects_max`."""

    resource: str
    limit: int

    def __str__(self) -> str:
        return f"{self.resource}: more than {self.limit} objects"


@dataclass(frozen=True, slots=True)
class ReceivedObject(Generic[T]):
    """A received object. `item` is None if the body could not be decoded."""

    identity: Identity
    item: T | None


class Draft(Generic[T]):
    """A list that is being received. It replaces the cache when it is complete."""

    def __init__(self, cache: "Cache[T]") -> None:
        self._cache = cache
        self._deleted = dict[Key, str]()
        """resourceVersions of deletions during the list. Older events do not restore objects."""
        self.store: Store[T] = Store()
        self.suspects = set[Key]()
        self.has_noise = False

    def put(self, received: ReceivedObject[T]) -> bool:
        """Add an object; false if it is a repetition."""
        identity = received.identity
        if self._is_repeated(identity):
            return False
        if received.item is None:
            self.suspects.add(identity.key)
            item = self._last_readable(identity)
        else:
            self.suspects.discard(identity.key)
            item = self._cache.held_instead(identity, received.item)
        if item is not None:
            self.store.put(identity.key, item)
            self._cache.require_room(self.store)
        elif self.store.find(identity.key) is not None:
            self.store.remove(identity.key)
        return True

    def keep_missing(self, held: Snapshot[T]) -> None:
        """Add cached objects that the list does not have and did not report as deleted."""
        for key in held:
            if key not in self._deleted and self.store.find(key) is None:
                self.suspects.add(key)
                self.store.put(key, held[key])

    def _last_readable(self, identity: Identity) -> T | None:
        for item in (self.store.find(identity.key), self._cache.store.find(identity.key)):
            if item is not None and self._cache.identify(item).uid == identity.uid:
                return item
        return None

    def remove(self, identity: Identity) -> bool:
        """Remove an object; false if it is a repetition."""
        if self._is_repeated(identity):
            return False
        self._deleted[identity.key] = identity.resource_version
        self.suspects.discard(identity.key)
        if self.store.find(identity.key) is not None:
            self.store.remove(identity.key)
        return True

    def _is_repeated(self, identity: Identity) -> bool:
        # The uid does not matter: resourceVersions are comparable across objects.
        deleted = self._deleted.get(identity.key)
        if deleted is not None and not is_older(deleted, identity.resource_version):
            return True
        drafted = self.store.find(identity.key)
        if drafted is None:
            return False
        known = self._cache.identify(drafted)
        return known[1:] == identity[1:] or is_older(
            identity.resource_version, known.resource_version
        )


class Cache(Generic[T]):
    def __init__(
        self, identify: Callable[[T], Identity], *, resource: str, objects_max: int
    ) -> None:
        self.identify = identify
        self.store: Store[T] = Store()
        self.suspects = set[Key]()
        self._resource = resource
        self._objects_max = objects_max

    def require_room(self, store: Store[T]) -> None:
        if len(store) > self._objects_max:
            raise TooManyObjectsError(self._resource, self._objects_max)

    def upsert(self, received: ReceivedObject[T]) -> list[ObjectChange[T]]:
        """Store an object; the resulting changes, none if it is a repetition."""
        key = received.identity.key
        held = self.store.find(key)
        changes: list[ObjectChange[T]] = []
        if held is not None:
            known = self.identify(held)
            if known.uid != received.identity.uid:
                self.store.remove(key)
                changes.append(Deleted(held, is_inferred=True))
                held = None
            elif known.resource_version == received.identity.resource_version:
                return changes
        if received.item is None:
            self.suspects.add(key)
            return changes
        self.suspects.discard(key)
        self.store.put(key, received.item)
        self.require_room(self.store)
        changes.append(Upserted(held, received.item))
        return changes

    def delete(self, identity: Identity) -> list[ObjectChange[T]]:
        """Remove the object of this name; the resulting changes."""
        self.suspects.discard(identity.key)
        held = self.store.find(identity.key)
        if held is None:
            return []
        self.store.remove(identity.key)
        return [Deleted(held, is_inferred=self.identify(held).uid != identity.uid)]

    def replace(self, draft: Draft[T]) -> Iterator[ObjectChange[T]]:
        """Replace the cache by a complete list; the resulting changes, deletions first."""
        before = self.store.snapshot()
        if draft.has_noise:
            draft.keep_missing(before)
        after = draft.store.snapshot()
        self.store, self.suspects = draft.store, draft.suspects
        return self._differences(before, after)

    def held_instead(self, identity: Identity, item: T) -> T:
        """The cached instance if it has the same state, else `item`."""
        held = self.store.find(identity.key)
        return held if held is not None and self.identify(held) == identity else item

    def _differences(self, before: Snapshot[T], after: Snapshot[T]) -> Iterator[ObjectChange[T]]:
        for gone, instead in before.not_in(after):
            if instead is None or not self._is_same(gone, instead):
                yield Deleted(gone, is_inferred=True)
        for item, held in after.not_in(before):
            if held is not None and self._is_same(held, item):
                yield Upserted(held, item)
            else:
                yield Upserted(None, item)

    def _is_same(self, one: T, other: T) -> bool:
        return self.identify(one).uid == self.identify(other).uid
