"""Cgroup numbers: how amounts of cpu and memory become the numbers in kernel files.

Everything here is a conversion between plain integers. Which container gets which
number is decided in `cgroup.pod`.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from typing import Final

from bursar.core.model.names import HUGEPAGES_PREFIX, is_hugepages
from bursar.core.model.numbers.int64 import quotient, wrapped
from bursar.core.model.quantity import Quantity, QuantityError

SHARES_MIN: Final = 2
SHARES_MAX: Final = 262144
SHARES_PER_CPU: Final = 1024
WEIGHT_MAX: Final = 10000

PERIOD_US: Final = 100_000
"""Length of a cpu quota period: the default of the kubelet's `cpuCFSQuotaPeriod`."""

QUOTA_US_MIN: Final = 1000
"""The kernel refuses less, so no limit is tighter than 10m."""

# ------------------------------------------------------------------ cpu


def shares_from_milli(milli: int) -> int:
    """`cpu.shares` for a cpu request; no request at all gives the least the kernel knows."""
    shares = quotient(wrapped(milli * SHARES_PER_CPU), 1000)
    return min(max(shares, SHARES_MIN), SHARES_MAX)


def quota_from_milli(milli: int) -> int:
    """Microseconds of cpu time per period for a cpu limit; 0 means that no limit is set."""
    if milli == 0:
        return 0
    return max(quotient(wrapped(milli * PERIOD_US), 1000), QUOTA_US_MIN)


def weight_linear(shares: int) -> int:
    """`cpu.weight` as the kubelet writes it for pods, and container runtimes used to.

    One whole cpu, 1024 shares, gets only 39, although 100 is the kernel's default.
    """
    assert shares >= SHARES_MIN
    if shares >= SHARES_MAX:
        return WEIGHT_MAX
    return 1 + (shares - SHARES_MIN) * (WEIGHT_MAX - 1) // (SHARES_MAX - SHARES_MIN)


@lru_cache(maxsize=4096)
def weight_quadratic(shares: int) -> int:
    """`cpu.weight` as runc 1.3.2, crun 1.23 and later write it for containers; 0 means unset.

    The exponent is a parabola in log2(shares) through the three points that matter:
    the minima, the maxima, and 1024 shares to a weight of 100.
    """
    if shares == 0:
        return 0
    if shares <= SHARES_MIN:
        return 1
    if shares >= SHARES_MAX:
        return WEIGHT_MAX
    log2 = _log2(shares)
    parabola = _DIGITS.subtract(_DIGITS.multiply(log2, _DIGITS.add(log2, Decimal(125))), 126)
    weight = _DIGITS.power(10, _DIGITS.divide(parabola, 612))
    return int(weight.to_integral_value(ROUND_CEILING))


# The result is whole only at powers of two, which are computed exactly. Everywhere else it stays
# at least 2 * 10^-6 away from a whole number, so these digits decide every ceiling.
_DIGITS: Final = Context(prec=28)
_LN_2: Final = _DIGITS.ln(2)


def _log2(shares: int) -> Decimal:
    if shares & (shares - 1) == 0:
        return Decimal(shares.bit_length() - 1)
    return _DIGITS.divide(_DIGITS.ln(shares), _LN_2)


# ------------------------------------------------------------------ hugepages

_PAGE_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")


class PageSizeError(ValueError):
    """A page size that no unit fits. The message is upstream's, word for word."""


def page_size_text(size_bytes: int) -> str:
    """A page size as it is spelled in the names of hugetlb files.

    >>> page_size_text(2097152), page_size_text(1073741824)
    ('2MB', '1GB')
    """
    size, unit = size_bytes, 0
    while size % 1024 == 0 and unit < len(_PAGE_UNITS) - 1:
        size //= 1024
        unit += 1
    text = f"{size}{_PAGE_UNITS[unit]}"
    if size > 1024 and unit < len(_PAGE_UNITS) - 1:
        raise PageSizeError(f"size: {text} must be guaranteed to divisible into the largest units")
    return text


def find_page_size(name: str) -> int | None:
    """The page size in a `hugepages-` resource name; None if it is not a quantity."""
    try:
        return Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value()
    except QuantityError:
        return None


def hugepage_limits(amounts: Mapping[str, Quantity]) -> dict[int, int]:
    """Bytes of hugepages by page size. Two spellings of one size add up.

    An unreadable size counts as size 0, as it does upstream.
    """
    limits: dict[int, int] = {}
    for name, amount in amounts.items():
        if is_hugepages(name):
            size = find_page_size(name) or 0
            limits[size] = wrapped(limits.get(size, 0) + amount.value())
    return limits
