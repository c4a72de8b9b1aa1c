"""What a YAML scalar means, by the rules of the YAML library inside kubectl.

Those are YAML 1.1 with changes of its own: `yes` and `on` are booleans, `010` is
eight, `0o10` too, `1e3` is a number though it has no dot, sexagesimal numbers
and times stay texts, and a float is then written down as JSON before anybody
reads it as a quantity. PyYAML's own resolver differs in most of these.
"""

import base64
import math
import re
from datetime import date, time
from typing import Final

from bursar.wire.structs.fields import Scalar, number_text, quoted

TAG_PREFIX: Final = "tag:yaml.org,2002:"

NUMBER_LENGTH_MAX: Final = 1024
"""A longer plain text is never taken for a number; no quantity may be that long either."""

_WORDS: Final[dict[str, Scalar]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "y": True, "Y": True, "yes": True, "Yes": True, "YES": True,
    "on": True, "On": True, "ON": True, "true": True, "True": True, "TRUE": True,
    "n": False, "N": False, "no": False, "No": False, "NO": False,
    "off": False, "Off": False, "OFF": False, "false": False, "False": False, "FALSE": False,
    ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan,
    ".inf": math.inf, ".Inf": math.inf, ".INF": math.inf,
    "+.inf": math.inf, "+.Inf": math.inf, "+.INF": math.inf,
    "-.inf": -math.inf, "-.Inf": -math.inf, "-.INF": -math.inf,
}  # fmt: skip
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)"
    r"|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_RADIX: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_SIGNED_BINARY: Final = re.compile(r"0b([+-][01]+)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FRACTION: Final = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**63 - 1
_UNSIGNED_MAX: Final = 2**64 - 1

_SCALAR_TAGS: Final = frozenset({"str", "binary", "int", "float", "bool", "null", "timestamp"})
_TYPES: Final = {"int": int, "float": float, "bool": bool, "null": type(None)}

_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(?:Z|[+-]([0-9]{2}):([0-9]{2}))"
    r"| ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?)?"
)


class ScalarError(ValueError):
    """A scalar that cannot be what its tag says, that JSON cannot hold, or that is no key."""


def plain(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag.

    >>> [plain(text) for text in ("010", "129e6", "1:30", "off", "500m", "0.10")]
    [8, 129000000, '1:30', False, '500m', 0.1]
    """
    return _in_json(_meaning(text))


def tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag, quoted or not."""
    return _in_json(_tagged_meaning(tag, text))


def plain_key(text: str) -> str:
    """What an unquoted key becomes in JSON, where all keys are texts.

    >>> [plain_key(text) for text in ("cpu", "8080", "yes", "1e10")]
    ['cpu', '8080', 'true', '1e+10']
    """
    return _key_text(_meaning(text))


def tagged_key(tag: str, text: str) -> str:
    return _key_text(_tagged_meaning(tag, text))


def _meaning(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > NUMBER_LENGTH_MAX:
        return text
    number = _fraction(text) if text[0] == "." else _number(text.replace("_", ""))
    return text if number is None else number


def _tagged_meaning(tag: str, text: str) -> Scalar:
    short = tag.removeprefix(TAG_PREFIX)
    if short == tag or short not in _SCALAR_TAGS:
        raise ScalarError(f"unknown tag {quoted(tag)}")
    if short == "str" or (short == "timestamp" and _is_timestamp(text)):
        return text
    if short == "binary":
        return _from_base64(text)
    meaning = _meaning(text)
    if short == "float" and type(meaning) is int and meaning <= _INTEGER_MAX:
        return float(meaning)
    if short in _TYPES and type(meaning) is _TYPES[short]:
        return meaning
    raise ScalarError(f"not a value that the tag !!{short} allows")


def _in_json(meaning: Scalar) -> Scalar:
    """A float is written down as JSON and read again: `1e3` is 1000 there, a whole number."""
    if not isinstance(meaning, float):
        return meaning
    if not math.isfinite(meaning):
        raise ScalarError("infinity and not-a-number cannot be written in JSON")
    is_negative_zero = meaning == 0 and math.copysign(1.0, meaning) < 0
    if not meaning.is_integer() or abs(meaning) >= 1e21 or is_negative_zero:
        return meaning
    return int(number_text(meaning))


def _key_text(key: Scalar) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return _single_precision_text(key)
    if key is None or key > _INTEGER_MAX:
        raise ScalarError("null and numbers beyond 64 bits cannot be keys")
    return str(key)


def _number(text: str) -> int | float | None:
    whole = _integer(text)
    if whole is not None:
        return whole
    return _finite(text) if _FLOAT.fullmatch(text) else None


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None:
        signed = _SIGNED_BINARY.fullmatch(text)
        return None if signed is None else _in_range(int(signed.group(1), 2), text)
    kind = match.lastgroup or "decimal"
    digits = match.group(kind).lstrip("0")
    if len(digits) > 64:
        return None
    amount = int(digits or "0", _RADIX[kind])
    return _in_range(-amount if match["sign"] == "-" else amount, text)


def _in_range(amount: int, text: str) -> int | None:
    """Signed 64 bits, or unsigned if no sign is written."""
    if text[0] in "+-" or "+" in text or "-" in text:
        return amount if _INTEGER_MIN <= amount <= _INTEGER_MAX else None
    return amount if amount <= _UNSIGNED_MAX else None


def _fraction(text: str) -> float | None:
    return _finite(text.replace("_", "")) if _FRACTION.fullmatch(text) else None


def _finite(text: str) -> float | None:
    number = float(text)
    return None if math.isinf(number) else number


def _from_base64(coded: str) -> str:
    compact = coded.replace("\r", "").replace("\n", "")
    if not _BASE64.fullmatch(compact):
        raise ScalarError("not valid base64")
    text = base64.b64decode(compact).decode(errors="surrogateescape")
    return _NOT_UTF8.sub("\ufffd", text)


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    year, month, day, *clock = (int(part or 0) for part in match.groups())
    try:
        date(year or 4, month, day)  # Go has a leap year 0, which `date` has not.
        time(clock[0] or clock[5], clock[1] or clock[6], clock[2] or clock[7])
    except ValueError:
        return False
    return clock[3] <= 24 and clock[4] <= 60


def _single_precision_text(number: float) -> str:
    """A float key as Go prints it, in 32 bits; the library inside kubectl narrows it so."""
    narrow = _as_float32(number)
    if math.isnan(narrow):
        return ".nan"
    if math.isinf(narrow):
        return ".inf" if narrow > 0 else "-.inf"
    shortest = next(
        text for text in (f"{narrow:.{n}e}" for n in range(9)) if _as_float32(float(text)) == narrow
    )
    mantissa, _, exponent = shortest.partition("e")
    power = int(exponent)
    if not -4 <= power < 6:
        return shortest
    digits = len(mantissa.lstrip("-").replace(".", ""))
    return format(float(shortest), f".{max(digits - 1 - power, 0)}f")


def _as_float32(number: float) -> float:
    """Round to the nearest single precision number, ties to even."""
    if number == 0 or math.isinf(number) or math.isnan(number):
        return number
    _, exponent = math.frexp(number)
    # The last of 24 bits; numbers below 2^-126 have fewer, down to one bit at 2^-149.
    unit = math.ldexp(1.0, max(exponent - 24, -149))
    rounded = round(abs(number) / unit) * unit
    return math.copysign(math.inf if rounded >= 2.0**128 else rounded, number)
