"""An object inside a manifest, with its path: how the rules read the fields of a document.

The document has passed `strict.type_errors`, so a field has its type or is null. As in Go, a
missing text is empty and a missing number is 0; the methods with `maybe_` tell them apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bursar.core.model.problem import JsonText, Verbatim, json_text
from bursar.core.model.quantity import Quantity
from bursar.wire.documents.tree import Number, Value
from bursar.wire.structs.fields import decode_quantity
from bursar.wire.structs.shape import quantity_scalar


@dataclass(frozen=True, slots=True)
class Section:
    value: dict[str, Value]
    path: str

    def at(self, name: str) -> str:
        """The path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def replaced(self, **fields: Value) -> "Section":
        """This object with other values for some fields."""
        return Section({**self.value, **fields}, self.path)

    def has(self, name: str) -> bool:
        return self.value.get(name) is not None

    # -------------------------------------------------------------- scalars

    def text(self, name: str) -> str:
        found = self.value.get(name)
        return found if isinstance(found, str) else ""

    def maybe_text(self, name: str) -> str | None:
        found = self.value.get(name)
        return found if isinstance(found, str) else None

    def word(self, name: str) -> JsonText:
        """A text whose Go type is not plain string: messages print it as JSON."""
        return JsonText(self.text(name))

    def number(self, name: str) -> int:
        return self.maybe_number(name) or 0

    def maybe_number(self, name: str) -> int | None:
        return whole(self.value.get(name))

    def flag(self, name: str) -> bool:
        return self.value.get(name) is True

    def maybe_flag(self, name: str) -> bool | None:
        found = self.value.get(name)
        return found if isinstance(found, bool) else None

    def number_or_text(self, name: str) -> int | str | None:
        """A field of type IntOrString."""
        found = self.value.get(name)
        return found if isinstance(found, str) else whole(found)

    def quantity(self, name: str) -> Quantity | None:
        found = self.value.get(name)
        return None if found is None else decode_quantity(quantity_scalar(found, ""), self.at(name))

    # -------------------------------------------------------------- branches

    def child(self, name: str) -> "Section":
        """An object that Go always has: a missing one is empty."""
        return self.maybe_child(name) or Section({}, self.at(name))

    def maybe_child(self, name: str) -> "Section | None":
        found = self.value.get(name)
        return Section(found, self.at(name)) if isinstance(found, dict) else None

    def count(self, name: str) -> int:
        found = self.value.get(name)
        return len(found) if isinstance(found, list | dict) else 0

    def items(self, name: str) -> Iterator["Section"]:
        """The objects of a list; one that is null is empty."""
        found = self.value.get(name)
        for index, item in enumerate(found if isinstance(found, list) else ()):
            yield Section(item if isinstance(item, dict) else {}, f"{self.at(name)}[{index}]")

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.value.get(name)
        items = found if isinstance(found, list) else ()
        return tuple(item if isinstance(item, str) else "" for item in items)

    def numbers(self, name: str) -> tuple[int, ...]:
        found = self.value.get(name)
        return tuple(whole(item) or 0 for item in (found if isinstance(found, list) else ()))

    def text_map(self, name: str) -> dict[str, str]:
        """An object of texts, such as labels, sorted by key."""
        found = self.value.get(name)
        pairs = sorted(found.items()) if isinstance(found, dict) else ()
        return {key: value if isinstance(value, str) else "" for key, value in pairs}


def whole(value: Value) -> int | None:
    """The number as Go reads it into an integer; None if it is none."""
    if isinstance(value, Number):
        value = value.meaning
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def texts_json(found: dict[str, str]) -> Verbatim:
    """An object of texts in JSON as Go writes it: without blanks, sorted by key."""
    pairs = (f"{json_text(key)}:{json_text(value)}" for key, value in sorted(found.items()))
    return Verbatim(f"{{{','.join(pairs)}}}")
