"""Cgroup numbers: the tables of upstream's tests and of the field, and the way back."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.cgroup.values import (
    SHARES_MAX,
    PageSizeError,
    find_page_size,
    hugepage_limits,
    page_size_text,
    quota_from_milli,
    shares_from_milli,
    weight_linear,
    weight_quadratic,
)
from support.builders.pods import parsed

MI = 1 << 20
GI = 1 << 30


@pytest.mark.parametrize(
    ("milli", "shares", "linear", "quadratic", "quota"),
    [
        (0, 2, 1, 1, 0),
        (1, 2, 1, 1, 1000),
        (5, 5, 1, 2, 1000),
        (10, 10, 1, 4, 1000),
        (20, 20, 1, 6, 2000),
        (50, 51, 2, 11, 5000),
        (100, 102, 4, 17, 10000),
        (200, 204, 8, 29, 20000),
        (250, 256, 10, 35, 25000),
        (500, 512, 20, 59, 50000),
        (750, 768, 30, 80, 75000),
        (1000, 1024, 39, 100, 100000),
        (1500, 1536, 59, 138, 150000),
        (2000, 2048, 79, 174, 200000),
        (4000, 4096, 157, 303, 400000),
        (8000, 8192, 313, 532, 800000),
        (16000, 16384, 625, 942, 1600000),
        (64000, 65536, 2500, 3023, 6400000),
        (256000, 262144, 10000, 10000, 25600000),
        (1000000, 262144, 10000, 10000, 100000000),
        (-100, 2, 1, 1, 1000),
    ],
)
def test_cpu_becomes_shares_weight_and_quota(
    milli: int, shares: int, linear: int, quadratic: int, quota: int
):
    assert shares_from_milli(milli) == shares
    assert weight_linear(shares) == linear
    assert weight_quadratic(shares) == quadratic
    assert quota_from_milli(milli) == quota


@pytest.mark.parametrize(("milli", "quota"), [(5, 1000), (9, 1000), (15, 1500), (0, 0)])
def test_the_quota_is_at_least_a_millisecond(milli: int, quota: int):
    assert quota_from_milli(milli) == quota


@pytest.mark.parametrize(
    ("shares", "weight"), [(0, 0), (1, 1), (2, 1), (3, 2), (262_143, 10_000), (262_145, 10_000)]
)
def test_the_quadratic_weight_at_its_ends(shares: int, weight: int):
    assert weight_quadratic(shares) == weight


def test_the_weights_reported_for_two_thousand_shares():
    """Seen in the field: runc 1.3.1 wrote the first, 1.4.0 the second."""
    assert (weight_linear(2000), weight_quadratic(2000)) == (77, 170)


@given(st.integers(3, SHARES_MAX - 1))
def test_the_quadratic_weight_is_that_of_the_machine(shares: int):
    log2 = math.log2(shares)
    exponent = (log2 * log2 + 125 * log2) / 612 - 7 / 34
    assert weight_quadratic(shares) == math.ceil(math.pow(10, exponent))


# ------------------------------------------------------------------ hugepages


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1024, "1KB"),
        (2 * MI, "2MB"),
        (33554432, "32MB"),
        (GI, "1GB"),
        (3221225472, "3GB"),
        (512, "512B"),
        (1024 * 1023, "1023KB"),
        (1 << 60, "1024PB"),
        (5 << 60, "5120PB"),
        (0, "0PB"),
    ],
)
def test_page_sizes_are_spelled_in_the_largest_unit(size: int, text: str):
    assert page_size_text(size) == text


def test_a_page_size_between_the_units_is_refused():
    with pytest.raises(PageSizeError) as refusal:
        page_size_text(1024 * 1024 * 1023 * 3)
    assert str(refusal.value) == (
        "size: 3069MB must be guaranteed to divisible into the largest units"
    )


def test_hugepages_are_summed_by_size_however_it_is_spelled():
    amounts = parsed("cpu=1 hugepages-2Mi=4Mi hugepages-2048Ki=2Mi hugepages-1Gi=1Gi")
    assert hugepage_limits(amounts) == {2 * MI: 6 * MI, GI: GI}


def test_an_unreadable_page_size_counts_as_zero():
    assert find_page_size("hugepages-xyz") is None
    assert hugepage_limits(parsed("hugepages-xyz=1 hugepages-0=2")) == {0: 3}
