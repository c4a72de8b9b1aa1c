"""Amounts in tables: short enough to read. Documents and CSV have them exactly."""

from typing import Final

from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, STORAGE
from bursar.core.model.quantity import MILLI, NANOS_PER_UNIT, Quantity

_SIZES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE, STORAGE})
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP: Final = 1024
_MANY_CORES: Final = 100
_FINEST: Final = 100
"""A number is shown in hundredths of its unit at most, and with three digits at least."""


def short_amount(resource: str, amount: Quantity, *, rounds_down: bool = False) -> str:
    """The amount as a table shows it.

    CPU is rounded up to thousandths, or to tenths if there is much of it. Sizes have the largest unit of which there is at least one,
    and three digits, rounded to the nearest, or down.

    >>> short_amount("memory", Quantity.parse("65811260Ki")), short_amount("cpu", Quantity.parse("1.5"))
    ('62.8Gi', '1500m')
    """  # noqa: E501 - an example in one line
    base = resource.removeprefix("requests.").removeprefix("limits.").partition("/")[0]
    if base in _SIZES or base.startswith(HUGEPAGES_PREFIX) or resource.endswith(f".{STORAGE}"):
        return _size(amount, rounds_down=rounds_down)
    if base == CPU:
        return _cores(amount, rounds_down=rounds_down)
    # A count is written as 20000, not as the canonical 20k.
    return amount.exact


def _cores(amount: Quantity, *, rounds_down: bool) -> str:
    if abs(amount.nanos) < _MANY_CORES * NANOS_PER_UNIT:
        return amount.round_up(MILLI).canonical
    tenth = NANOS_PER_UNIT // 10
    tenths = amount.nanos // tenth if rounds_down else -(-amount.nanos // tenth)
    return Quantity(tenths * tenth).exact


def _size(amount: Quantity, *, rounds_down: bool) -> str:
    sign = "-" if amount.is_negative else ""
    power, unit = 0, NANOS_PER_UNIT
    number = _hundredths(abs(amount.nanos), unit, rounds_down=rounds_down)
    while number >= _STEP * _FINEST and power < len(_UNITS) - 1:
        power, unit = power + 1, unit * _STEP
        number = _hundredths(abs(amount.nanos), unit, rounds_down=rounds_down)
    whole, rest = divmod(number, _FINEST)
    fraction = f".{rest:02d}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}{_UNITS[power]}"


def _hundredths(nanos: int, unit: int, *, rounds_down: bool) -> int:
    """The number of hundredths of a unit, rounded so that three digits are left."""
    step = 100 if nanos >= 100 * unit else 10 if nanos >= 10 * unit else 1
    part = unit * step
    steps = nanos * _FINEST // part if rounds_down else (nanos * _FINEST * 2 + part) // (part * 2)
    return steps * step
