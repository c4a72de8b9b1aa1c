"""JSON documents by the standard library's decoder, if they are plain enough to be read by it.

The scanner in `json_tree` knows the place of everything, which takes ten times as long. Most
sources have no error and need no place. They are read here; where a document might break a rule,
`NotPlainError` says so, and the scanner reads the source again and finds the words.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from bursar.wire.documents.text import (
    DEPTH_MAX,
    SCALAR_LENGTH_MAX,
    VALUES_MAX,
    DocumentError,
    Text,
)
from bursar.wire.documents.tree import Number, Tree, Value

INTEGER_LENGTH_MAX: Final = 20
"""Digits and sign of a 64-bit integer; longer ones keep their spelling."""

_GAP: Final = re.compile(r"[ \t\n\r]*")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a pair of escaped characters; the other half may be missing."""
_BRANCHES: Final = (dict, list)


class NotPlainError(Exception):
    """A source that only the exact scanner can judge."""


def quick_trees(text: Text) -> Iterator[Tree]:
    """Read JSON documents that follow each other. Raises `NotPlainError`."""
    try:
        _require_moderate(text)
        whole = "".join(text.pieces())
    except DocumentError:
        raise NotPlainError from None
    if "\\u" in whole and _HALF.search(whole):
        raise NotPlainError
    position = _after_gap(whole, 0)
    while position < len(whole):
        try:
            value, end = _DECODER.raw_decode(whole, position)
        except (ValueError, RecursionError):
            raise NotPlainError from None
        if _depth(value) > DEPTH_MAX:
            raise NotPlainError
        place = text.place(position)
        yield Tree(value, place, None, place)
        position = _after_gap(whole, end)


def _after_gap(whole: str, position: int) -> int:
    gap = _GAP.match(whole, position)
    assert gap is not None, "an empty gap matches"
    return gap.end()


def _require_moderate(text: Text) -> None:
    """Raise `NotPlainError` if there may be too many values, or a value that is too long.

    A hostile source is given up at the first such piece, before it is held in memory once more.
    """
    value_count = unquoted = 0
    for piece in text.pieces():
        # Brackets, commas and colons within texts count as well, which does no harm.
        value_count += sum(map(piece.count, "{[,:"))
        first, last = piece.find('"'), piece.rfind('"')
        unquoted += len(piece) if first < 0 else first
        if value_count >= VALUES_MAX or unquoted >= SCALAR_LENGTH_MAX or _has_long_run(piece):
            raise NotPlainError
        if first >= 0:
            unquoted = len(piece) - last


def _has_long_run(piece: str) -> bool:
    """Whether a piece may have a value or a gap that is too long.

    A value or gap that is too long contains a whole step without a quotation mark. Only in a text
    with escaped quotation marks there may be no such step; the limit of the source bounds it.
    """
    step = SCALAR_LENGTH_MAX // 2
    return any(
        piece.find('"', start, start + step) < 0 for start in range(0, len(piece) - step, step)
    )


def _depth(value: Value) -> int:
    depth = 0
    level = [value] if isinstance(value, _BRANCHES) else []
    while level:
        depth += 1
        level = [
            inner
            for branch in level
            for inner in (branch.values() if isinstance(branch, dict) else branch)
            if isinstance(inner, _BRANCHES)
        ]
    return depth


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _integer(text: str) -> int | Number:
    if text == "-0":
        return Number(text, 0)
    return int(text) if len(text) <= INTEGER_LENGTH_MAX else Number(text)


def _constant(text: str) -> Value:
    raise ValueError(f"{text} cannot be written in JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=Number, parse_constant=_constant
)
