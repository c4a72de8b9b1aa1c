"""Documents as plain values, and the builder that keeps every one of them within bounds.

YAML and JSON are read by different scanners, but what makes a document
acceptable is the same for both and lives here: how deep, how many values, no
key twice, and for each complaint the field it is about.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, TypeVar

from bursar.wire.documents.text import DEPTH_MAX, VALUES_MAX, DocumentError, Place
from bursar.wire.structs.fields import Scalar, Step, field_text


@dataclass(frozen=True, slots=True)
class Number:
    """A number that its Python value would not spell as it was written, such as `1.10`."""

    text: str
    """The number as it was written, which is valid JSON."""
    meaning: int | float | None = None
    """The number that the API server is sent; None if that is the text itself, as from JSON."""


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Data that Bursar writes, such as the body of a patch."""

Value: TypeAlias = "Scalar | Number | list[Value] | dict[str, Value]"
"""Data that was read from a document."""
Branch: TypeAlias = "list[Value] | dict[str, Value]"
At = TypeVar("At")
"""The position of a scanner. It is converted to a `Place` only for an error."""

LISTED: Final = "items"
"""The field of a Kubernetes List that holds its objects."""


class _MergeKey(str):
    """A type of its own, so that the key `"<<"` in quotes stays an ordinary one."""

    __slots__ = ()


MERGE: Final = _MergeKey("<<")


@dataclass(frozen=True, slots=True)
class Tree:
    """One document: its value, where its objects start, and where the target is."""

    root: Value
    place: Place
    starts: dict[int, Place] | None
    """Where the root and the items of Lists begin; None if that was not kept."""
    target_place: Place
    """Place of the target field, or of the last step towards it that exists."""

    def start_of(self, value: Value) -> Place:
        """Where an object of this document begins: the root, or one of a List's items."""
        return (self.starts or {}).get(id(value), self.place)

    def with_starts_of(self, other: "Tree") -> "Tree":
        """This tree with the places of `other`, an equal tree in which they were kept."""
        starts: dict[int, Place] = {}
        pairs = [(self.root, other.root)]
        while pairs:
            ours, theirs = pairs.pop()
            starts[id(ours)] = other.start_of(theirs)
            pairs += zip(_listed(ours), _listed(theirs), strict=True)
        return replace(self, starts=starts)


def _listed(value: Value) -> list[Value]:
    items = value.get(LISTED) if isinstance(value, dict) else None
    return items if isinstance(items, list) else []


def steps_towards(value: Value, field: str) -> list[Step]:
    """A field path as steps, as far as the value has them. Its keys may hold dots and brackets."""
    steps: list[Step] = []
    rest = f".{field}"
    while rest:
        longest = ""
        found: tuple[Step, Value] | None = None
        for step, inner in _inside(value):
            for form in (f".{step}", f"[{step}]"):
                if len(form) > len(longest) and _leads(form, rest):
                    longest, found = form, (step, inner)
        if found is None:
            break
        steps.append(found[0])
        value = found[1]
        rest = rest[len(longest) :]
    return steps


