"""Functions of strings: those of CEL, and those that Kubernetes adds."""

import re
from typing import Final

from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.functions.overload import Functions, Overload, method
from bursar.core.cel.types import BOOL, INT, STRING, list_of

_SPACE: Final = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000"
)
_UPPER: Final = re.compile("[A-Z]+")
_LOWER: Final = re.compile("[a-z]+")


def _index(text: str, at: int) -> int:
    if 0 <= at <= len(text):
        return at
    raise EvalError(f"index out of range: {at}")


def _not_negative(at: int) -> int:
    if at < 0:
        raise EvalError(f"index out of range: {at}")
    return at


def _char_at(_: Meter, text: str, at: int) -> str:
    """The character after the last one is an empty text."""
    start = _index(text, at)
    return text[start : start + 1]


def _index_of(meter: Meter, text: str, part: str, start: int = 0) -> int:
    """An offset beyond the end finds nothing, except an empty part, as in cel-go."""
    meter.spend_text(len(text))
    return _not_negative(start) if part == "" else text.find(part, _not_negative(start))


def _last_index_of(meter: Meter, text: str, part: str, last: int | None = None) -> int:
    # Twice, because the text is reversed as well.
    meter.spend_text(2 * len(text))
    if last is None:
        return _find_last(text, part)
    if part == "" or last > len(text):
        return _not_negative(last) if part == "" else -1
    return _find_last(text[: _not_negative(last) + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """`str.rfind`, which takes quadratic time for some long parts. `str.find` does not."""
    at = text[::-1].find(part[::-1])
    return at if at < 0 else len(text) - len(part) - at


def _replace(meter: Meter, text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    meter.spend_text(len(text) + times * len(new))
    return text.replace(old, new, times)


def _split(meter: Meter, text: str, separator: str, count: int = -1) -> list[str]:
    meter.spend(1 + len(text))
    if count == 0:
        return []
    if separator:
        return text.split(separator, -1 if count < 0 else count - 1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _substring(meter: Meter, text: str, start: int, end: int | None = None) -> str:
    meter.spend_text(len(text))
    stop = len(text) if end is None else _index(text, end)
    if _index(text, start) > stop:
        raise EvalError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _join(meter: Meter, texts: list[object], separator: str = "") -> str:
    parts = [each for each in texts if isinstance(each, str)]
    if len(parts) != len(texts):
        raise EvalError("join() takes a list of strings")
    meter.spend(1 + len(parts))
    meter.spend_text(sum(map(len, parts)) + len(parts) * len(separator))
    return separator.join(parts)


def _lower(meter: Meter, text: str) -> str:
    meter.spend_text(len(text))
    return _UPPER.sub(lambda match: match.group().lower(), text)


def _upper(meter: Meter, text: str) -> str:
    meter.spend_text(len(text))
    return _LOWER.sub(lambda match: match.group().upper(), text)


def _contains(meter: Meter, text: str, part: str) -> bool:
    meter.spend_text(len(text))
    return part in text


def _starts_with(meter: Meter, text: str, part: str) -> bool:
    meter.spend_text(len(part))
    return text.startswith(part)


def _ends_with(meter: Meter, text: str, part: str) -> bool:
    meter.spend_text(len(part))
    return text.endswith(part)


def _trim(meter: Meter, text: str) -> str:
    # Each space is looked up among all kinds of space.
    meter.spend(1 + (len(text) >> 1))
    return text.strip(_SPACE)


def _either(one: Overload, other: Overload) -> tuple[Overload, Overload]:
    return one, other


TEXTS: Final[Functions] = {
    "contains": (method(STRING, STRING, gives=BOOL, by=_contains),),
    "startsWith": (method(STRING, STRING, gives=BOOL, by=_starts_with),),
    "endsWith": (method(STRING, STRING, gives=BOOL, by=_ends_with),),
    "charAt": (method(STRING, INT, gives=STRING, by=_char_at),),
    "indexOf": _either(
        method(STRING, STRING, gives=INT, by=_index_of),
        method(STRING, STRING, INT, gives=INT, by=_index_of),
    ),
    "lastIndexOf": _either(
        method(STRING, STRING, gives=INT, by=_last_index_of),
        method(STRING, STRING, INT, gives=INT, by=_last_index_of),
    ),
    "replace": _either(
        method(STRING, STRING, STRING, gives=STRING, by=_replace),
        method(STRING, STRING, STRING, INT, gives=STRING, by=_replace),
    ),
    "split": _either(
        method(STRING, STRING, gives=list_of(STRING), by=_split),
        method(STRING, STRING, INT, gives=list_of(STRING), by=_split),
    ),
    "substring": _either(
        method(STRING, INT, gives=STRING, by=_substring),
        method(STRING, INT, INT, gives=STRING, by=_substring),
    ),
    "join": _either(
        method(list_of(STRING), gives=STRING, by=_join),
        method(list_of(STRING), STRING, gives=STRING, by=_join),
    ),
    "trim": (method(STRING, gives=STRING, by=_trim),),
    "lowerAscii": (method(STRING, gives=STRING, by=_lower),),
    "upperAscii": (method(STRING, gives=STRING, by=_upper),),
}
