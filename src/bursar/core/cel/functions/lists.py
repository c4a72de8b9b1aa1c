"""Functions of lists and sets that Kubernetes adds."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.functions.overload import Functions, Overload, function, method
from bursar.core.cel.times import bounded
from bursar.core.cel.types import (
    BOOL,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    A,
    list_of,
    optional_of,
)
from bursar.core.cel.values import NOTHING, Duration, Maybe, Timestamp, equal, int64

_ORDERED: Final = (INT, STRING, BOOL, TIMESTAMP, DURATION)
_ZERO_TIME: Final = Timestamp(-62135596800 * 10**9)
"""Go's: the first second of the year 1."""
Sortable = int | str | Timestamp | Duration
"""Values that have an order. They are compared only with values of their own class."""


def _sum(meter: Meter, values: list[object]) -> object:
    meter.spend(1 + len(values))
    if values and all(type(each) is Duration for each in values):
        return bounded(sum(each.nanos for each in values if isinstance(each, Duration)))
    total = 0
    for each in values:
        if type(each) is not int:
            raise EvalError("no such overload: sum() takes a list of int or of durations")
        total = int64(total + each)
    return total


def _sortables(meter: Meter, name: str, values: list[object]) -> Iterator[Sortable]:
    meter.spend(1 + 2 * len(values))
    for each in values:
        if type(each) is not type(values[0]) or not isinstance(each, Sortable):
            raise EvalError(f"no such overload: {name}() takes a list of one ordered type")
        if isinstance(each, str):
            meter.spend_text(len(each))
        yield each


def _is_sorted(meter: Meter, values: list[object]) -> bool:
    found = list(_sortables(meter, "isSorted", values))
    return all(_key(one) <= _key(two) for one, two in pairwise(found))


def _key(value: Sortable) -> tuple[int, str]:
    """All values of a list are of one class, so one of the two is the same for all."""
    if isinstance(value, str):
        return 0, value
    return (value, "") if isinstance(value, int) else (value.nanos, "")


def _extreme(
    name: str, choose: Callable[[list[Sortable]], Sortable]
) -> Callable[[Meter, list[object]], object]:
    def by(meter: Meter, values: list[object]) -> object:
        if not values:
            raise EvalError(f"{name} called on empty list")
        return choose(list(_sortables(meter, name, values)))

    return by


def _index_of(meter: Meter, values: list[object], wanted: object) -> int:
    meter.spend(1 + len(values))
    found = (at for at, each in enumerate(values) if equal(meter, each, wanted))
    return next(found, -1)


def _last_index_of(meter: Meter, values: list[object], wanted: object) -> int:
    meter.spend(1 + len(values))
    found = (at for at in reversed(range(len(values))) if equal(meter, values[at], wanted))
    return next(found, -1)


def _contains_all(meter: Meter, values: list[object], wanted: list[object]) -> bool:
    meter.spend(1 + len(values) * len(wanted))
    return all(any(equal(meter, each, one) for each in values) for one in wanted)


def _intersects(meter: Meter, values: list[object], others: list[object]) -> bool:
    meter.spend(1 + len(values) * len(others))
    return any(equal(meter, each, one) for each in values for one in others)


def _are_equivalent(meter: Meter, values: list[object], others: list[object]) -> bool:
    return _contains_all(meter, values, others) and _contains_all(meter, others, values)


def _sets(by: Callable[[Meter, list[object], list[object]], bool]) -> tuple[Overload, ...]:
    return (function(list_of(A), list_of(A), gives=BOOL, by=by),)


def _non_zero(_: Meter, value: object) -> Maybe:
    if isinstance(value, Duration):
        return Maybe(value) if value.nanos else NOTHING
    if isinstance(value, Timestamp):
        return Maybe(value) if value != _ZERO_TIME else NOTHING
    return Maybe(value) if value else NOTHING


def _value(_: Meter, wrapped: Maybe) -> object:
    if wrapped.is_present:
        return wrapped.value
    raise EvalError("optional.none() dereference")


LISTS: Final[Functions] = {
    "sum": (
        method(list_of(INT), gives=INT, by=_sum),
        method(list_of(DURATION), gives=DURATION, by=_sum),
    ),
    "isSorted": tuple(method(list_of(each), gives=BOOL, by=_is_sorted) for each in _ORDERED),
    "min": tuple(
        method(list_of(each), gives=each, by=_extreme("min", lambda found: min(found, key=_key)))
        for each in _ORDERED
    ),
    "max": tuple(
        method(list_of(each), gives=each, by=_extreme("max", lambda found: max(found, key=_key)))
        for each in _ORDERED
    ),
    "indexOf": (method(list_of(A), A, gives=INT, by=_index_of),),
    "lastIndexOf": (method(list_of(A), A, gives=INT, by=_last_index_of),),
    "sets.contains": _sets(_contains_all),
    "sets.equivalent": _sets(_are_equivalent),
    "sets.intersects": _sets(_intersects),
    "optional.of": (function(A, gives=optional_of(A), by=lambda _, value: Maybe(value)),),
    "optional.none": (function(gives=optional_of(A), by=lambda _: NOTHING),),
    "optional.ofNonZeroValue": (function(A, gives=optional_of(A), by=_non_zero),),
    "hasValue": (method(optional_of(A), gives=BOOL, by=lambda _, wrapped: wrapped.is_present),),
    "value": (method(optional_of(A), gives=A, by=_value),),
}
