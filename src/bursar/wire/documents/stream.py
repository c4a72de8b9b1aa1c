"""From the bytes of a source to its documents, YAML or JSON, as `kubectl -f` tells them apart.

A source that begins with a brace is read as JSON, one document after another.
If that fails on the first or second one, the rest is read as YAML, for `{a: b}`
is YAML too, and so are JSON documents between lines of three dashes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bursar.wire.documents.json_quick import NotPlainError, quick_trees
from bursar.wire.documents.json_tree import JsonSyntaxError, json_trees
from bursar.wire.documents.text import DocumentError, Place, Text
from bursar.wire.documents.tree import Tree, Value
from bursar.wire.documents.yaml_tree import yaml_trees
from bursar.wire.structs.fields import Step

_JSON_DOCUMENTS_UNCERTAIN: Final = 2
"""After this many JSON documents a source is JSON, whatever follows."""


@dataclass(slots=True)
class Document:
    """One document of a source, with its number from 1; empty ones are counted, too."""

    number: int
    tree: Tree
    text: Text

    @property
    def value(self) -> Value:
        return self.tree.root

    def start_of(self, value: Value) -> Place:
        """Where an object of the document begins: the whole of it, or one of a List's items.

        If the source was read quickly, the first call reads it again.
        """
        if self.tree.starts is None and value is not self.tree.root:
            self.tree = self.tree.with_starts_of(self._exact([]))
        return self.tree.start_of(value)

    def place_of(self, steps: Sequence[Step]) -> Place:
        """The place of a field, or of the last step towards it that exists.

        Only errors need the place of a field, so the source is read again to find it.
        """
        if not steps:
            return self.tree.place
        return self._exact(list(steps)).target_place

    def _exact(self, target: list[Step]) -> Tree:
        """This document, read with places."""
        again = enumerate(_exact_trees(self.text, target), start=1)
        return next(tree for number, tree in again if number == self.number)


def read_documents(chunks: Iterable[bytes]) -> Iterator[Document]:
    """Read the documents of a source that are not empty. Raises `DocumentError`."""
    text = Text(chunks)
    for number, tree in enumerate(_trees(text), start=1):
        if tree.root is not None:
            yield Document(number, tree, text)


def _trees(text: Text) -> Iterator[Tree]:
    """All documents; places only where the quick reader could not be used."""
    count = 0
    if _may_be_json(text):
        try:
            for tree in quick_trees(text):
                yield tree
                count += 1
        except NotPlainError:
            pass
        else:
            return
    yield from islice(_exact_trees(text, []), count, None)


def _may_be_json(text: Text) -> bool:
    return next(text.pieces(), "").lstrip().startswith("{")


def _exact_trees(text: Text, target: list[Step]) -> Iterator[Tree]:
    if not _may_be_json(text):
        yield from yaml_trees(text, target)
        return
    count = 0
    try:
        for tree in json_trees(text, target):
            yield tree
            count += 1
    except JsonSyntaxError as error:
        if count >= _JSON_DOCUMENTS_UNCERTAIN:
            raise
        yield from _yaml_after_all(text, error, target)


def _yaml_after_all(text: Text, json_error: JsonSyntaxError, target: list[Step]) -> Iterator[Tree]:
    """Read text that is not JSON as YAML; if it is neither, report the likelier error."""
    try:
        yield from yaml_trees(text, target, offset=json_error.document_offset)
    except DocumentError:
        if json_error.has_key:
            raise json_error from None
        raise
