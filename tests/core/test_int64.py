"""Go's int64 arithmetic."""

import pytest

from bursar.core.model.numbers.int64 import quotient, wrapped


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (0, 0),
        (2**63 - 1, 2**63 - 1),
        (2**63, -(2**63)),
        (-(2**63) - 1, 2**63 - 1),
        (1000 * (7 << 60), -(2**63)),
    ],
)
def test_what_does_not_fit_wraps_around(value: int, kept: int):
    assert wrapped(value) == kept


@pytest.mark.parametrize(
    ("dividend", "divisor", "result"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (0, -5, 0), (-(2**63), -1, -(2**63))],
)
def test_division_is_towards_zero(dividend: int, divisor: int, result: int):
    assert quotient(dividend, divisor) == result
