"""Conversion of plain values to typed structs, with errors that name the field as Kubernetes does.

The errors of msgspec have no names of keys (`$.labels[...]`), and msgspec does not know `Number`.
If msgspec fails, the value is walked again along the types. Either this finds the field, or it
replaces each `Number` by its text where a quantity is expected, and the conversion then succeeds.
"""

from functools import cache
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from bursar.wire.documents.tree import Number, Value
from bursar.wire.structs.fields import FieldError, Scalar

Typed = TypeVar("Typed", bound=msgspec.Struct)


def shaped(value: Value, kind: type[Typed]) -> Typed:
    """Convert a document's value to a struct. Raises `FieldError`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_conform(value, _type_of(kind), ""), kind)


@cache
def _type_of(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


def _conform(value: Value, wanted: inspect.Type, field: str) -> Value:
    if isinstance(value, Number) and value.meaning is not None:
        value = value.meaning
    match wanted:
        case inspect.UnionType(types=types):
            return _conform_optional(value, types, field)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            return {
                name: _conform(value[name], inner.type, f"{field}.{name}" if field else name)
                for inner in fields
                if (name := inner.encode_name) in value
            }
        case inspect.DictType(value_type=inner_type) if isinstance(value, dict):
            return {key: _conform(v, inner_type, f"{field}[{key}]") for key, v in value.items()}
        case inspect.ListType(item_type=inner_type) if isinstance(value, list):
            return [_conform(v, inner_type, f"{field}[{i}]") for i, v in enumerate(value)]
    word, exact = _EXPECTATIONS[type(wanted)]
    if type(value) is not exact:
        # In YAML, `n` without quotes is a boolean and `1.20` a number.
        is_bare = exact is str and isinstance(value, bool | int | float)
        hint = "; quote it to make it one" if is_bare else ""
        raise FieldError(field, f"{word} is expected, found {described(value)}{hint}")
    return value


def _conform_optional(value: Value, types: tuple[inspect.Type, ...], field: str) -> Value:
    """Conform to an optional type. A union with float is a quantity in any notation."""
    if value is None:
        return None
    if any(isinstance(each, inspect.FloatType) for each in types):
        return quantity_scalar(value, field)
    wanted = next(each for each in types if not isinstance(each, inspect.NoneType))
    return _conform(value, wanted, field)


def quantity_scalar(value: Value, field: str) -> Scalar:
    """What `decode_quantity` reads a quantity from. Raises `FieldError`."""
    if isinstance(value, Number):
        return value.text if value.meaning is None else value.meaning
    if isinstance(value, dict | list):
        raise FieldError(field, f"a quantity is expected, found {described(value)}")
    return value


def described(value: Value) -> str:
    """The type of a value in words. The value is not shown, because it may be a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"


_EXPECTATIONS: Final[dict[type[inspect.Type], tuple[str, type]]] = {
    inspect.StrType: ("a string", str),
    inspect.IntType: ("a whole number", int),
    inspect.BoolType: ("true or false", bool),
    inspect.ListType: ("a list", list),
    inspect.DictType: ("an object", dict),
    inspect.StructType: ("an object", dict),
}
