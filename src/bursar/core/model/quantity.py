"""Quantity: an exact amount, and the text Kubernetes writes for it.

Every amount is a whole number of *nanos* (10^-9), because upstream's parser
rounds anything finer up to the next one. All comparison and arithmetic happens
on that integer, so it is exact and unbounded.

Three more things are carried only because they are visible in what upstream
prints or answers: the *format* (which family of suffixes is printed), the text
as typed where upstream keeps it, and *scale* and *big*, the shape upstream holds
the number in, which decides how its 64-bit views overflow.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN, quotient, wrapped

TEXT_LENGTH_MAX: Final = 1024
"""Longest text accepted. Upstream has no bound, and a tenant could send megabytes of digits."""

EXPONENT_MAX: Final = 3000
"""Largest decimal exponent of a non-zero amount. Upstream has no bound and may build 10^(2^31)."""

FORMAT_ERROR: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_ERROR: Final = "unable to parse numeric part of quantity"
SUFFIX_ERROR: Final = "unable to parse quantity's suffix"

NANO: Final = -9
MILLI: Final = -3
NANOS_PER_UNIT: Final = 10**9


class Format(Enum):
    """The family of suffixes an amount is printed with. It takes no part in equality."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """A text that is not a quantity. The message is upstream's, word for word, where it has one."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """An exact amount. Equality, order and hash look at the amount alone.

    >>> Quantity.parse("1.5Gi") == Quantity.parse("1536Mi")
    True
    >>> str(Quantity.parse("1.5") + Quantity.parse("100m"))
    '1600m'
    """

    nanos: int
    format: Format = Format.DECIMAL_SI
    scale: int = 0
    """Power of ten of upstream's stored integer: `nanos * 10^-9 == stored * 10^scale`."""
    big: bool = False
    """Upstream holds it as arbitrary precision (true) or as one int64 with a scale (false)."""
    verbatim: str | None = field(default=None)
    """The text as typed, where upstream keeps it instead of the canonical one."""

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Read a quantity as kube-apiserver does; raise `QuantityError` with its message."""
        if len(text) <= 32:
            return _parse_cached(text)
        return _parse(text)

    @staticmethod
    def of(value: int, format: Format = Format.DECIMAL_SI, *, scale: int = 0) -> "Quantity":
        """`value * 10^scale` as a constructor upstream would hold it; scale is at least -9."""
        assert scale >= NANO
        big = not INT64_MIN <= value <= INT64_MAX
        return Quantity(value * 10 ** (scale - NANO), format, scale, big)

    @property
    def canonical(self) -> str:
        """The normal form: shortest mantissa, largest suffix, never the text as typed."""
        number, suffix = _canonical_parts(self)
        return number + suffix

    @property
    def exact(self) -> str:
        """The amount as a plain decimal number, without exponent or trailing zeros.

        >>> Quantity.parse("100n").exact
        '0.0000001'
        """
        whole, rest = divmod(abs(self.nanos), NANOS_PER_UNIT)
        fraction = f"{rest:09d}".rstrip("0")
        sign = "-" if self.nanos < 0 else ""
        return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"

    @property
    def is_zero(self) -> bool:
        return self.nanos == 0

    @property
    def is_negative(self) -> bool:
        return self.nanos < 0

    @property
    def whole_units(self) -> int:
        """The amount rounded away from zero to whole units, exactly, however large."""
        return _ceil_away(self.nanos, NANOS_PER_UNIT)

    def value(self) -> int:
        """Upstream's `Value()`: whole units as an int64, with its overflow (0 or wrapped)."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Upstream's `MilliValue()`: thousandths as an int64, with its overflow."""
        return self.scaled_value(MILLI)

    def scaled_value(self, scale: int) -> int:
        """Upstream's `ScaledValue`: what scheduler and kubelet really compute with.

        A number held as an int64 that does not fit answers 0, or wraps around
        where upstream scales in a single multiplication; one held in arbitrary
        precision always wraps, and rounds negative fractions up.
        """
        assert scale >= NANO
        if not self.big:
            exact = _ceil_away(self.nanos, 10 ** (scale - NANO))
            if INT64_MIN <= exact <= INT64_MAX:
                return exact
            return wrapped(exact) if self.scale - scale in _SINGLE_STEP_SCALES else 0
        return _scaled_big(self._stored(), scale - self.scale)

    def as_int64(self) -> int | None:
        """Upstream's `AsInt64`: None when it says "not an integer", even if the amount is one."""
        if self.big or self.scale < 0:
            return None
        whole = self.nanos // NANOS_PER_UNIT
        return whole if INT64_MIN <= whole <= INT64_MAX else None

    def round_up(self, scale: int) -> "Quantity":
        """Round away from zero to a multiple of `10^scale`."""
        if not self.big and self.scale >= scale:
            return self
        unit = 10 ** (scale - NANO)
        return Quantity(_ceil_away(self.nanos, unit) * unit, self.format, scale, self.big)

    def __add__(self, other: "Quantity") -> "Quantity":
        return _sum(self, other, other.nanos)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return _sum(self, other, -other.nanos)

    def __mul__(self, factor: int) -> "Quantity":
        nanos = self.nanos * factor
        if self.big:
            return Quantity(nanos, self.format, self.scale, True)
        if nanos == 0:
            return Quantity(0, self.format, self.scale if self.nanos == 0 else 0)
        bound = _int64_bound(0)
        stored_fits = INT64_MIN <= self._stored() * factor <= INT64_MAX
        if self.scale >= 0:
            keeps_form = stored_fits and -bound <= nanos < bound
        else:
            keeps_form = stored_fits and nanos % NANOS_PER_UNIT == 0
        return Quantity(nanos, self.format, self.scale, not keeps_form)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.format, self.scale, self.big)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: "Quantity") -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: "Quantity") -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: "Quantity") -> bool:
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        """What kube-apiserver stores and kubectl prints: as typed if upstream keeps it."""
        return self.canonical if self.verbatim is None else self.verbatim

    def __repr__(self) -> str:
        return f"Quantity({self})"

    def _stored(self) -> int:
        """The integer upstream holds beside `scale`; exact, because every result is a multiple."""
        shift = self.scale - NANO
        unit: int = 10 ** abs(shift)
        return self.nanos // unit if shift >= 0 else self.nanos * unit


