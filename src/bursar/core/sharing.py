"""One object for equal values. Each cache is bounded, whatever tenants write.

`Generations` is bounded by number and by bytes. `Living` and `Attached` are bounded by the life of
other objects: what no pod uses any more is forgotten at once.
"""

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar
from weakref import ref

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


def no_labels() -> Mapping[str, str]:
    """The mapping of objects without labels or annotations; a default for dataclass fields."""
    return NO_LABELS


class Generations(Generic[K, V]):
    """A cache of at most `2 * limit` values that weigh at most `2 * weight_max` together.

    There are two generations. Values that are used go to the young one. When it is full, it becomes
    the old one, and the previous old one is dropped. A dropped value can still be in use elsewhere;
    the next equal value is then a second object. A value that weighs more than `weight_max` is not
    kept.
    """

    def __init__(
        self, limit: int, weigh: Callable[[V], int] | None = None, weight_max: int = 0
    ) -> None:
        """`weigh` tells about how many bytes a value takes. Without it, only numbers count."""
        self._limit = limit
        self._weigh, self._weight_max = weigh, weight_max
        self._weight = 0
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    @property
    def weight(self) -> int:
        """What the kept values weigh together; 0 if they are not weighed."""
        if self._weigh is None:
            return 0
        return sum(map(self._weigh, (self._old | self._young).values()))

    def find(self, key: K) -> V | None:
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.keep(key, value)
        return value

    def keep(self, key: K, value: V) -> None:
        weight = 0 if self._weigh is None else self._weigh(value)
        if weight > self._weight_max:
            return
        if len(self._young) >= self._limit or self._weight + weight > self._weight_max:
            self._young, self._old = {}, self._young
            self._weight = 0
        self._young[key] = value
        self._weight += weight


class KeyedRef(ref[V], Generic[K, V]):
    """A weak reference that knows under which key it is kept."""

    __slots__ = ("key",)
    key: K


class Living(Generic[K, V]):
    """Values by key, each for as long as another object holds it."""

    __slots__ = ("_forget", "refs")

    def __init__(self) -> None:
        self.refs: Final[dict[K, KeyedRef[K, V]]] = {}
        """For the hot part of the books: `held = living.refs.get(key)`, and then `held()`."""
        refs = self.refs  # Not `self`, which would then be in a cycle.

        def forget(dead: ref[V]) -> None:
            assert isinstance(dead, KeyedRef), "there are no others"
            if refs.get(dead.key) is dead:
                del refs[dead.key]

        self._forget = forget

    def __len__(self) -> int:
        return len(self.refs)

    def find(self, key: K) -> V | None:
        held = self.refs.get(key)
        return None if held is None else held()

    def keep(self, key: K, value: V) -> None:
        held: KeyedRef[K, V] = KeyedRef(value, self._forget)
        held.key = key
        self.refs[key] = held


class Attached(Generic[K, V]):
    """One value for each object, by its address. The value is forgotten when the object dies.

    The value must not hold the object, or neither is ever forgotten.
    """

    __slots__ = ("_forget", "entries")

    def __init__(self) -> None:
        self.entries: Final[dict[int, tuple[V, KeyedRef[int, K]]]] = {}
        """For the hot part of the books: `attached.entries.get(id(owner))`, a pair."""
        entries = self.entries

        def forget(dead: ref[K]) -> None:
            assert isinstance(dead, KeyedRef), "there are no others"
            entries.pop(dead.key, None)

        self._forget = forget

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, owner: K) -> V | None:
        held = self.entries.get(id(owner))
        return None if held is None else held[0]

    def keep(self, owner: K, value: V) -> None:
        held: KeyedRef[int, K] = KeyedRef(owner, self._forget)
        held.key = id(owner)
        self.entries[held.key] = (value, held)
