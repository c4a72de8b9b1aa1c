"""Decoding of single fields: quantities, times, labels; and the error that names the field."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from bursar.core.model.quantity import ZERO, Quantity, QuantityError
from bursar.core.model.resources import NOTHING, ResourceList
from bursar.core.sharing import NO_LABELS

Scalar: TypeAlias = str | int | float | bool | None
"""A leaf of a manifest. JSON numbers for quantities arrive as text."""

RawResourceList: TypeAlias = dict[str, Scalar]

RawTexts: TypeAlias = dict[str, str | None]
"""Labels or annotations. The API server treats a null value as an empty text."""

Step: TypeAlias = str | int
"""A step of a field path: a key of an object or an index of a list."""

QUOTED_LENGTH_MAX: Final = 64
FIELD_LENGTH_MAX: Final = 256

# Maps with keys that users choose. Upstream writes these keys in brackets.
_MAPS: Final = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "data", "stringData", "binaryData"}
    | {"requests", "limits", "overhead", "capacity", "allocatable", "allocatedResources"}
    | {"hard", "used"}
)

# The characters that Go's strings.TrimSpace removes. Python's strip() removes a few more.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class FieldError(ValueError):
    """A field that cannot be decoded: its path, the problem and, if useful, the text."""

    def __init__(self, field: str, problem: str, found: str | None = None) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem
        self.found = found

    def under(self, parent: str) -> "FieldError":
        """The same error with a path that begins at the parent object."""
        return FieldError(f"{parent}.{self.field}", self.problem, self.found)


def printable(text: str, limit: int = QUOTED_LENGTH_MAX) -> str:
    r"""The start of an untrusted text in one line, without control characters.

    >>> print(printable("a" + chr(27) + "[2J"), printable("x" * 99, 8))
    a\x1b[2J xxxxxxxx...
    """
    shown = "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text[:limit]
    )
    return f"{shown}..." if len(text) > limit else shown


def quoted(text: str) -> str:
    return f'"{printable(text)}"'


def field_text(steps: Iterable[Step]) -> str:
    """A field path in upstream's notation.

    >>> field_text(["spec", "containers", 0, "resources", "limits", "cpu"])
    'spec.containers[0].resources.limits[cpu]'
    """
    text = ""
    is_map = False
    for step in steps:
        if is_map or isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
        is_map = not is_map and step in _MAPS
    return text


def number_text(number: float) -> str:
    """A float in the notation of Go's JSON encoder.

    >>> number_text(129e6), number_text(0.1), number_text(1e21)
    ('129000000', '0.1', '1e+21')
    """
    digits = repr(number)
    magnitude = abs(number)
    if "e" not in digits:
        return digits.removesuffix(".0")
    if 1e-6 <= magnitude < 1e21:
        return _without_exponent(digits)
    mantissa, _, exponent = digits.partition("e")
    # Go writes e-07 as e-7 but keeps the plus sign.
    return f"{mantissa}e{exponent[0]}{exponent[1:].lstrip('0')}"


def _without_exponent(digits: str) -> str:
    mantissa, _, exponent = digits.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    shift = int(exponent)
    if shift >= 0:
        return sign + whole + fraction.ljust(shift, "0")
    return f"{sign}0.{'0' * (-shift - 1)}{whole}{fraction}"


def decode_quantity(raw: Scalar, field: str) -> Quantity:
    """Decode a quantity like the API server, from a string, a number or null."""
    if raw is None:
        return ZERO
    if isinstance(raw, bool):
        raise FieldError(field, f"a quantity is expected, not {str(raw).lower()}")
    text = number_text(raw) if isinstance(raw, float) else str(raw)
    try:
        return Quantity.parse(text.strip(_SPACES))
    except QuantityError as error:
        raise FieldError(field, str(error), text) from None


def decode_resources(raw: Mapping[str, Scalar] | None, field: str) -> ResourceList:
    if not raw:
        return NOTHING
    return {name: decode_quantity(amount, f"{field}[{name}]") for name, amount in raw.items()}


def decode_texts(raw: RawTexts | None) -> Mapping[str, str]:
    if not raw:
        return NO_LABELS
    return {key: text or "" for key, text in raw.items()}


def decode_time(raw: str | None, field: str) -> datetime | None:
    """Decode an RFC 3339 time. Raises `FieldError`."""
    if not raw:
        return None
    try:
        if not _RFC3339.fullmatch(raw):
            raise ValueError  # noqa: TRY301 - what `fromisoformat` reads beyond RFC 3339 is refused alike
        return datetime.fromisoformat(raw).astimezone(UTC)
    except (ValueError, OverflowError):
        raise FieldError(field, "not an RFC 3339 time", raw) from None


def timestamp(time: datetime) -> str:
    """A time as the API server writes it: UTC, whole seconds.

    >>> timestamp(datetime(2026, 11, 15, 9, 30, tzinfo=UTC))
    '2026-11-15T09:30:00Z'
    """
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
