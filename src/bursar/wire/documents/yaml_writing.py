"""Plain data as YAML that every reader takes for the same data.

PyYAML writes strings such as `1e3`, `08` and `y` without quotes, because it would not take
them for anything else itself; the library inside kubectl, and so our own reader, does. It
folds long lines, and lets characters through that count as a line break elsewhere. Here a
text goes without quotes only if YAML 1.1, YAML 1.2 and kubectl agree that it is a text.

The look is PyYAML's: one field a line, in the order given, list items not indented. Nothing
is folded, and nothing refers to anything else.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from bursar.wire.documents import yaml_scalars
from bursar.wire.documents.tree import Number
from bursar.wire.documents.yaml_scalars import ScalarError
from bursar.wire.structs.fields import FieldError, Step, field_text

STEP: Final = "  "
KEY_LENGTH_MAX: Final = 512
"""Longer keys stand on a line of their own: libyaml looks for the colon no further than 1024."""
SHORT: Final = 64
TEXTS_KEPT: Final = 1024

_NUMBER_LIKE: Final = re.compile(
    r"[-+]?(?=[._]*[0-9])[0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9_]+)?"
    r"|[-+]?0(?:[bB][-+]?[01_]+|[oO][0-7_]+|[xX][0-9a-fA-F_]+)"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
)
"""What some reader takes for a number or a time: also `08`, `1:30` and `2001-01-01`."""
_OTHER_THAN_TEXT: Final = frozenset({"=", "<<"})
_NOT_AT_START: Final = re.compile(r"""[ #,\[\]{}&*!|>'"%@`]|[-?:](?: |$)|---|\.\.\.""")
_NOT_INSIDE: Final = re.compile(r": | #|[: ]$")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def yaml_text(document: object) -> str:
    r"""One document, which ends with a line break.

    Raises `FieldError` for a number that is none, or infinite.

    >>> print(yaml_text({"a": ["1e3", "500m", 1.5], "b": {}, "c": "two\nlines"}), end="")
    a:
    - '1e3'
    - 500m
    - 1.5
    b: {}
    c: |-
      two
      lines
    """
    lines: list[str] = []
    _put(document, "", "", [], lines)
    lines.append("")
    return "\n".join(lines)


def yaml_stream(documents: Iterable[object]) -> str:
    """Several documents, a line of three dashes before each. Raises `FieldError`."""
    return "".join(f"---\n{yaml_text(document)}" for document in documents)


def require_finite(value: object) -> None:
    """Raise `FieldError` for the first number that neither JSON nor YAML can hold."""
    _require_finite(value, [])


def _require_finite(value: object, steps: list[Step]) -> None:
    if isinstance(value, float | Number):
        _number(value, steps)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _require_finite(inner, [*steps, str(key)])
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _require_finite(inner, [*steps, index])


def _put(value: object, lead: str, margin: str, steps: list[Step], lines: list[str]) -> None:
    """Add the lines of a value: the first one behind `lead`, the others behind `margin`.

    The steps say where it is.
    """
    if isinstance(value, str):
        if "\n" in value and steps and _is_block(value):
            lines.append(f"{lead}|" if value.endswith("\n") else f"{lead}|-")
            inside = margin + STEP
            block = value.removesuffix("\n").split("\n")
            lines.extend(inside + line if line else "" for line in block)
        else:
            lines.append(lead + _text(value))
    elif not _is_branch(value):
        lines.append(lead + _scalar(value, steps))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            steps.append(str(key))
            _put_entry(_key(key), inner, (lead, margin), steps, lines)
            steps.pop()
            lead = margin
    else:
        assert isinstance(value, list | tuple)
        for index, inner in enumerate(value):
            steps.append(index)
            _put(inner, f"{lead}- ", _margin_beside(inner, margin), steps, lines)
            steps.pop()
            lead = margin


def _put_entry(
    key: str, value: object, before: tuple[str, str], steps: list[Step], lines: list[str]
) -> None:
    lead, margin = before
    if len(key) > KEY_LENGTH_MAX:
        lines.append(f"{lead}? {key}")
        _put(value, f"{margin}: ", _margin_beside(value, margin), steps, lines)
    elif not _is_branch(value):
        _put(value, f"{lead}{key}: ", margin, steps, lines)
    else:
        lines.append(f"{lead}{key}:")
        inside = margin + STEP if isinstance(value, Mapping) else margin
        _put(value, inside, inside, steps, lines)


def _margin_beside(value: object, margin: str) -> str:
    """The margin of a value that begins behind a mark of two characters."""
    return margin + STEP if _is_branch(value) else margin


def _is_branch(value: object) -> bool:
    return bool(value) and isinstance(value, Mapping | list | tuple)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be a string, not {type(key).__name__}")
    return _text(key)


def _scalar(value: object, steps: Sequence[Step]) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case int():
            return str(value)
        case float() | Number():
            return _number(value, steps)
        case Mapping():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def _number(value: float | Number, steps: Sequence[Step]) -> str:
    """The number as it was written; with an exponent it gets the dot and sign of YAML 1.1."""
    text = value.text if isinstance(value, Number) else repr(value)
    if not math.isfinite(float(text)):
        raise FieldError(field_text(steps), "the number is too large, or none")
    digits, exponent, power = text.replace("E", "e").partition("e")
    dotted = digits if "." in digits or not exponent else f"{digits}.0"
    sign = "+" if power and power[0] != "-" else ""
    return f"{dotted}{exponent}{sign}{power.removeprefix('+')}"


# ------------------------------------------------------------------ texts


def _text(text: str) -> str:
    return _short_text(text) if len(text) <= SHORT else _any_text(text)


def _any_text(text: str) -> str:
    if not text.isprintable():
        # Half of a surrogate pair is no character; Go writes the same in its place.
        whole = _SURROGATE.sub("\ufffd", text)
        return '"' + "".join(map(_escaped, whole)) + '"'
    return text if _is_plain(text) else "'" + text.replace("'", "''") + "'"


_short_text: Final = lru_cache(maxsize=TEXTS_KEPT)(_any_text)
"""Most keys and many words come again."""


def _is_plain(text: str) -> bool:
    if (
        not text
        or text in _OTHER_THAN_TEXT
        or _NOT_AT_START.match(text)
        or _NOT_INSIDE.search(text)
        or _NUMBER_LIKE.fullmatch(text)
    ):
        return False
    try:
        return yaml_scalars.plain(text) == text
    except ScalarError:
        return False


def _escaped(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_block(text: str) -> bool:
    """True if the lines need no escapes, and a tool that strips blanks leaves them unchanged."""
    lines = text.removesuffix("\n").split("\n")
    return (
        bool(lines[0])
        and bool(lines[-1])
        and not lines[0].startswith(" ")
        and all(line.isprintable() and not line.endswith(" ") for line in lines)
    )
