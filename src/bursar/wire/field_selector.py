"""Field selectors, as in `kubectl get --field-selector status.phase=Running`.

The API server knows a few fields of each kind. Here any field with a single value can be named,
since the whole object is at hand; a field that is absent has the value "".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bursar.wire.documents.tree import Number, Value
from bursar.wire.structs.fields import quoted


class FieldSelectorError(ValueError):
    """Text that is not a field selector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldCondition:
    """One condition on one field."""

    path: tuple[str, ...]
    value: str
    is_equal: bool

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}{'=' if self.is_equal else '!='}{self.value}"

    def matches(self, value: Mapping[str, Value]) -> bool:
        return (_text_at(value, self.path) == self.value) is self.is_equal


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions that must all hold."""

    conditions: Sequence[FieldCondition] = ()

    def __str__(self) -> str:
        """The text form, which the API server reads.

        >>> str(parse_field_selector("spec.nodeName!=, status.phase==Running"))
        'spec.nodeName!=,status.phase=Running'
        """
        return ",".join(map(str, self.conditions))

    def matches(self, value: Mapping[str, Value]) -> bool:
        return all(condition.matches(value) for condition in self.conditions)


def parse_field_selector(text: str) -> FieldSelector:
    """Read `path=value`, `path==value` and `path!=value`, joined by commas.

    Raises `FieldSelectorError`.

    >>> parse_field_selector("spec.nodeName!=").matches({"spec": {"nodeName": "a"}})
    True
    """
    return FieldSelector([_condition(part) for part in text.split(",") if part.strip()])


def _condition(part: str) -> FieldCondition:
    for sign in ("!=", "==", "="):
        path, found, value = part.partition(sign)
        if found and path.strip():
            steps = tuple(path.strip().split("."))
            return FieldCondition(path=steps, value=value.strip(), is_equal=sign != "!=")
    raise FieldSelectorError(f"{quoted(part)}: write field=value or field!=value")


def _text_at(value: "Value | Mapping[str, Value]", path: Sequence[str]) -> str:
    for step in path:
        if not isinstance(value, Mapping):
            return ""
        value = value.get(step)
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Number():
            return value.text
        case str() | int() | float():
            return str(value)
        case _:
            return ""
