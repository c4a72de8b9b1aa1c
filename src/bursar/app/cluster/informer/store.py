"""Objects of one kind by namespace and name, with copy-on-write snapshots.

There is one table per namespace, with names as keys: a table of `Key`s would add fifty bytes per
object. A snapshot shares the tables. The store copies a shared table before it changes it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from bursar.app.cluster.ports import Key

T = TypeVar("T")


class Identity(NamedTuple):
    """The key, uid and resourceVersion of an object."""

    key: Key
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Sighting(Generic[T]):
    """A decoded object with its identity."""

    identity: Identity
    item: T


def is_older(resource_version: str, than: str) -> bool:
    """Whether one resourceVersion is older than another.

    Numbers, as the API server uses them, are comparable across objects of a kind. Other texts are
    never older.

    >>> is_older("9", "10"), is_older("10", "10"), is_older("a", "b")
    (True, False, False)
    """
    if resource_version.isdecimal() and than.isdecimal():
        return int(resource_version) < int(than)
    return False


class Snapshot(Mapping[Key, T]):
    """An immutable copy of all objects."""

    def __init__(self, tables: dict[str, dict[str, T]], count: int) -> None:
        self._tables = tables
        self._count = count

    def __getitem__(self, key: Key) -> T:
        try:
            return self._tables[key.namespace][key.name]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Key]:
        for namespace, table in self._tables.items():
            for name in table:
                yield Key(namespace, name)

    def __len__(self) -> int:
        return self._count

    def objects(self) -> Iterator[T]:
        """All objects, without making a `Key` for each."""
        for table in self._tables.values():
            yield from table.values()

    def in_namespace(self, namespace: str) -> Mapping[str, T]:
        """The objects of one namespace, by name."""
        return self._tables.get(namespace, {})

    def not_in(self, other: "Snapshot[T]") -> Iterator[tuple[T, T | None]]:
        """Objects that `other` lacks, each with the object that `other` has under its name."""
        for namespace, table in self._tables.items():
            others = other.in_namespace(namespace)
            if others is table:
                continue
            for name, item in table.items():
                found = others.get(name)
                if found is not item:
                    yield item, found


class Store(Generic[T]):
    def __init__(self) -> None:
        self._tables: dict[str, dict[str, T]] = {}
        self._shared: set[str] = set()
        """Namespaces whose table is shared with a snapshot."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, key: Key) -> T | None:
        table = self._tables.get(key.namespace)
        return None if table is None else table.get(key.name)

    def put(self, key: Key, item: T) -> None:
        table = self._writable(key.namespace)
        before = len(table)
        table[key.name] = item
        self._count += len(table) - before

    def remove(self, key: Key) -> None:
        """Remove an object. It must exist."""
        table = self._writable(key.namespace)
        del table[key.name]
        self._count -= 1
        if not table:
            del self._tables[key.namespace]

    def snapshot(self) -> Snapshot[T]:
        self._shared = set(self._tables)
        return Snapshot(dict(self._tables), self._count)

    def _writable(self, namespace: str) -> dict[str, T]:
        table = self._tables.get(namespace, {})
        if namespace in self._shared:
            table = dict(table)
            self._shared.discard(namespace)
        self._tables[namespace] = table
        return table
