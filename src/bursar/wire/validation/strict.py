"""Strict decoding: fields that the API server does not know, and values of the wrong type.

The server answers `strict decoding error: unknown field "spec.foo"` to a create with
`fieldValidation=Strict`, as kubectl sends it by default. Unknown fields are in its words and order:
kubectl sorts the keys of each object. Type errors are in our words.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from bursar.wire.documents.tree import Number, Value
from bursar.wire.structs.fields import FieldError, decode_quantity, decode_time
from bursar.wire.structs.shape import described, quantity_scalar
from bursar.wire.validation.field_types import FIELD_TYPES
from bursar.wire.validation.section import whole

ERRORS_MAX: Final = 100
"""The server's decoder reports no more unknown fields than this."""

_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)


def unknown_fields(kind: str, value: dict[str, Value]) -> tuple[str, ...]:
    """The paths of the fields that objects of `kind` do not have."""
    found = _Found()
    _walk(kind, value, "", found)
    return tuple(found.unknown)


def type_errors(kind: str, value: dict[str, Value]) -> tuple[str, ...]:
    """Values that cannot be decoded into their field: `spec.replicas: ...`."""
    found = _Found()
    _walk(kind, value, "", found)
    return tuple(found.mistyped)


def strict_error(paths: tuple[str, ...]) -> str:
    """The server's message about unknown fields."""
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in paths)


class _Found:
    def __init__(self) -> None:
        self.unknown: dict[str, None] = {}
        self.mistyped: list[str] = []

    def add_unknown(self, path: str) -> None:
        if len(self.unknown) < ERRORS_MAX:
            self.unknown[path] = None

    def add_mistyped(self, path: str, text: str) -> None:
        if len(self.mistyped) < ERRORS_MAX:
            self.mistyped.append(f"{path}: {text}")


@cache
def _fields(kind: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in FIELD_TYPES[kind].split())
    return {name: type_ for name, _, type_ in pairs}


def _walk(wanted: str, value: Value, path: str, found: _Found) -> None:
    if value is None:
        return
    if wanted[0] == "[":
        _walk_list(wanted[1:-1], value, path, found)
    elif wanted[0] == "{":
        _walk_map(wanted[1:-1], value, path, found)
    elif len(wanted) > 1:
        _walk_object(wanted, value, path, found)
    elif (problem := _scalar_problem(wanted, value)) is not None:
        found.add_mistyped(path, problem)


def _walk_list(wanted: str, value: Value, path: str, found: _Found) -> None:
    if not isinstance(value, list):
        found.add_mistyped(path, f"a list is expected, found {described(value)}")
        return
    for index, item in enumerate(value):
        _walk(wanted, item, f"{path}[{index}]", found)


def _walk_map(wanted: str, value: Value, path: str, found: _Found) -> None:
    if not isinstance(value, dict):
        found.add_mistyped(path, f"an object is expected, found {described(value)}")
        return
    for key, item in value.items():
        _walk(wanted, item, f"{path}.{key}", found)


def _walk_object(kind: str, value: Value, path: str, found: _Found) -> None:
    if not isinstance(value, dict):
        found.add_mistyped(path, f"an object is expected, found {described(value)}")
        return
    fields = _fields(kind)
    for name in sorted(value):
        inner = f"{path}.{name}" if path else name
        if name in fields:
            _walk(fields[name], value[name], inner, found)
        else:
            found.add_unknown(inner)


# ------------------------------------------------------------------ scalars


def _scalar_problem(wanted: str, value: Value) -> str | None:
    match wanted:
        case "s":
            expected = None if isinstance(value, str) else "a string"
        case "b":
            expected = None if isinstance(value, bool) else "true or false"
        case "i" | "l":
            return _number_problem(_INT32 if wanted == "i" else _INT64, value)
        case "x":
            return None if isinstance(value, str) else _number_problem(_INT32, value)
        case "o":
            expected = None if isinstance(value, dict) else "an object"
        case _:
            return next(_text_problems(wanted, value), None)
    return None if expected is None else f"{expected} is expected, found {described(value)}"


def _number_problem(bounds: range, value: Value) -> str | None:
    number = whole(value)
    if number is None:
        what = "a fraction" if isinstance(value, float | Number) else described(value)
        return f"a whole number is expected, found {what}"
    if number not in bounds:
        return f"a number from {bounds.start} to {bounds.stop - 1} is expected"
    return None


def _text_problems(wanted: str, value: Value) -> Iterator[str]:
    """Quantities and times: texts with a syntax of their own."""
    try:
        if wanted == "q":
            decode_quantity(quantity_scalar(value, ""), "")
        elif isinstance(value, str):
            decode_time(value, "")
        else:
            yield f"a time is expected, found {described(value)}"
    except FieldError as error:
        yield error.problem
