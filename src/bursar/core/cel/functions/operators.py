"""Arithmetic, comparison, and membership (`in`)."""

import operator
from collections.abc import Callable
from typing import Final

from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.functions.overload import Functions, Impl, Overload, function, method
from bursar.core.cel.times import bounded, in_range
from bursar.core.cel.types import (
    BOOL,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    TYPE,
    A,
    B,
    CelType,
    list_of,
    map_of,
)
from bursar.core.cel.values import Timestamp, equal, int64, type_of
from bursar.core.model.numbers.int64 import INT64_MIN
from bursar.core.model.quantity import Quantity


def _add_texts(meter: Meter, one: str, other: str) -> str:
    meter.spend_text(len(one) + len(other))
    return one + other


def _add_lists(meter: Meter, one: list[object], other: list[object]) -> list[object]:
    meter.spend(1 + (len(one) + len(other) >> 2))
    return one + other


def _divide(_: Meter, one: int, other: int) -> int:
    if other == 0:
        raise EvalError("division by zero")
    whole = abs(one) // abs(other)
    return int64(whole if (one < 0) == (other < 0) else -whole)


def _remainder(_: Meter, one: int, other: int) -> int:
    if other == 0:
        raise EvalError("modulus by zero")
    if (one, other) == (INT64_MIN, -1):
        raise EvalError("integer overflow")
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _differ(meter: Meter, one: object, other: object) -> bool:
    """Unlike `==`, it compares a quantity with a value of another type, as in Kubernetes."""
    if type(one) is Quantity and type(other) is not Quantity:
        return True
    return not equal(meter, one, other)


def _is_in_list(meter: Meter, value: object, values: list[object]) -> bool:
    meter.spend(1 + len(values))
    return any(equal(meter, each, value) for each in values)


def _is_in_map(_: Meter, key: object, values: dict[object, object]) -> bool:
    return type_of(key) in (STRING, INT) and key in values


def _ordered(by: Callable[..., bool]) -> tuple[Overload, ...]:  # type: ignore[explicit-any] # by overload
    def of_texts(meter: Meter, one: str, other: str) -> bool:
        meter.spend_text(min(len(one), len(other)))
        return by(one, other)

    def of_others(_: Meter, one: object, other: object) -> bool:
        return by(one, other)

    kinds = (INT, BOOL, TIMESTAMP, DURATION)
    others = (function(kind, kind, gives=BOOL, by=of_others) for kind in kinds)
    return (function(STRING, STRING, gives=BOOL, by=of_texts), *others)


def _size(_: Meter, value: str | list[object] | dict[object, object]) -> int:
    return len(value)


def _sizes() -> tuple[Overload, ...]:
    kinds: tuple[CelType, ...] = (STRING, list_of(A), map_of(A, B))
    return tuple(make(kind, gives=INT, by=_size) for kind in kinds for make in (function, method))


def _times(compute: Callable[[int, int], int]) -> Impl:
    def by(_: Meter, one: int, other: int) -> int:
        return int64(compute(one, other))

    return by


OPERATORS: Final[Functions] = {
    "+": (
        function(INT, INT, gives=INT, by=_times(operator.add)),
        function(STRING, STRING, gives=STRING, by=_add_texts),
        function(list_of(A), list_of(A), gives=list_of(A), by=_add_lists),
        function(
            TIMESTAMP,
            DURATION,
            gives=TIMESTAMP,
            by=lambda _, one, other: in_range(Timestamp(one.nanos + other.nanos)),
        ),
        function(
            DURATION,
            TIMESTAMP,
            gives=TIMESTAMP,
            by=lambda _, one, other: in_range(Timestamp(one.nanos + other.nanos)),
        ),
        function(
            DURATION,
            DURATION,
            gives=DURATION,
            by=lambda _, one, other: bounded(one.nanos + other.nanos),
        ),
    ),
    "-": (
        function(INT, INT, gives=INT, by=_times(operator.sub)),
        function(
            TIMESTAMP,
            TIMESTAMP,
            gives=DURATION,
            by=lambda _, one, other: bounded(one.nanos - other.nanos),
        ),
        function(
            TIMESTAMP,
            DURATION,
            gives=TIMESTAMP,
            by=lambda _, one, other: in_range(Timestamp(one.nanos - other.nanos)),
        ),
        function(
            DURATION,
            DURATION,
            gives=DURATION,
            by=lambda _, one, other: bounded(one.nanos - other.nanos),
        ),
    ),
    "*": (function(INT, INT, gives=INT, by=_times(operator.mul)),),
    "/": (function(INT, INT, gives=INT, by=_divide),),
    "%": (function(INT, INT, gives=INT, by=_remainder),),
    "-_": (function(INT, gives=INT, by=lambda _, value: int64(-value)),),
    "!_": (function(BOOL, gives=BOOL, by=lambda _, value: not value),),
    "==": (function(A, A, gives=BOOL, by=equal),),
    "!=": (function(A, A, gives=BOOL, by=_differ),),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": (
        function(A, list_of(A), gives=BOOL, by=_is_in_list),
        function(A, map_of(A, B), gives=BOOL, by=_is_in_map),
    ),
    "size": _sizes(),
    "type": (function(A, gives=TYPE, by=lambda _, value: type_of(value)),),
    "dyn": (function(A, gives=DYN, by=lambda _, value: value),),
}
