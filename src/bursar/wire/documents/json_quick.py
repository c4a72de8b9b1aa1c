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
_CONTENT: Final = bytes(byte for byte in range(256) if byte not in b"{}[],:")
"""All bytes but those that structure a document."""
_BRANCHES: Final = (dict, list)


class NotPlainError(Exception):
    """A source that only the exact scanner can judge."""


def quick_trees(text: Text) -> Iterator[Tree]:
    """Read JSON documents that follow each other. Raises `NotPlainError`."""
    try:
        whole = "".join(text.pieces())
    except DocumentError:
        raise NotPlainError from None
    structure = whole.encode().translate(None, _CONTENT)
    if not _is_plain(whole, structure):
        raise NotPlainError
    is_shallow = _is_shallow(structure)
    position = _after_gap(whole, 0)
    while position < len(whole):
        try:
            value, end = _DECODER.raw_decode(whole, position)
        except (ValueError, RecursionError):
            raise NotPlainError from None
        if not is_shallow and _depth(value) > DEPTH_MAX:
            raise NotPlainError
        place = text.place(position)
        yield Tree(value, place, None, place)
        position = _after_gap(whole, end)


def _after_gap(whole: str, position: int) -> int:
    gap = _GAP.match(whole, position)
    assert gap is not None, "an empty gap matches"
    return gap.end()


def _is_plain(whole: str, structure: bytes) -> bool:
    """Whether the text can neither have too many values nor too long ones, nor half characters."""
    values = len(structure) - structure.count(b"}") - structure.count(b"]")
    if values >= VALUES_MAX or ("\\u" in whole and _HALF.search(whole)):
        return False
    # A value or a gap that is too long has two whole steps without a quotation mark in it, unless
    # the value has escaped ones; the limit of the source bounds such a value.
    step = SCALAR_LENGTH_MAX // 2
    return all(
        whole.find('"', start, start + step) >= 0 for start in range(0, len(whole) - step, step)
    )


def _is_shallow(structure: bytes) -> bool:
    """Whether the brackets alone show that nothing is nested too deep.

    Brackets in texts are taken for others, which mostly only makes it look deeper.
    """
    brackets = structure.translate(None, b",:")
    for _ in range(DEPTH_MAX):
        if not brackets:
            return True
        # In this order one round removes at least one level of either kind.
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return False


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
