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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from bursar.wire.documents import yaml_scalars
from bursar.wire.documents.tree import Number
from bursar.wire.documents.yaml_scalars import ScalarError
from bursar.wire.structs.fields import FieldError, Step, field_text

STEP: Final = "  "
KEY_LENGTH_MAX: Final = 512
"""Longer keys stand on a line of their own: libyaml looks for the colon no further than 1024."""

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
    return "".join(f"{line}\n" for line in _lines(document, []))


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


def _lines(value: object, steps: list[Step]) -> Iterator[str]:
    """A value's lines, as they stand at the left margin; the steps say where it is."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(_key(key), inner, [*steps, str(key)])
    elif isinstance(value, list | tuple) and value:
        for index, inner in enumerate(value):
            yield from _beside("- ", inner, [*steps, index])
    elif isinstance(value, str) and "\n" in value and steps and _is_block(value):
        yield "|" if value.endswith("\n") else "|-"
        yield from _indented(value.removesuffix("\n").split("\n"))
    else:
        yield _scalar(value, steps)


def _entry(key: str, value: object, steps: list[Step]) -> Iterator[str]:
    if len(key) > KEY_LENGTH_MAX:
        yield f"? {key}"
        yield from _beside(": ", value, steps)
        return
    lines = _lines(value, steps)
    if not _is_branch(value):
        yield f"{key}: {next(lines)}"
        yield from lines
        return
    yield f"{key}:"
    yield from _indented(lines) if isinstance(value, Mapping) else lines


def _beside(mark: str, value: object, steps: list[Step]) -> Iterator[str]:
    """The first line behind a mark of two characters, the others below it."""
    lines = _lines(value, steps)
    yield mark + next(lines)
    yield from _indented(lines) if _is_branch(value) else lines


def _is_branch(value: object) -> bool:
    return bool(value) and isinstance(value, Mapping | list | tuple)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (STEP + line if line else "" for line in lines)


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be a string, not {type(key).__name__}")
    return _text(key)


def _scalar(value: object, steps: Sequence[Step]) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return _text(value)
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
    if not text.isprintable():
        # Half of a surrogate pair is no character; Go writes the same in its place.
        whole = _SURROGATE.sub("\ufffd", text)
        return '"' + "".join(map(_escaped, whole)) + '"'
    return text if _is_plain(text) else "'" + text.replace("'", "''") + "'"


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
