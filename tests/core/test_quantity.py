"""Quantities, by golden vectors (held against upstream too, in tests/oracle) and by property."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN
from bursar.core.model.quantity import (
    EXPONENT_MAX,
    TEXT_LENGTH_MAX,
    Format,
    Quantity,
    QuantityError,
)

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "golden" / "quantities.jsonl").read_text().splitlines()
]
ACCEPTED = [vector for vector in VECTORS if "error" not in vector]
REFUSED = [vector for vector in VECTORS if "error" in vector]

MULTIPLIERS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "e3": 10**3, "E-3": Fraction(1, 1000), "e+6": 10**6, "E0": 1,
}  # fmt: skip


@pytest.mark.parametrize("vector", ACCEPTED, ids=lambda v: v["input"] or "empty")
def test_text_format_and_integer_views(vector):
    quantity = Quantity.parse(vector["input"])

    assert str(quantity) == vector["text"]
    assert quantity.canonical == vector["canonical"]
    assert quantity.format.value == vector["format"]
    assert quantity.value() == vector["value"]
    assert quantity.milli_value() == vector["milliValue"]
    assert quantity.as_int64() == vector["int64"]


@pytest.mark.parametrize("vector", REFUSED, ids=lambda v: ascii(v["input"]))
def test_refusals_use_upstreams_words(vector):
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(vector["input"])

    assert str(refusal.value) == vector["error"]


@given(st.decimals(-(10**6), 10**6, places=3), st.sampled_from(sorted(MULTIPLIERS)))
def test_amount_is_the_number_times_its_suffix_rounded_up_to_a_nano(number, suffix):
    exact = Fraction(number) * MULTIPLIERS[suffix] * 10**9
    away_from_zero = -(-abs(exact).numerator // abs(exact).denominator)
    capped = min(away_from_zero, INT64_MAX * 10**9) if suffix.endswith("i") else away_from_zero

    assert Quantity.parse(f"{number}{suffix}").nanos == (capped if exact >= 0 else -capped)


def test_a_text_beyond_the_bound_is_refused_before_it_is_read():
    with pytest.raises(QuantityError, match="1025 characters long; at most 1024"):
        Quantity.parse("1" * (TEXT_LENGTH_MAX + 1))

    assert Quantity.parse("1" * TEXT_LENGTH_MAX).nanos == int("1" * TEXT_LENGTH_MAX) * 10**9


@pytest.mark.parametrize(
    "text",
    [f"1e{EXPONENT_MAX + 1}", "1e2000000000", "1.5e-2147483648", "1234567890123456789e99999"],
)
def test_an_exponent_that_would_fill_the_memory_is_refused(text):
    with pytest.raises(QuantityError, match="is too large; at most 3000 is accepted"):
        Quantity.parse(text)


def test_the_largest_exponent_is_accepted_and_zero_may_have_any():
    assert Quantity.parse(f"1e{EXPONENT_MAX}").canonical == f"1e{EXPONENT_MAX}"
    assert Quantity.parse("0e2000000000").is_zero
    assert Quantity.parse("1e-2000000000").nanos == 1
    assert Quantity.parse("-1e-2000000000").nanos == -1


@pytest.mark.parametrize(
    ("left", "right", "total", "kind"),
    [
        ("0", "100m", "100m", Format.DECIMAL_SI),
        ("100m", "0", "100m", Format.DECIMAL_SI),
        ("0", "1Gi", "1Gi", Format.BINARY_SI),
        ("1Gi", "0", "1Gi", Format.BINARY_SI),
        ("100M", "1Mi", "101048576", Format.DECIMAL_SI),
        ("1Mi", "100M", "101048576", Format.BINARY_SI),
        ("1e3", "1", "1001", Format.DECIMAL_EXPONENT),
        ("1.500", "1.500", "3", Format.DECIMAL_SI),
        ("1Pi", "1", "1125899906842625", Format.BINARY_SI),
        ("9e18", "9e18", "18e18", Format.DECIMAL_EXPONENT),
    ],
)
def test_a_sum_is_exact_and_prints_in_the_format_of_its_first_nonzero_addend(
    left, right, total, kind
):
    result = Quantity.parse(left) + Quantity.parse(right)

    assert str(result) == total
    assert result.format is kind


def test_differences_and_negation():
    assert str(Quantity.parse("0") - Quantity.parse("1Gi")) == "-1Gi"
    assert str(Quantity.parse("1000m") - Quantity.parse("1")) == "0"
    assert str(-Quantity.parse("9.01")) == "-9010m"


def test_the_least_int64_is_still_held_as_one():
    assert not (Quantity.parse("1") * INT64_MIN).big
    assert not (Quantity.of(-(2**62)) * 2).big
    assert (Quantity.of(-(2**62)) * -2).big
    assert not (Quantity.of(INT64_MIN + 1) - Quantity.of(1)).big


@pytest.mark.parametrize(
    ("text", "factor", "product", "held_as_int64"),
    [
        ("3", 4, "12", True),
        ("3k", 0, "0", True),
        ("0m", 7, "0", True),
        ("500m", 2, "1", True),
        ("500m", 3, "1500m", False),
        ("9223372036854775807", 2, "18446744073709551614", False),
        ("4611686018427387904", 2, "9223372036854775808", False),
        ("4E", 2, "8E", True),
        ("4E", 3, "12E", False),
        ("1.5Gi", 2, "3Gi", False),
    ],
)
def test_products_are_exact_whatever_shape_they_take(text, factor, product, held_as_int64):
    result = Quantity.parse(text) * factor

    assert str(result) == product
    assert result.big is not held_as_int64


@pytest.mark.parametrize(
    ("text", "scale", "rounded"),
    [
        ("9.01", -3, "9010m"),
        ("9.01", -1, "9100m"),
        ("9.01", 0, "10"),
        ("9.01", 2, "100"),
        ("-9.01", 0, "-10"),
        ("1.500", -3, "1.500"),
        ("0.5m", -3, "1m"),
        ("1.5Gi", 0, "1536Mi"),
        ("100n", -3, "1m"),
    ],
)
def test_rounding_goes_away_from_zero_and_keeps_a_text_it_need_not_change(text, scale, rounded):
    quantity = Quantity.parse(text)

    assert str(quantity.round_up(scale)) == rounded


def test_exact_whole_units_do_not_overflow():
    exabytes = Quantity.parse("12E")

    assert exabytes.whole_units == 12 * 10**18
    assert Quantity.parse("-1500m").whole_units == -2
    assert exabytes.value() == 0, "upstream's own view does overflow"


def test_int64_views_of_sums_wrap_where_upstreams_do():
    huge = Quantity.parse("1E") + Quantity.parse("1m")

    assert huge.big
    assert huge.value() == 10**18 + 1
    assert huge.milli_value() == (10**21 + 1 + 2**63) % 2**64 - 2**63
    beyond = Quantity.parse("900000000000000000e30") * 100
    assert beyond.big
    assert beyond.value() == 0, "the power of ten itself overflows, to -2^63"
    assert Quantity.of(10**19).value() == 10**19 - 2**64
    assert Quantity.parse("-0.05Gi").value() == -53687090, "rounds up, not away from zero"
    assert (Quantity.parse("-99999999999999999999") - Quantity.parse("0.5n")).value() < 0


def test_constructors():
    assert str(Quantity.of(5 * 2**30, Format.BINARY_SI)) == "5Gi"
    assert str(Quantity.of(5 * 10**9)) == "5G"
    assert str(Quantity.of(5300, scale=-3)) == "5300m"
    assert str(Quantity.of(1024, Format.BINARY_SI, scale=-3)) == "1024m"


@pytest.mark.parametrize(
    ("text", "exact"),
    [("100n", "0.0000001"), ("-1.5", "-1.5"), ("1.5Gi", "1610612736"), ("0", "0"), ("1e3", "1000")],
)
def test_the_exact_value_is_a_plain_decimal_number(text, exact):
    assert Quantity.parse(text).exact == exact


def test_equality_order_and_hash_look_at_the_amount_alone():
    gibibyte, mebibytes = Quantity.parse("1Gi"), Quantity.parse("1024Mi")

    assert gibibyte == mebibytes
    assert hash(gibibyte) == hash(mebibytes)
    assert gibibyte <= mebibytes
    assert gibibyte >= mebibytes
    assert Quantity.parse("800m") < Quantity.parse("1")
    assert Quantity.parse("10000T") > Quantity.parse("100Gi")
    assert gibibyte != 2**30, "a quantity is not a number"
    assert Quantity.parse("-1").is_negative
    assert repr(gibibyte) == "Quantity(1Gi)"


QUANTITIES = st.builds(
    Quantity.parse,
    st.builds(
        lambda n, s: f"{n}{s}", st.integers(-(10**20), 10**20), st.sampled_from(sorted(MULTIPLIERS))
    ),
)


@given(QUANTITIES)
def test_canonical_text_reads_back_to_the_same_amount(quantity):
    beyond_suffixes = abs(quantity.nanos) >= 10**30

    assert beyond_suffixes or Quantity.parse(quantity.canonical) == quantity
    assert (-quantity) * -1 == quantity
    assert INT64_MIN <= quantity.value() <= INT64_MAX


@given(st.lists(QUANTITIES, max_size=8))
def test_adding_and_taking_away_the_same_leaves_nothing(amounts):
    total = sum(amounts, start=Quantity(0))
    for amount in amounts:
        total = total - amount

    assert total.is_zero
    assert str(total) == "0"