ZERO: Final = Quantity(0)
ZERO_BINARY: Final = Quantity(0, Format.BINARY_SI)


# ------------------------------------------------------------------ arithmetic


def _ceil_away(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _sum(left: Quantity, right: Quantity, right_nanos: int) -> Quantity:
    """Add with upstream's side effects: a zero takes over the other's format and shape."""
    nanos = left.nanos + right_nanos
    kept = right.format if left.nanos == 0 else left.format
    if left.big or right.big:
        return Quantity(nanos, kept, min(left.scale, right.scale), True)
    if right_nanos == 0:
        return Quantity(nanos, kept, left.scale)
    if left.nanos == 0:
        return Quantity(nanos, kept, right.scale)
    scale = min(left.scale, right.scale)
    bound = _int64_bound(scale)
    fits = all(-bound <= amount < bound for amount in (nanos, left.nanos, right_nanos))
    return Quantity(nanos, kept, scale, not fits)


@lru_cache(maxsize=256)
def _int64_bound(scale: int) -> int:
    """The first amount, in nanos, that an int64 of that scale cannot hold."""
    bound: int = (INT64_MAX + 1) * 10 ** (scale - NANO)
    return bound


_SINGLE_STEP_SCALES: Final = frozenset({1, 2, 3, 6, 9})
"""Differences of scale that upstream bridges with one multiplication, keeping the low bits."""


def _scaled_big(stored: int, finer: int) -> int:
    """Upstream's int64 view of an arbitrary precision number, `finer` decimal places coarser."""
    if finer <= 0:
        # Go converts the float 10^n to int64, which saturates to the minimum from 10^19 on.
        power = 10**-finer if finer > -19 else INT64_MIN
        return wrapped(wrapped(stored) * power)
    unit: int = 10**finer
    if stored < INT64_MAX and finer < 19:
        held = wrapped(stored)
        return quotient(held, unit) + (1 if held % unit else 0)
    whole, rest = divmod(stored, unit)
    return wrapped(wrapped(whole) + (1 if rest else 0))


# ------------------------------------------------------------------ text to amount

_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_INT64_DIGITS: Final = 18

# Sign, whole digits without leading zeros, fraction, suffix: upstream's hand-written scanner,
# which is looser than the expression it quotes in its own message.
_SHAPE: Final = re.compile(
    r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*(?:[+-])?[0-9]*)", re.ASCII
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)


def _parse(text: str) -> Quantity:
    if len(text) > TEXT_LENGTH_MAX:
        raise QuantityError(
            f"the text is {len(text)} characters long; at most {TEXT_LENGTH_MAX} are accepted"
        )
    match = _SHAPE.fullmatch(text)
    if match is None or not text:
        raise QuantityError(FORMAT_ERROR)
    sign, whole, fraction, suffix = match.group(1, 2, 3, 4)
    if text == "0":
        return Quantity(0, verbatim="0")
    whole = whole or "0"
    fraction = fraction or ""
    exponent = _DECIMAL_SUFFIXES.get(suffix)
    if exponent is not None:
        return _decimal(text, sign + whole, fraction, exponent, Format.DECIMAL_SI)
    binary_exponent = _BINARY_SUFFIXES.get(suffix)
    if binary_exponent is not None:
        return _binary(text, sign + whole, fraction, binary_exponent)
    return _decimal(text, sign + whole, fraction, _exponent(suffix), Format.DECIMAL_EXPONENT)


_parse_cached = lru_cache(maxsize=1024)(_parse)


