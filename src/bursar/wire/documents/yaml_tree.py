"""YAML documents as plain values, built from libyaml's events one at a time.

PyYAML's own constructors recurse, resolve scalars by other rules than kubectl,
take the last of two equal keys and follow aliases wherever they lead. Here each
event passes one loop that counts, and knows at every moment the field it is in.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import yaml
from yaml import events

from bursar.wire.documents import yaml_scalars
from bursar.wire.documents.text import (
    DEPTH_MAX,
    PIECE_BYTES_MAX,
    SCALAR_LENGTH_MAX,
    DocumentError,
    Place,
    Text,
)
from bursar.wire.documents.tree import MERGE, Branch, Builder, Number, Tree, Value
from bursar.wire.documents.yaml_scalars import ScalarError
from bursar.wire.structs.fields import Scalar, Step, quoted

ALIASED_VALUES_MAX: Final = 400_000
"""Most values of one document that may come from aliases; kubectl's YAML library allows as many."""

_SLACK: Final = 2 * PIECE_BYTES_MAX
"""Characters libyaml may have been given beyond what it needed for the last event."""

_PROLOGUE_MAX: Final = 2**18
"""Longest text outside of a document, where libyaml takes quadratic time for directives."""

_MERGE_TAG: Final = yaml_scalars.TAG_PREFIX + "merge"
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_FORBIDDEN: Final = re.compile("[\x7f-\x84\x86-\x9f\ufffe\uffff]")

