"""The quick reader of JSON: it gives what the exact scanner gives, or leaves the text to it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.wire.documents.json_quick import NotPlainError, quick_trees
from bursar.wire.documents.json_tree import json_trees
from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import DEPTH_MAX, SCALAR_LENGTH_MAX, VALUES_MAX, Text
from bursar.wire.documents.tree import Number, Value

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)


def text_of(text: str) -> Text:
    return Text([text.encode()])


def quick(text: str) -> list[Value]:
    return [tree.root for tree in quick_trees(text_of(text))]


def exact(text: str) -> list[Value]:
    return [tree.root for tree in json_trees(text_of(text), [])]


@given(
    values=st.lists(
        st.recursive(
            LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
        ),
        max_size=3,
    ),
    indent=st.sampled_from([None, 2]),
)
def test_plain_documents_are_read_as_the_scanner_reads_them(values, indent):
    text = "\n".join(json.dumps(value, indent=indent) for value in values)

    try:
        read = quick(text)
    except NotPlainError:
        assert "\\ud" in text
    else:
        assert read == exact(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": -0, "b": 1.10, "c": 1e3, "d": 123456789012345678901, "e": -1}',
        "[" * DEPTH_MAX + "]" * DEPTH_MAX,
        '{"a": "}}}{{{"}',
    ],
)
def test_numbers_keep_their_spelling_and_brackets_in_texts_are_texts(text):
    assert quick(text) == exact(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": 1,}',
        '{"a": "\\ud800"}',
        '{"a": "\x01"}',
        '{"a": 1} x',
        "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1),
        "[" * 100_000 + "]" * 100_000,
        "[" + "0," * VALUES_MAX + "0]",
        json.dumps("x" * (SCALAR_LENGTH_MAX + 1)),
        "{" + " " * (SCALAR_LENGTH_MAX + SCALAR_LENGTH_MAX // 2) + "}",
    ],
    ids=lambda text: text[:20],
)
def test_what_might_break_a_rule_is_left_to_the_scanner(text):
    with pytest.raises(NotPlainError):
        quick(text)


def test_items_know_where_they_start_though_they_were_read_without_places():
    source = b'{"kind": "List",\n "items": [\n  {"items": [\n   {}]},\n  {"a": 1}]}'
    (document,) = read_documents([source])
    assert isinstance(document.value, dict)
    items = document.value["items"]
    assert isinstance(items, list)
    assert isinstance(items[0], dict)
    inner = items[0]["items"]
    assert isinstance(inner, list)

    places = [str(document.start_of(each)) for each in (document.value, *items, *inner)]

    assert places == ["1:1", "3:3", "5:3", "4:4"]


def test_documents_behind_the_json_ones_come_from_the_exact_readers():
    documents = list(read_documents([b'{"a": 1}\n---\nb: 1.10\n']))

    assert [(each.number, each.tree.starts is None) for each in documents] == [
        (1, True),
        (2, False),
    ]
    assert documents[1].value == {"b": Number("1.10", 1.1)}
