"""Conversions between types, quantities, and the calendar."""

import re
from typing import Final

from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.functions.overload import Functions, Impl, function, method
from bursar.core.cel.times import (
    DURATION_UNITS,
    NANOS,
    ZoneOffset,
    calendar_field,
    duration_field,
    duration_of,
    duration_text,
    in_range,
    offset_s,
    timestamp_of,
    timestamp_text,
)
from bursar.core.cel.types import BOOL, DURATION, INT, QUANTITY, STRING, TIMESTAMP
from bursar.core.cel.values import Timestamp, int64
from bursar.core.model.quantity import Quantity, QuantityError

_INT: Final = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
ZONE_STEPS: Final = 1_000
"""Cost of a time zone. An unknown name is looked for in several folders."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _int_of_text(_: Meter, text: str) -> int:
    if not _INT.fullmatch(text):
        raise EvalError(f"{text[:40]!a} is not an integer")
    return int64(int(text))


def _bool_of_text(_: Meter, text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise EvalError(f"{text[:40]!a} is neither true nor false")


def _quantity(meter: Meter, text: str) -> Quantity:
    meter.spend_text(16 * len(text))
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvalError(f"quantity({text[:40]!a}): {error}") from None


def _is_quantity(meter: Meter, text: str) -> bool:
    try:
        _quantity(meter, text)
    except EvalError:
        return False
    return True


def _as_integer(_: Meter, amount: Quantity) -> int:
    value = amount.as_int64()
    if value is None:
        raise EvalError("cannot convert value to integer")
    return value


def _compare(_: Meter, one: Quantity, other: Quantity) -> int:
    return (one > other) - (one < other)


_CONVERSIONS: Final[Functions] = {
    "int": (
        function(INT, gives=INT, by=lambda _, value: value),
        function(STRING, gives=INT, by=_int_of_text),
        function(TIMESTAMP, gives=INT, by=lambda _, time: time.nanos // NANOS),
        function(DURATION, gives=INT, by=lambda _, duration: duration.nanos),
    ),
    "string": (
        function(STRING, gives=STRING, by=lambda _, value: value),
        function(INT, gives=STRING, by=lambda _, value: str(value)),
        function(BOOL, gives=STRING, by=lambda _, value: "true" if value else "false"),
        function(TIMESTAMP, gives=STRING, by=lambda _, time: timestamp_text(time)),
        function(DURATION, gives=STRING, by=lambda _, duration: duration_text(duration)),
    ),
    "bool": (
        function(BOOL, gives=BOOL, by=lambda _, value: value),
        function(STRING, gives=BOOL, by=_bool_of_text),
    ),
    "timestamp": (
        function(TIMESTAMP, gives=TIMESTAMP, by=lambda _, time: time),
        function(STRING, gives=TIMESTAMP, by=lambda _, text: timestamp_of(text)),
        function(
            INT, gives=TIMESTAMP, by=lambda _, seconds: in_range(Timestamp(seconds * NANOS))
        ),
    ),
    "duration": (
        function(DURATION, gives=DURATION, by=lambda _, duration: duration),
        function(STRING, gives=DURATION, by=lambda _, text: duration_of(text)),
    ),
}  # fmt: skip

_QUANTITIES: Final[Functions] = {
    "quantity": (function(STRING, gives=QUANTITY, by=_quantity),),
    "isQuantity": (function(STRING, gives=BOOL, by=_is_quantity),),
    "sign": (
        function(QUANTITY, gives=INT, by=lambda _, amount: (amount.nanos > 0) - (amount.nanos < 0)),
    ),
    "isGreaterThan": (
        method(QUANTITY, QUANTITY, gives=BOOL, by=lambda _, one, other: one > other),
    ),
    "isLessThan": (method(QUANTITY, QUANTITY, gives=BOOL, by=lambda _, one, other: one < other),),
    "compareTo": (method(QUANTITY, QUANTITY, gives=INT, by=_compare),),
    "asInteger": (method(QUANTITY, gives=INT, by=_as_integer),),
    "isInteger": (
        method(QUANTITY, gives=BOOL, by=lambda _, amount: amount.as_int64() is not None),
    ),
    "add": (
        method(QUANTITY, QUANTITY, gives=QUANTITY, by=lambda _, one, other: one + other),
        method(QUANTITY, INT, gives=QUANTITY, by=lambda _, one, add: one + Quantity.of(add)),
    ),
    "sub": (
        method(QUANTITY, QUANTITY, gives=QUANTITY, by=lambda _, one, other: one - other),
        method(QUANTITY, INT, gives=QUANTITY, by=lambda _, one, less: one - Quantity.of(less)),
    ),
}
_FIELDS: Final = (
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds",
)  # fmt: skip


def conversions(zones: ZoneOffset) -> tuple[Functions, ...]:
    calendar = {
        name: (
            method(TIMESTAMP, gives=INT, by=_in_utc(name)),
            method(TIMESTAMP, STRING, gives=INT, by=_in_zone(name, zones)),
            *(
                (method(DURATION, gives=INT, by=_of_duration(name)),)
                if name in DURATION_UNITS
                else ()
            ),
        )
        for name in _FIELDS
    }
    return _CONVERSIONS, _QUANTITIES, calendar


def _in_utc(name: str) -> Impl:
    return lambda _, time: calendar_field(name, time, 0)


def _in_zone(name: str, zones: ZoneOffset) -> Impl:
    def by(meter: Meter, time: Timestamp, zone: str) -> int:
        meter.spend(ZONE_STEPS)
        return calendar_field(name, time, offset_s(zone, time.nanos // NANOS, zones))

    return by


def _of_duration(name: str) -> Impl:
    return lambda _, duration: duration_field(name, duration)
