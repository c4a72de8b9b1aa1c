"""Values of expressions. JSON's own values stay what they are in Python."""

from typing import Final, NamedTuple

from bursar.core.cel import types
from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.types import CelType
from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN
from bursar.core.model.quantity import Quantity


class Timestamp(NamedTuple):
    """A point in time."""

    nanos: int
    """Since 1970."""


class Duration(NamedTuple):
    nanos: int


class Maybe(NamedTuple):
    """An optional value."""

    value: object
    is_present: bool = True


NOTHING: Final = Maybe(None, is_present=False)


class Double(NamedTuple):
    """A JSON number with a fraction or an exponent. Nothing can be done with it."""

    text: str


CLASSES: Final[dict[str, type]] = {
    types.INT.name: int,
    types.BOOL.name: bool,
    types.STRING.name: str,
    types.NULL.name: type(None),
    types.TIMESTAMP.name: Timestamp,
    types.DURATION.name: Duration,
    types.QUANTITY.name: Quantity,
    types.TYPE.name: CelType,
    "list": list,
    "map": dict,
    "optional_type": Maybe,
}
"""The Python class of the values of each type."""

TYPES: Final = {held: CelType(name) for name, held in CLASSES.items()}
"""The type of the values of each Python class, without type parameters."""


def type_of(value: object) -> CelType:
    found = TYPES.get(type(value))
    if found is None:
        raise EvalError("numbers with a fraction or an exponent are not supported")
    return found


def int64(value: int) -> int:
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise EvalError("integer overflow")


def equal(meter: Meter, one: object, other: object) -> bool:
    """Whether two values are equal. Values of different types are not."""
    kind = type(one)
    if kind is not type(other):
        if kind is Double or type(other) is Double:
            type_of(Double(""))
        if kind is Quantity:
            raise EvalError("no such overload: a quantity is compared with another type")
        return False
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        meter.spend(2 + 2 * len(one))
        return all(equal(meter, left, right) for left, right in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        if len(one) != len(other):
            return False
        meter.spend(2 + 3 * len(one))
        return one.keys() == other.keys() and all(equal(meter, one[key], other[key]) for key in one)
    if isinstance(one, Maybe) and isinstance(other, Maybe):
        if one.is_present != other.is_present:
            return False
        return equal(meter, one.value, other.value)
    if isinstance(one, str):
        meter.spend_text(len(one))
    return one == other


def lookup_key(key: object) -> str | int:
    """The key as maps hold it. Python takes True for 1, so keys of that type are not supported."""
    if type(key) is str or type(key) is int:
        return key
    raise EvalError(f"unsupported key type: {type_of(key)}")
