"""JSON documents as plain values: spelling of numbers, strictness, bounds, places."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.wire.documents.json_tree import JsonSyntaxError, json_trees
from bursar.wire.documents.text import DEPTH_MAX, SCALAR_LENGTH_MAX, DocumentError, Place, Text
from bursar.wire.documents.tree import Number, Tree, Value

STRING = "the end of the string, or a valid escape in it, is expected"
LONG = f"more than {SCALAR_LENGTH_MAX} characters in one value or gap"


def trees(text: str, *target: str | int) -> list[Tree]:
    return list(json_trees(Text([text.encode()]), list(target)))


def value(text: str) -> Value:
    (tree,) = trees(text)
    return tree.root


def refusal(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        trees(text)
    return caught.value


PLAIN = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text()
VALUES = st.recursive(
    PLAIN, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside), max_leaves=20
)


@given(VALUES, st.sampled_from([None, 0, 4]), st.booleans())
@settings(max_examples=150)
def test_what_json_writes_is_read_back(written, indent, ascii_only):
    assert value(json.dumps(written, indent=indent, ensure_ascii=ascii_only)) == written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-12", -12),
        ("1e3", Number("1e3")),
        ("1E3", Number("1E3")),
        ("0.50", Number("0.50")),
        ("-0.5e-7", Number("-0.5e-7")),
        ("9" * 20, int("9" * 20)),
        ("9" * 21, Number("9" * 21)),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\ud83dx"', "\ufffdx"),
        ('"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041"', 'a"\\/\b\f\n\r\tA'),
        ('{"a\\u0062" : 1}', {"ab": 1}),
        (' { "a" : [ ] , "b" : { } } ', {"a": [], "b": {}}),
        ("[[],[[]],{}]", [[], [[]], {}]),
    ],
)
def test_values(text, expected):
    assert value(text) == expected


def test_documents_follow_each_other_with_or_without_space():
    assert [tree.root for tree in trees('{"a":1}{"b":2}\n\n[3] "x" 4 ')] == [
        {"a": 1}, {"b": 2}, [3], "x", 4,
    ]  # fmt: skip
    assert trees(" \n\t") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "1:2: a key in double quotes is expected, but the text ends"),
        ("{a: 1}", "1:2: a key in double quotes is expected"),
        ('{"a" 1}', "1:6: ':' is expected"),
        ('{"a\\n" 1}', "1:8: ':' is expected"),
        ('{"a":}', "1:6: a: a value is expected"),
        ('{"a":1,}', "1:8: a key in double quotes is expected"),
        ('{"a":[1,]}', "1:9: a[1]: a value is expected"),
        ('{"a":[1 2]}', "1:9: a[1]: ',' or ']' is expected"),
        ('{"a":[1}', "1:8: a[1]: ',' or ']' is expected"),
        ('{"a":1]', "1:7: ',' or '}' is expected"),
        ('{"a":1', "1:7: ',' or '}' is expected, but the text ends"),
        ('{"a":tru}', "1:6: a: a value is expected"),
        ('{"a":-}', "1:6: a: a value is expected"),
        ('{"a":01}', "1:7: ',' or '}' is expected"),
        (
            '{"a":"x',
            f"1:8: a: {STRING}, but the text ends",
        ),
        ('{"a":"x\\q"}', f"1:8: a: {STRING}"),
        ('{"a":"x\ty"}', f"1:8: a: {STRING}"),
        ('{\n"a":\n  {"b": ?', "3:9: a.b: a value is expected"),
    ],
)
def test_what_is_not_json_is_refused_where_it_stops_being_json(text, message):
    error = refusal(text)

    assert str(error) == message
    assert isinstance(error, JsonSyntaxError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,"a":2}', "1:8: a: duplicate key"),
        ('{"x":[{"a":1,"\\u0061":2}]}', "1:14: x[0].a: duplicate key"),
        ('{"a":NaN}', "1:6: a: NaN cannot be written in JSON"),
        ('{"a":[1, Infinity]}', "1:10: a[1]: Infinity cannot be written in JSON"),
        ("[" * 101, "1:101: " + "[0]" * 100 + f": nested more than {DEPTH_MAX} levels deep"),
    ],
)
def test_what_is_json_but_not_acceptable_is_not_tried_as_yaml(text, message):
    error = refusal(text)

    assert str(error) == message
    assert not isinstance(error, JsonSyntaxError)


def test_negative_infinity_is_refused():
    assert refusal('{"a":-Infinity}').place == Place(1, 6)


def test_a_syntax_error_says_where_its_document_began():
    error = refusal('{"a":1}\n\n{b}')

    assert isinstance(error, JsonSyntaxError)
    assert error.document_offset == 9


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"' + "x" * (SCALAR_LENGTH_MAX + 1) + '"}',
        '{"a":"\\n' + "x" * SCALAR_LENGTH_MAX + '"}',
        '{"a":"' + "x" * 2**23,
        '{"a":"' + "\\n" * 2**22,
        '{"a":' + "1" * (SCALAR_LENGTH_MAX + 1) + "}",
        '{"a":' + "1" * 2**23,
    ],
    ids=["closed", "escape", "endless", "escapes", "number", "digits"],
)
def test_a_value_too_long_is_refused_with_its_field(text):
    assert str(refusal(text)) == f"1:6: a: {LONG}"


@pytest.mark.parametrize("text", ["", "{", '{"a":', '{"a":1', '{"a":[', '{"a"'])
def test_a_gap_too_long_is_refused(text):
    assert LONG in str(refusal(text + " " * 2**24 + "}"))


def test_a_long_value_is_read_across_windows():
    long = "x" * (SCALAR_LENGTH_MAX - 5)
    expected = {f"k{n}": long for n in range(20)}

    assert value(json.dumps(expected)) == expected


TARGETED = '{"a": {\n"b": [1,\n 22]},\n "items": [{"c":\n {}}, {"d": 3}]}'


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ([], Place(1, 1)),
        (["a"], Place(1, 7)),
        (["a", "b", 1], Place(3, 2)),
        (["items", 0, "c"], Place(5, 2)),
        (["items", 1, "d"], Place(5, 13)),
        (["items", 2], Place(4, 11)),
    ],
)
def test_the_place_of_a_field_or_of_the_way_to_it(target, place):
    (tree,) = trees(TARGETED, *target)

    assert tree.target_place == place


@pytest.mark.slow
def test_objects_in_a_list_know_where_they_start_in_a_long_text():
    count = 60_000
    text = (
        '{"items": [\n' + ",\n".join('  {"name": "' + "x" * 90 + '"}' for _ in range(count)) + "]}"
    )
    (tree,) = trees(text)
    assert isinstance(tree.root, dict)
    items = tree.root["items"]
    assert isinstance(items, list)

    assert len(text) > 2**22
    assert [tree.start_of(items[n]) for n in (0, 1, count - 1)] == [
        Place(2, 3), Place(3, 3), Place(count + 1, 3),
    ]  # fmt: skip
