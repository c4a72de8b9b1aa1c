"""What we write as YAML, every reader reads as the same data."""

import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.tree import Number
from bursar.wire.documents.yaml_writing import require_finite, yaml_stream, yaml_text
from bursar.wire.structs.fields import FieldError, number_text
from support.faults.ambiguous_yaml import NASTY

CHARACTERS = st.characters(codec="utf-8")
NEAR_NUMBERS = st.text("0189xXoObB_+-.eEfaniNIyYTZ~: ", max_size=7)
NEAR_SYNTAX = st.text(" -?:,[]{}#&*!|>'\"%@`ab\n\t=<.", max_size=7)
TEXTS = (
    st.text(CHARACTERS, max_size=12)
    | NEAR_NUMBERS
    | NEAR_SYNTAX
    | st.sampled_from(NASTY)
    | st.text("ab\n #-", min_size=3)
)
LONG = st.text("ab é", min_size=500, max_size=1500)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS | TEXTS | LONG, inner, max_size=4)
    ),
    max_leaves=12,
)


def read(text: str) -> list[Any]:
    return [document.value for document in read_documents([text.encode()])]


def typed(value: Any) -> Any:
    """So that true is not 1; and with numbers as JSON spells them, which is all that Go keeps."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    if isinstance(value, Number):
        return typed(value.meaning)
    if isinstance(value, float):
        return ("number", number_text(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return ("number", str(value))
    return (type(value), value)


@given(TREES)
@example({"y": ["y", ["n", {"no": "0o17"}], "1e3", "08"]})
@example({"a" * 600: {"b" * 600: ["x\ny", {"c": "d\ne\n"}]}})
@example([[[]], [{}], {"": ""}])
def test_our_reader_gives_back_any_tree(tree):
    assert typed(read(yaml_text({"tree": tree}))) == typed([{"tree": tree}])


@given(TREES)
def test_so_does_a_reader_of_yaml_1_1(tree):
    assert yaml.safe_load(yaml_text([tree])) == [tree]


@given(st.lists(TREES.filter(lambda tree: tree is not None), max_size=4))
def test_documents_of_a_stream_stay_apart(trees):
    text = yaml_stream(trees)

    assert list(yaml.safe_load_all(text)) == trees
    assert text.count("\n---\n") + text.startswith("---\n") == len(trees)


@pytest.mark.parametrize("text", NASTY)
def test_what_is_no_text_without_quotes_gets_them(text):
    assert read(yaml_text({text: text})) == [{text: text}]


YAML_1_2_CORE = ["08", "09", "0o17", "1e3", "+12", "0x1F", "-.5E3", "1.", "~", "Null", ".NaN"]


@pytest.mark.parametrize("text", [*YAML_1_2_CORE, "y", "N", "on", "1_000", "1:30", "2001-01-01"])
def test_quotes_are_for_all_kinds_of_yaml(text):
    assert yaml_text([text]) == f"- '{text}'\n"


def test_characters_that_readers_change_are_escaped():
    assert yaml_text(
        ["a\x85b", "\u2028\u2029", "\ufeff", "\x00\x1b\x7f", "a\tb\r", "\U000e0001"]
    ) == (
        '- "a\\x85b"\n'
        '- "\\u2028\\u2029"\n'
        '- "\\ufeff"\n'
        '- "\\x00\\x1b\\x7f"\n'
        '- "a\\tb\\r"\n'
        '- "\\U000e0001"\n'
    )


def test_half_of_a_surrogate_pair_becomes_what_go_makes_of_it():
    assert read(yaml_text({"a": "x\ud800y"})) == [{"a": "x\ufffdy"}]


def test_lines_stand_as_they_are_unless_blanks_could_be_lost():
    assert yaml_text({"a": ["one\n\n  two", "one\n"], "b": "one \ntwo", "c": "one\n\n"}) == (
        'a:\n- |-\n  one\n\n    two\n- |\n  one\nb: "one \\ntwo"\nc: "one\\n\\n"\n'
    )


def a_manifest() -> Iterator[Any]:
    yield {
        "metadata": {"name": "web", "labels": {"a.b/c": "1", "empty": ""}, "annotations": {}},
        "spec": {
            "containers": [{"name": "c", "args": ["--a=b", "-", "a: b", "*"], "ports": []}],
            "list of lists": [[1, [2.5, None]], [{"a": True}]],
            "expression": "object.metadata.name == 'a' && [1].exists(x, x > 0) # no",
            "version": "1.36.4",
            "amounts": {"cpu": "500m", "memory": "8Gi"},
            "long": "word " * 60 + "end",
            "unicode": "é 😀",
        },
    }


def test_the_look_is_that_of_pyyaml():
    for manifest in a_manifest():
        expected = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=sys.maxsize)

        assert yaml_text(manifest) == expected


def test_fields_keep_their_order():
    assert yaml_text({"b": 1, "a": 2, "c": 3}) == "b: 1\na: 2\nc: 3\n"


def test_nothing_refers_to_anything_else():
    shared = {"a": ["b"]}

    assert yaml_text([shared, shared]) == "- a:\n  - b\n" * 2


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_none_is_refused_with_its_field(number):
    tree = {"spec": {"list": [0, {"x": number}]}}

    for refuse in (yaml_text, require_finite):
        with pytest.raises(FieldError, match=r"spec\.list\[1\]\.x: the number is too large"):
            refuse(tree)


def test_numbers_of_ordinary_size_are_accepted_wherever_they_stand():
    require_finite({"spec": {"list": [0, {"x": 1.5}, "inf"], "none": None}, "empty": {}})


def test_what_is_no_plain_data_is_our_mistake():
    with pytest.raises(TypeError, match="a key must be a string, not int"):
        yaml_text({1: 2})
    with pytest.raises(TypeError, match="set cannot be written"):
        yaml_text([{1}])
