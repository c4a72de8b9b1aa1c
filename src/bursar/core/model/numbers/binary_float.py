"""Floating point without floats: the few upstream numbers that are computed in one.

Upstream computes percentages, cgroup values and scores in float64, and the rounding shows
in the results. A binary floating point number is a fraction, so the same steps are taken here on
exact fractions, each followed by the rounding of the hardware (to nearest, ties to even). A caller
writes the operations in Go's order and rounds after every one of them:

>>> binary64(binary64(Fraction(29, 100)) * 100) < 29
True

There is no infinity, no NaN and no negative zero. A result too large for the format
raises `OverflowError`, and a division by zero stays the caller's own case.
"""

from fractions import Fraction
from functools import lru_cache
from math import trunc
from typing import Final

from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN

_BITS: Final = 53
_SMALLEST: Final = -1074
_LARGEST: Final = 1024
_BITS_32: Final = 24
_SMALLEST_32: Final = -149


def binary64(x: Fraction | int) -> Fraction:
    """The float64 nearest to `x`, exactly."""
    if x.denominator == 1 and x.numerator.bit_length() <= _BITS:
        return Fraction(x)
    nearest = _nearest(Fraction(x), _BITS, _SMALLEST)
    if abs(nearest) >= 1 << _LARGEST:
        raise OverflowError(f"no finite float of {_BITS} bits is near 2^{_floor_log2(Fraction(x))}")
    return nearest


def binary32(x: Fraction) -> Fraction:
    """The float32 nearest to `x`, exactly. For numbers far below the largest float32."""
    return Fraction(0) if x == 0 else _nearest(x, _BITS_32, _SMALLEST_32)


def _nearest(x: Fraction, bits: int, smallest: int) -> Fraction:
    last = max(_floor_log2(x) - bits + 1, smallest)
    # In integers, since each operation on fractions looks for a common divisor.
    numerator, denominator = x.numerator, x.denominator
    if last >= 0:
        return Fraction(_rounded(numerator, denominator << last) << last)
    return Fraction(_rounded(numerator << -last, denominator), 1 << -last)


def _rounded(numerator: int, denominator: int) -> int:
    """The nearest integer to a quotient, ties to even."""
    whole, rest = divmod(numerator, denominator)
    is_up = 2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1)
    return whole + is_up


def truncated_int64(x: Fraction) -> int:
    """Go's `int64(x)` on amd64: towards zero, and the smallest int64 for what does not fit."""
    whole = trunc(x)
    return whole if INT64_MIN <= whole <= INT64_MAX else INT64_MIN


@lru_cache(maxsize=4096)
def percent(part: int, whole: int) -> int:
    """Go's `int64(float64(part) / float64(whole) * 100)`, as kubectl prints shares of a node.

    On amd64 a division by zero, being infinite or no number at all, becomes the
    smallest int64.

    >>> percent(29, 100), percent(7, 0)
    (28, -9223372036854775808)
    """
    if whole == 0:
        return INT64_MIN
    quotient = binary64(Fraction(binary64(part), binary64(whole)))
    return truncated_int64(binary64(quotient * 100))


def _floor_log2(x: Fraction) -> int:
    """The exponent of the greatest power of two not above `abs(x)`, which is not zero."""
    numerator, denominator = abs(x.numerator), x.denominator
    guess = numerator.bit_length() - denominator.bit_length()
    reached = (
        numerator >= denominator << guess if guess >= 0 else numerator << -guess >= denominator
    )
    return guess if reached else guess - 1