def _inside(value: Value) -> Iterable[tuple[Step, Value]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _leads(form: str, path: str) -> bool:
    return path.startswith(form) and path[len(form) : len(form) + 1] in {"", ".", "["}


class Builder(Generic[At]):
    """Builds one document after another from the values and branches that a scanner finds.

    The caller of `key` must check `expects_key` first, and `close` each branch it opens.
    The places of all values would need more memory than the values, so only that of
    one field is kept, the `target`.
    """

    __slots__ = (
        "_inherited",
        "_key",
        "_list",
        "_object",
        "_open",
        "_place",
        "_root",
        "_root_place",
        "_starts",
        "_target",
        "_target_place",
        "_values",
    )

    def __init__(self, place: Callable[[At], Place], at: At, target: list[Step]) -> None:
        self._place = place
        self._target = target
        self._values = 0
        self.start(at)

    def start(self, at: At) -> None:
        """Forget the document before, except that its values count."""
        self._values += 1
        self._root: Value = None
        self._root_place = self._target_place = self._place(at)
        self._starts: dict[int, Place] = {}
        # The branch now open is one of these two; `_open` has those around it, and in which key.
        self._object: dict[str, Value] = _NO_OBJECT
        self._list: list[Value] | None = None
        self._key: str | None = None
        self._open: list[tuple[dict[str, Value], list[Value] | None, str | None]] = []
        self._inherited: dict[int, set[str]] = {}

    @property
    def depth(self) -> int:
        return len(self._open)

    @property
    def is_object(self) -> bool:
        return self._object is not _NO_OBJECT

    @property
    def expects_key(self) -> bool:
        return self._key is None and self._object is not _NO_OBJECT

    @property
    def is_merging(self) -> bool:
        return self._key is MERGE

    def tree(self) -> Tree:
        return Tree(self._root, self._root_place, self._starts, self._target_place)

    def field(self) -> str:
        """The field now being read."""
        return field_text(self._steps())

    def error(self, problem: str, at: At) -> DocumentError:
        return DocumentError(problem, self._place(at), self.field())

    def key(self, key: str, at: At) -> None:
        """Take the next key of the open object; `MERGE` asks for a merge of what follows."""
        self._values += 1
        self._key = key
        if key in self._object and key is not MERGE:
            inherited = self._inherited.get(id(self._object), set())
            if key not in inherited:
                raise self.error("duplicate key", at)
            inherited.discard(key)

    def add(self, value: Value, at: At, *, count: int = 1) -> None:
        """Take a value that is complete: a scalar, or what an alias stands for."""
        self._count(count, at)
        if self._key is MERGE:
            self._merge(value, at)
        else:
            self._attach(value, at)
        self._key = None

    def open(self, branch: Branch, at: At) -> None:
        """Go down into a list or object, still empty; it becomes part of the document at once."""
        self._count(1, at)
        if len(self._open) >= DEPTH_MAX:
            raise self.error(f"nested more than {DEPTH_MAX} levels deep", at)
        if not self._open or (self._list is not None and self._open[-1][2] == LISTED):
            self._starts[id(branch)] = self._place(at)
        if self._key is not MERGE:
            self._attach(branch, at)
        if self._inherited:
            # A merged object may have been here before, and been given back.
            self._inherited.pop(id(branch), None)
        self._open.append((self._object, self._list, self._key))
        self._key = None
        if isinstance(branch, dict):
            self._object, self._list = branch, None
        else:
            self._object, self._list = _NO_OBJECT, branch

    def close(self, at: At) -> Branch:
        """Come up again, and return what is now complete."""
        closed = self._object if self._list is None else self._list
        self._object, self._list, self._key = self._open.pop()
        if self._key is MERGE:
            self._merge(closed, at)
        self._key = None
        return closed

    def _count(self, count: int, at: At) -> None:
        self._values += count
        if self._values > VALUES_MAX:
            raise self.error(f"more than {VALUES_MAX} values", at)

    def _attach(self, value: Value, at: At) -> None:
        if self._target:
            steps = self._steps()
            if steps == self._target[: len(steps)]:
                self._target_place = self._place(at)
        if self._list is not None:
            self._list.append(value)
        elif self._key is not None:
            self._object[self._key] = value
        else:
            self._root, self._root_place = value, self._place(at)

    def _merge(self, value: Value, at: At) -> None:
        """Take over the fields of one object or of several, of which the first has precedence.

        As in kubectl, a field written before the merge loses to it, one written after it wins.
        """
        sources = value if isinstance(value, list) else [value]
        for source in reversed(sources):
            if not isinstance(source, dict):
                raise self.error("only objects can be merged with <<", at)
            inherited = self._inherited.setdefault(id(self._object), set())
            inherited.update(key for key in source if key not in self._object)
            self._object.update(source)
            outer = self._steps()[:-1]
            if (
                self._target[: len(outer)] == outer
                and {*self._target[len(outer) :][:1]} & source.keys()
            ):
                self._target_place = self._place(at)

    def _steps(self) -> list[Step]:
        """The way to the value now being read."""
        steps: list[Step] = []
        for _, items, key in self._open:
            if items is not None:
                steps.append(len(items) - 1)
            elif key is not None:
                steps.append(key)
        if self._list is not None:
            steps.append(len(self._list))
        elif self._key is not None:
            steps.append(self._key)
        return steps


_NO_OBJECT: Final[dict[str, Value]] = {}
"""Stands for "not in an object"; an object of the document is never this one, nor is it filled."""
