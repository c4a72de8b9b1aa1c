"""Exact floating point, held against the floats of the machine the tests run on."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.numbers.binary_float import binary64, percent, truncated_int64

INT64 = st.integers(-(2**63), 2**63 - 1)
RATIOS = st.builds(Fraction, INT64, st.integers(1, 2**63 - 1))
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
AMOUNTS = RATIOS | DOUBLES.map(Fraction)


@given(AMOUNTS, AMOUNTS)
def test_rounded_sums_and_products_are_those_of_the_machine(a: Fraction, b: Fraction):
    a, b = binary64(a), binary64(b)
    x, y = float(a), float(b)
    assert (Fraction(x), Fraction(y)) == (a, b)
    for ours, machine in ((a + b, x + y), (a - b, x - y), (a * b, x * y)):
        if math.isinf(machine):
            with pytest.raises(OverflowError):
                binary64(ours)
        else:
            assert binary64(ours) == Fraction(machine)


@given(INT64, INT64.filter(bool))
def test_rounded_quotients_are_those_of_the_machine(a: int, b: int):
    assert binary64(Fraction(binary64(a), binary64(b))) == Fraction(float(a) / float(b))


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        (Fraction(0), Fraction(0)),
        (Fraction(1, 10), Fraction(0.1)),
        (2**53 + 1, Fraction(2**53)),
        (2**53 + 3, Fraction(2**53 + 4)),
        (-(2**53) - 1, Fraction(-(2**53))),
        (Fraction(1, 2**1074), Fraction(1, 2**1074)),
        (Fraction(1, 2**1075), Fraction(0)),
        (Fraction(3, 2**1076), Fraction(1, 2**1074)),
        (Fraction(2**54 - 1, 2**1076), Fraction(1, 2**1022)),
        (2**1024 - 2**970 - 1, Fraction(2**1024 - 2**971)),
    ],
)
def test_ties_go_to_even_and_tiny_numbers_lose_bits(exact: Fraction | int, rounded: Fraction):
    assert binary64(exact) == rounded


def test_what_rounds_to_infinity_is_refused():
    with pytest.raises(OverflowError, match="no finite float of 53 bits is near 2\\^1023"):
        binary64(2**1024 - 2**970)


@pytest.mark.parametrize(
    ("x", "whole"),
    [
        (Fraction(7, 2), 3),
        (Fraction(-7, 2), -3),
        (Fraction(2**63), -(2**63)),
        (Fraction(-(2**63)), -(2**63)),
        (Fraction(-(2**63) - 2**11), -(2**63)),
        (Fraction(2**63 - 2**10), 2**63 - 2**10),
    ],
)
def test_truncation_is_towards_zero_and_never_wraps(x: Fraction, whole: int):
    assert truncated_int64(x) == whole


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (680, 2000, 34),
        (29, 100, 28),  # 0.29 * 100 is 28.999999999999996
        (1, 3, 33),
        (2, 1, 200),
        (0, 7, 0),
        (-1, 3, -33),
        (7, 0, -(2**63)),
        (0, 0, -(2**63)),
        (2**63 - 1, 1, -(2**63)),
        (2**63 - 1, 2**63 - 1, 100),
    ],
)
def test_percentages_are_cut_off_not_rounded(part: int, whole: int, expected: int):
    assert percent(part, whole) == expected


@given(INT64, INT64.filter(bool))
def test_percentages_are_those_of_the_machine(part: int, whole: int):
    machine = float(part) / float(whole) * 100.0
    expected = int(machine) if -(2.0**63) <= machine < 2.0**63 else -(2**63)
    assert percent(part, whole) == expected
