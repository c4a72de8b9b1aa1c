"""Reading single fields of a manifest: quantities, times, and the error that names the field."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from bursar.core.model.quantity import ZERO, Quantity, QuantityError
from bursar.core.model.resources import NOTHING, ResourceList

Scalar: TypeAlias = str | int | float | bool | None
"""A leaf as a manifest may spell it. Numbers in JSON arrive as their own text where it matters."""

RawResourceList: TypeAlias = dict[str, Scalar]

# What Go's strings.TrimSpace removes; Python's strip() would remove a few control codes more.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class FieldError(ValueError):
    """A field that cannot be read: where in the object, and why."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


def number_text(number: float) -> str:
    """A YAML float as Go's JSON encoder writes it: shortest digits, exponent only when far out.

    >>> number_text(129e6), number_text(0.1), number_text(1e21)
    ('129000000', '0.1', '1e+21')
    """
    digits = repr(number)
    magnitude = abs(number)
    if "e" not in digits and "inf" not in digits and "nan" not in digits:
        return digits.removesuffix(".0")
    if 1e-6 <= magnitude < 1e21:
        return _without_exponent(digits)
    mantissa, _, exponent = digits.partition("e")
    # Go writes e-07 as e-7 but keeps the plus sign.
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0')}"


def _without_exponent(digits: str) -> str:
    mantissa, _, exponent = digits.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    shift = int(exponent)
    if shift >= 0:
        fraction = "" if fraction == "0" else fraction
        return sign + whole + fraction.ljust(shift, "0")
    return f"{sign}0.{'0' * (-shift - 1)}{whole}{'' if fraction == '0' else fraction}"


def decode_quantity(raw: Scalar, field: str) -> Quantity:
    """Read a quantity as the API server's JSON decoder does: string, bare number or null."""
    if raw is None:
        return ZERO
    if isinstance(raw, bool):
        raise FieldError(field, f"a quantity is expected, not {str(raw).lower()}")
    if isinstance(raw, float):
        raw = number_text(raw)
    try:
        return Quantity.parse(str(raw).strip(_SPACES))
    except QuantityError as error:
        raise FieldError(field, str(error)) from None


def decode_resources(raw: Mapping[str, Scalar] | None, field: str) -> ResourceList:
    if not raw:
        return NOTHING
    return {name: decode_quantity(amount, f"{field}[{name}]") for name, amount in raw.items()}


def decode_time(raw: str | None, field: str) -> datetime | None:
    """Read an RFC 3339 time; the API server writes UTC with whole seconds."""
    if not raw:
        return None
    try:
        moment = datetime.fromisoformat(raw)
    except ValueError:
        raise FieldError(field, f"{raw[:64]!r} is not an RFC 3339 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