def _exponent(suffix: str) -> int:
    """The number after `e` or `E`, cut to 32 bits as upstream does."""
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match.group(1)) > 20:
        raise QuantityError(SUFFIX_ERROR)
    number = int(match.group(1))
    if not INT64_MIN <= number <= INT64_MAX:
        raise QuantityError(SUFFIX_ERROR)
    return _int32(number)


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _decimal(text: str, whole: str, fraction: str, exponent: int, kind: Format) -> Quantity:
    digits = whole + fraction
    amount = int(digits)
    unsigned = digits.lstrip("+-")
    scale = _int32(exponent - len(fraction))
    if len(unsigned) <= _INT64_DIGITS and scale >= NANO:
        kept = scale % 3 == 0 and unsigned[-3:] != "000" and unsigned[0] != "0"
        nanos = amount * 10 ** _bounded(scale - NANO, amount)
        return Quantity(nanos, kind, scale, verbatim=text if kept else None)
    if amount == 0:
        _require_digits(text)
        return Quantity(0, kind, exponent - len(fraction), big=True)
    return Quantity(_at_least_one_nano(amount, exponent - len(fraction)), kind, NANO, big=True)


def _binary(text: str, whole: str, fraction: str, exponent: int) -> Quantity:
    amount = int(whole + fraction)
    length = len(whole.lstrip("+-"))
    if not fraction and length + exponent * 3 // 10 <= 14:
        kept = abs(amount) % 8 != 0
        nanos = (amount << exponent) * NANOS_PER_UNIT
        return Quantity(nanos, Format.BINARY_SI, 0, verbatim=text if kept else None)
    if amount == 0:
        _require_digits(text)
        return Quantity(0, Format.BINARY_SI, -len(fraction), big=True)
    nanos = _at_least_one_nano(amount << exponent, -len(fraction))
    if abs(nanos) > INT64_MAX * NANOS_PER_UNIT:
        capped = INT64_MAX if nanos > 0 else -INT64_MAX
        return Quantity(capped * NANOS_PER_UNIT, Format.BINARY_SI, 0, big=True)
    kind = Format.DECIMAL_SI if abs(nanos) < NANOS_PER_UNIT else Format.BINARY_SI
    return Quantity(nanos, kind, NANO, big=True)


def _bounded(power: int, amount: int) -> int:
    """Refuse exponents that would build a number of millions of digits; zero may have any."""
    if power <= EXPONENT_MAX - NANO:
        return power
    if amount == 0:
        return 0
    raise QuantityError(
        f"the exponent {power + NANO} is too large; at most {EXPONENT_MAX} is accepted"
    )


def _at_least_one_nano(amount: int, scale: int) -> int:
    """`amount * 10^scale` in nanos, rounded away from zero."""
    power = _bounded(scale - NANO, amount)
    if -power > TEXT_LENGTH_MAX * 2:  # far below one nano: no need to build the divisor
        return 1 if amount > 0 else -1
    unit: int = 10 ** abs(power)
    return amount * unit if power >= 0 else _ceil_away(amount, unit)


def _require_digits(text: str) -> None:
    """Upstream's arbitrary precision reader wants at least one digit: `Ki` is zero, `Pi` is not."""
    if not any(digit in _number_of(text) for digit in "0123456789"):
        raise QuantityError(NUMERIC_ERROR)


def _number_of(text: str) -> str:
    match = re.match(r"[+-]?[0-9]*\.?[0-9]*", text)
    return match.group(0) if match else ""


# ------------------------------------------------------------------ amount to text

_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _canonical_parts(quantity: Quantity) -> tuple[str, str]:
    if quantity.nanos == 0:
        return "0", ""
    if quantity.format is Format.BINARY_SI:
        whole, rest = divmod(quantity.nanos, NANOS_PER_UNIT)
        if rest == 0 and not -1024 < whole < 1024:
            return _in_powers_of_1024(whole)
    return _in_powers_of_1000(quantity)


def _in_powers_of_1024(whole: int) -> tuple[str, str]:
    times = 0
    while whole % 1024 == 0:
        whole //= 1024
        times += 1
    # Beyond Ei upstream finds no suffix and prints none, as it does beyond E.
    return str(whole), _BINARY_NAMES[times] if times < len(_BINARY_NAMES) else ""


def _in_powers_of_1000(quantity: Quantity) -> tuple[str, str]:
    digits = str(quantity.nanos)
    mantissa = digits.rstrip("0")
    exponent = NANO + len(digits) - len(mantissa)
    mantissa += "0" * (exponent % 3)
    exponent -= exponent % 3
    if quantity.format is Format.DECIMAL_EXPONENT:
        return mantissa, f"e{exponent}" if exponent else ""
    # Beyond 10^18 upstream finds no suffix and prints none: 1000E comes out as 1.
    return mantissa, _DECIMAL_NAMES.get(exponent, "")