EventLoader: TypeAlias = "type[yaml.CSafeLoader | yaml.SafeLoader]"
LOADER: Final[EventLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's loader on libyaml, or the one in Python, some 20 times slower, if libyaml is absent."""


class Mark(Protocol):
    """Where an event begins or ends, counted from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Base:
    """Where the parser's text begins in the source."""

    start: Place

    def place(self, mark: Mark | None) -> Place:
        if mark is None:
            return self.start
        if mark.line == 0:
            return Place(self.start.line, self.start.column + mark.column)
        return Place(self.start.line + mark.line, mark.column + 1)


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A value with a name: how many values are in it, how many levels, and what it is as a key."""

    value: Value
    size: int
    height: int
    key: events.ScalarEvent | None = None


def yaml_trees(
    text: Text, target: list[Step], *, offset: int = 0, loader: EventLoader = LOADER
) -> Iterator[Tree]:
    """Read all documents of a YAML text from an offset on, and look for a target in each.

    Raises `DocumentError`.
    """
    reader = _Reader(text, offset, target)
    source = loader(reader)
    while True:
        try:
            event = source.get_event()
        except DocumentError:
            raise
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            raise reader.syntax_error(error) from None
        if event is None:
            return
        reader.take(event)
        if type(event) is events.DocumentEndEvent:
            yield reader.tree()


class _Reader:
    """Feeds the parser with text, and takes its events."""

    def __init__(self, text: Text, offset: int, target: list[Step]) -> None:
        self._text = text
        self._offset = offset
        self._base = _Base(text.place(offset))
        self._pieces = text.pieces(offset)
        self._builder: Builder[Mark | None] = Builder(self._base.place, None, target)
        self._silence = 0
        self._last: events.Event | None = None
        self._last_heard: events.Event | None = None
        self._keys: dict[str, str] = {}
        self._forget_anchors()

    def _forget_anchors(self) -> None:
        self._anchors: dict[str, _Anchored | None] = {}
        self._names: list[str | None] = []
        self._measured: dict[int, _Anchored] = {}
        self._aliased = 0

    def read(self, _size: int = -1) -> str:
        """The parser's source of text. It reads ahead only as far as the next event needs."""
        piece = next(self._pieces, "")
        if self._last is not self._last_heard:
            self._last_heard = self._last
            self._silence = 0
        self._silence += len(piece)
        limit = SCALAR_LENGTH_MAX if self._builder.depth else _PROLOGUE_MAX
        if self._silence > limit + _SLACK:
            problem = f"more than {limit} characters in one value or comment"
            raise self._builder.error(problem, self._end_of_last())
        found = _FORBIDDEN.search(piece)
        if found:
            place = self._text.place(self._offset + found.start())
            raise DocumentError(f"control character U+{ord(found.group()):04X}", place)
        self._offset += len(piece)
        return piece

    def syntax_error(self, error: Exception) -> DocumentError:
        mark = getattr(error, "problem_mark", None) or self._end_of_last()
        context = getattr(error, "context", None)
        problem = getattr(error, "problem", None) or "the text is not YAML"
        place = self._base.place(mark)
        end = self._text.end()
        # At the end of the text the parser stands in a line of its own after the last one.
        if place.column == 1 and place.is_after(end):
            place = end
        text = f"{context}: {problem}" if context else problem
        return DocumentError(text, place, self._builder.field())

    def tree(self) -> Tree:
        return self._builder.tree()

    def take(self, event: events.Event) -> None:
        self._last = event
        if isinstance(event, events.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, events.MappingStartEvent):
            self._open({}, event, "map")
        elif isinstance(event, events.SequenceStartEvent):
            self._open([], event, "seq")
        elif isinstance(event, events.CollectionEndEvent):
            self._close(event)
        elif isinstance(event, events.AliasEvent):
            self._alias(event)
        elif isinstance(event, events.DocumentStartEvent):
            self._builder.start(event.start_mark)
            self._forget_anchors()

    def _scalar(self, event: events.ScalarEvent) -> None:
        builder = self._builder
        mark = event.start_mark
        if len(event.value) > SCALAR_LENGTH_MAX:
            raise builder.error(f"longer than {SCALAR_LENGTH_MAX} characters", mark)
        try:
            if builder.expects_key:
                builder.key(self._key(event), mark)
            else:
                builder.add(_scalar_value(event), mark)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(_scalar_value(event), 1, 0, event)
        except ScalarError as error:
            raise builder.error(str(error), mark) from None

    def _open(self, branch: Branch, event: events.CollectionStartEvent, tag: str) -> None:
        mark = event.start_mark
        if self._builder.expects_key:
            raise self._builder.error("a list or an object cannot be a key", mark)
        if event.tag not in {None, "!", yaml_scalars.TAG_PREFIX + tag}:
            raise self._builder.error(f"unknown tag {quoted(str(event.tag))}", mark)
        self._builder.open(branch, mark)
        self._names.append(event.anchor)
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _close(self, event: events.Event) -> None:
        closed = self._builder.close(event.start_mark)
        name = self._names.pop()
        if name is not None:
            size, height = self._measure(closed)
            self._anchors[name] = self._measured[id(closed)] = _Anchored(closed, size, height)

    def _alias(self, event: events.AliasEvent) -> None:
        builder = self._builder
        mark = event.start_mark
        name = event.anchor or ""
        if name not in self._anchors:
            raise builder.error(f"unknown anchor {quoted(name)}", mark)
        anchored = self._anchors[name]
        if anchored is None:
            raise builder.error(f"the anchor {quoted(name)} contains itself", mark)
        self._aliased += anchored.size
        if self._aliased > ALIASED_VALUES_MAX:
            problem = f"aliases expand to more than {ALIASED_VALUES_MAX} values"
            raise builder.error(problem, mark)
        if builder.depth + anchored.height > DEPTH_MAX:
            raise builder.error(f"nested more than {DEPTH_MAX} levels deep", mark)
        if builder.expects_key:
            self._alias_key(anchored, mark)
        elif builder.is_merging and not isinstance(anchored.value, dict):
            raise builder.error("only objects can be merged with <<", mark)
        else:
            builder.add(anchored.value, mark, count=anchored.size)

    def _alias_key(self, anchored: _Anchored, mark: Mark | None) -> None:
        if anchored.key is None:
            raise self._builder.error("a list or an object cannot be a key", mark)
        try:
            self._builder.key(str(self._key(anchored.key)), mark)
        except ScalarError as error:
            raise self._builder.error(str(error), mark) from None

    def _key(self, event: events.ScalarEvent) -> str:
        """The key a scalar stands for; plain ones are remembered, for most occur often."""
        text = event.value
        if text == MERGE and (event.implicit[0] or event.tag == _MERGE_TAG):
            return MERGE
        if event.tag is not None:
            return text if event.tag == "!" else yaml_scalars.tagged_key(event.tag, text)
        if not event.implicit[0]:
            return text
        key = self._keys.get(text)
        if key is None:
            key = self._keys[text] = yaml_scalars.plain_key(text)
        return key

    def _measure(self, branch: Branch) -> tuple[int, int]:
        """Values and levels in a complete branch; those of named branches inside are known."""
        size, height = 1, 1
        for value in branch.values() if isinstance(branch, dict) else branch:
            known = self._measured.get(id(value))
            if known is not None:
                inner = (known.size, known.height)
            elif isinstance(value, dict | list):
                inner = self._measure(value)
            else:
                inner = (1, 0)
            size += inner[0]
            height = max(height, inner[1] + 1)
        return size, height

    def _end_of_last(self) -> Mark | None:
        return None if self._last is None else self._last.end_mark


def _scalar_value(event: events.ScalarEvent) -> Scalar | Number:
    text = event.value
    if event.tag == "!" or (event.tag is None and not event.implicit[0]):
        return text
    value = yaml_scalars.plain(text) if event.tag is None else yaml_scalars.tagged(event.tag, text)
    if isinstance(value, str | bool | None) or str(value) == text:
        return value
    return Number(text, value) if _JSON_NUMBER.fullmatch(text) else value
