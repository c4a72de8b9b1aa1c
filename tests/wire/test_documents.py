"""Documents of a source: YAML or JSON, and where their fields are."""

import pytest

from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import DocumentError, Place
from bursar.wire.documents.tree import Number, Value


def values(text: str) -> list[Value]:
    return [document.value for document in read_documents([text.encode()])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1e3", [{"a": Number("1e3", 1000)}]),
        ('{"a": 1e3}', [{"a": Number("1e3")}]),
        ('\n {"a": 1e3}', [{"a": Number("1e3")}]),
        ("{a: 1e3}", [{"a": Number("1e3", 1000)}]),
        ('{"a": 1e3,}', [{"a": Number("1e3", 1000)}]),
        ('{"a": 1e3}\n---\n{"a": 1e3}', [{"a": Number("1e3")}, {"a": Number("1e3", 1000)}]),
        ('{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
        ('{"a": 1}\n# the end\n', [{"a": 1}]),
        ("---\n\n---\n~\n---\na: b", [{"a": "b"}]),
        ("", []),
        ("# nothing", []),
        ("[1]", [[1]]),
    ],
)
def test_kinds_of_text_are_told_apart_as_kubectl_does(text, expected):
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b": }', "1:13: a.b: a value is expected"),
        (
            "{a: {b: c: d}}",
            "1:10: a: while parsing a flow mapping: did not find expected ',' or '}'",
        ),
        ('{"a": 1}{"b": 2}{c: 3}', "1:18: a key in double quotes is expected"),
        (
            '{"a": 1} x: [',
            "1:14: x[0]: while parsing a flow node: did not find expected node content",
        ),
        ('{"a": [1, {"b": 2', "1:18: a[1]: ',' or '}' is expected, but the text ends"),
        ('{"a": 1 "b": 2}', "1:9: ',' or '}' is expected"),
        ('{"a": NaN}', "1:7: a: NaN cannot be written in JSON"),
        ('{"a": 1, "a": 2}', "1:10: a: duplicate key"),
    ],
)
def test_what_is_neither_is_refused_as_what_it_was_meant_to_be(text, message):
    with pytest.raises(DocumentError) as caught:
        values(text)

    assert str(caught.value) == message


def test_empty_documents_are_counted_but_not_given():
    documents = list(read_documents([b"---\na: 1\n---\n---\nb: 2\n"]))

    assert [document.number for document in documents] == [1, 3]


@pytest.mark.parametrize(
    "text", ["a:\n  b: 1\n---\na:\n- b:\n    c: 2\n", '{"a": 0}\n---\na:\n- b:\n    c: 2\n']
)
def test_a_field_is_found_again_in_its_own_document(text):
    *_, last = read_documents(iter([text.encode()]))

    assert last.place_of(["a", 0, "b", "c"]).column == 8
    assert last.place_of(["a", 0, "b", "c"]).line == text.count("\n")
    assert last.place_of([]) == last.start_of(last.value)


def test_a_document_knows_where_it_and_its_items_start():
    (document,) = read_documents([b"# first\nkind: List\nitems:\n- a: 1\n"])
    assert isinstance(document.value, dict)
    items = document.value["items"]
    assert isinstance(items, list)

    assert document.start_of(document.value) == Place(2, 1)
    assert document.start_of(items[0]) == Place(4, 3)
