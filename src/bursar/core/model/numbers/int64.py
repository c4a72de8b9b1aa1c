"""Go's int64, where upstream's arithmetic shows: it wraps around and divides towards zero."""

from typing import Final

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)


def wrapped(value: int) -> int:
    """The low 64 bits, as a signed number.

    >>> wrapped(2**63)
    -9223372036854775808
    """
    return (value - INT64_MIN) % 2**64 + INT64_MIN


def quotient(dividend: int, divisor: int) -> int:
    """Go's `/`: the fraction is cut off, where Python would round down.

    >>> quotient(-7, 2), -7 // 2
    (-3, -4)
    """
    magnitude = abs(dividend) // abs(divisor)
    return wrapped(magnitude if (dividend < 0) == (divisor < 0) else -magnitude)
