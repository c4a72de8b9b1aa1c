"""JSON documents as plain values, with numbers as they are spelt and every field's place known.

The standard library's decoder recurses, keeps the last of two equal keys and
takes NaN for a number; faster ones forget where they were. This scanner keeps a
window on the text that is always longer than the longest token allowed, so a
token either ends inside it or is too long.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from bursar.wire.documents.json_quick import INTEGER_LENGTH_MAX
from bursar.wire.documents.text import SCALAR_LENGTH_MAX, DocumentError, Place, Text
from bursar.wire.documents.tree import Builder, Number, Tree, Value
from bursar.wire.structs.fields import Step

_LOOKAHEAD: Final = SCALAR_LENGTH_MAX + 2**12
_WINDOW: Final = _LOOKAHEAD + 2**22
_GAP: Final = re.compile(r"[ \t\n\r]*")
_KEY: Final = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')
_COLON: Final = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_STRING: Final = re.compile(r'"([^"\\\x00-\x1f]*)"')
_ESCAPED_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*("?)')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"true|false|null|NaN|Infinity")
_NEXT: Final = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")
_DIGITS: Final = frozenset("-0123456789")
_TOO_LONG: Final = f"more than {SCALAR_LENGTH_MAX} characters in one value or gap"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MEANINGS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}


class JsonSyntaxError(DocumentError):
    """A document that is not JSON; it may be YAML. `document_offset` is where it begins.

    `has_key`: there is a key in double quotes before the error, so its author meant JSON.
    """

    def __init__(self, error: DocumentError, document_offset: int, *, has_key: bool) -> None:
        super().__init__(error.problem, error.place, error.field)
        self.document_offset = document_offset
        self.has_key = has_key


def json_trees(text: Text, target: list[Step]) -> Iterator[Tree]:
    """Read JSON documents that follow each other, and look for a target in each.

    Raises `DocumentError`.
    """
    scanner = _Scanner(text, target)
    while scanner.has_more():
        yield scanner.document()


class _Window:
    """The part of the text around the scanner, which moves on as the scanner does."""

    def __init__(self, text: Text) -> None:
        self.text = ""
        self.position = 0
        self.is_last = False
        self._pieces = text.pieces()
        self._enough = -1
        self._dropped = 0
        # The last place asked for. Places are asked for in order, and counted on from it.
        self._line = 1
        self._line_start = 0
        self._counted = 0

    @property
    def offset(self) -> int:
        return self._dropped + self.position

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self.text)

    def look_ahead(self) -> None:
        """Read on until a whole token follows the position, or the text ends."""
        if self.position <= self._enough:
            return
        self.place(self.offset)
        kept = [self.text[self.position :]]
        length = len(kept[0])
        while length < _WINDOW and not self.is_last:
            piece = next(self._pieces, "")
            self.is_last = not piece
            kept.append(piece)
            length += len(piece)
        self.text = "".join(kept)
        self._dropped += self.position
        self.position = 0
        self._enough = length if self.is_last else length - _LOOKAHEAD

    def place(self, offset: int) -> Place:
        """Line and column of a character of this window, at or after the last one asked for."""
        start, end = self._counted - self._dropped, offset - self._dropped
        breaks = self.text.count("\n", start, end)
        if breaks:
            self._line += breaks
            self._line_start = self._dropped + self.text.rindex("\n", start, end) + 1
        self._counted = offset
        return Place(self._line, offset - self._line_start + 1)


class _Scanner:
    """Reads the window token by token and passes the tokens to the builder."""

    def __init__(self, text: Text, target: list[Step]) -> None:
        self._window = _Window(text)
        self._document_offset = 0
        self._has_key = False
        self._builder: Builder[int] = Builder(self._window.place, 0, target)

    def has_more(self) -> bool:
        """Skip white space; false at the end of the text."""
        window = self._window
        window.look_ahead()
        self._match(_GAP)
        if window.is_at_end and not window.is_last:
            raise self._builder.error(_TOO_LONG, window.offset)
        return not window.is_at_end

    def document(self) -> Tree:
        builder = self._builder
        self._document_offset = self._window.offset
        self._has_key = False
        builder.start(self._document_offset)
        self._value()
        while builder.depth:
            if builder.expects_key:
                self._key()
            self._value()
        return builder.tree()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._window.text, self._window.position)
        if match is not None:
            self._window.position = match.end()
        return match

    def _key(self) -> None:
        window = self._window
        window.look_ahead()
        offset = window.offset
        match = self._match(_KEY)
        if match is not None:
            key: str = match.group(1)
        else:
            self._match(_GAP)
            if not window.text.startswith('"', window.position):
                raise self._syntax_error("a key in double quotes is expected")
            key = self._string()
            if self._match(_COLON) is None:
                self._match(_GAP)
                raise self._syntax_error("':' is expected")
        self._has_key = True
        self._builder.key(key, offset)

    def _value(self) -> None:
        """Take one value, or the start of a list or object and, if it is empty, its end."""
        window = self._window
        window.look_ahead()
        offset = window.offset
        first = window.text[window.position : window.position + 1]
        if first == '"':
            self._builder.add(self._string(), offset)
        elif first in {"{", "["}:
            self._builder.open({} if first == "{" else [], offset)
            window.position += 1
            self._match(_GAP)
            if not window.text.startswith("}" if first == "{" else "]", window.position):
                return
        else:
            self._builder.add(self._number() if first in _DIGITS else self._word(), offset)
        self._next()

    def _next(self) -> None:
        """After a value: close the branches that end here, or step over the comma."""
        builder, window = self._builder, self._window
        while builder.depth:
            window.look_ahead()
            match = _NEXT.match(window.text, window.position)
            closing = "}" if builder.is_object else "]"
            if match is None or match.group(1) not in {",", closing}:
                self._match(_GAP)
                raise self._syntax_error(f"',' or '{closing}' is expected")
            window.position = match.end()
            if match.group(1) == ",":
                return
            builder.close(window.offset)

    def _string(self) -> str:
        start = self._window.offset
        match = self._match(_STRING)
        text: str = self._escaped_string() if match is None else match.group(1)
        if len(text) > SCALAR_LENGTH_MAX:
            raise self._builder.error(_TOO_LONG, start)
        return text

    def _escaped_string(self) -> str:
        start = self._window.offset
        opened = self._match(_ESCAPED_STRING)
        assert opened is not None
        literal = opened.group()
        if opened.group(1):
            text: str = json.loads(literal)
            # Go puts the replacement character where half of a pair stands alone.
            return _LONE_SURROGATE.sub("\ufffd", text)
        if len(literal) > SCALAR_LENGTH_MAX:
            raise self._builder.error(_TOO_LONG, start)
        raise self._syntax_error("the end of the string, or a valid escape in it, is expected")

    def _number(self) -> int | Number:
        start = self._window.offset
        match = self._match(_NUMBER)
        if match is None:
            raise self._syntax_error("a value is expected")
        text = match.group()
        if len(text) > SCALAR_LENGTH_MAX:
            raise self._builder.error(_TOO_LONG, start)
        if text == "-0":
            return Number(text, 0)
        is_integer = match.group(1) is None and match.group(2) is None
        return int(text) if is_integer and len(text) <= INTEGER_LENGTH_MAX else Number(text)

    def _word(self) -> Value:
        start = self._window.offset
        match = self._match(_WORD)
        if match is None:
            self._match(_GAP)
            raise self._syntax_error("a value is expected")
        word = match.group()
        if word not in _MEANINGS:
            raise self._builder.error(f"{word} cannot be written in JSON", start)
        return _MEANINGS[word]

    def _syntax_error(self, problem: str) -> DocumentError:
        window = self._window
        if window.is_at_end and not window.is_last:
            return self._builder.error(_TOO_LONG, window.offset)
        if window.is_at_end:
            problem = f"{problem}, but the text ends"
        error = self._builder.error(problem, window.offset)
        return JsonSyntaxError(error, self._document_offset, has_key=self._has_key)
