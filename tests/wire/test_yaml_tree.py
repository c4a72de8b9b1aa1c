"""YAML documents as plain values: structure, anchors, merges, bounds, places."""

import subprocess
import sys

import pytest
import yaml

from bursar.wire.documents.text import (
    DEPTH_MAX,
    SCALAR_LENGTH_MAX,
    VALUES_MAX,
    DocumentError,
    Place,
    Text,
)
from bursar.wire.documents.tree import Number, Tree, Value
from bursar.wire.documents.yaml_tree import ALIASED_VALUES_MAX, yaml_trees

STRAY = "found character that cannot start any token"
LOADERS = [yaml.CSafeLoader, yaml.SafeLoader]


def trees(text: str, *target: str | int) -> list[Tree]:
    return list(yaml_trees(Text([text.encode()]), list(target)))


def value(text: str) -> Value:
    (tree,) = trees(text)
    return tree.root


def refusal(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        trees(text)
    return str(caught.value)


@pytest.mark.parametrize("loader", LOADERS)
def test_both_parsers_build_the_same(loader):
    text = "a: &x [1, '1', ~]\nb: {c: *x, y: 0.5}\n? d\n: |\n  e\n---\n- f: !!str 5\n- <<: {g: 1}\n"
    found = [tree.root for tree in yaml_trees(Text([text.encode()]), [], loader=loader)]

    assert found == [
        {"a": [1, "1", None], "b": {"c": [1, "1", None], "true": 0.5}, "d": "e\n"},
        [{"f": "5"}, {"g": 1}],
    ]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    "text",
    ["a: b: c", "a: [", '"\\U00110000"', "!%ed%a0%80 x", "\ta", "'", "a: *x", "%YAML 9.9\n--- a"],
)
def test_both_parsers_refuse_with_a_document_error(loader, text):
    with pytest.raises(DocumentError):
        list(yaml_trees(Text([text.encode()]), [], loader=loader))


WITHOUT_LIBYAML = """
import sys
sys.modules["yaml._yaml"] = None
from bursar.wire.documents.text import Text
from bursar.wire.documents.yaml_tree import LOADER, yaml_trees
print(LOADER.__name__, [tree.root for tree in yaml_trees(Text([b"a: [b]"]), [])])
"""


def test_without_libyaml_its_python_twin_is_used():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBYAML], capture_output=True, text=True, check=False
    )

    assert (run.stderr, run.stdout) == ("", "SafeLoader [{'a': ['b']}]\n")


def test_an_empty_text_has_no_document_and_an_empty_document_is_null():
    assert trees("") == []
    assert [tree.root for tree in trees("---\n---\n# nothing\n---\na: 1\n")] == [
        None,
        None,
        {"a": 1},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x 1\nb: *x", {"a": 1, "b": 1}),
        ("- &x a\n- {*x : 1}", ["a", {"a": 1}]),
        ("- &x 1e10\n- {*x : 1}", [Number("1e10", 10**10), {"1e+10": 1}]),
        ("- &x <<\n- {*x : 1}", ["<<", {"<<": 1}]),
        ("&k key: *k", {"key": "key"}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("a: &x {p: 1}\nb: {<<: *x, q: 2}", {"a": {"p": 1}, "b": {"p": 1, "q": 2}}),
        ("a: &x {p: 1}\nb: {<<: *x, p: 2}", {"a": {"p": 1}, "b": {"p": 2}}),
        ("a: &x {p: 1}\nb: {p: 2, <<: *x}", {"a": {"p": 1}, "b": {"p": 1}}),
        ("{<<: [{p: 1}, {p: 2, q: 3}]}", {"p": 1, "q": 3}),
        ("{<<: {p: 1}, <<: {q: 2}}", {"p": 1, "q": 2}),
        ("{<<: {<<: {p: 1}, q: 2}}", {"p": 1, "q": 2}),
        ("!!merge <<: {p: 1}", {"p": 1}),
        ("! <<: {p: 1}", {"p": 1}),
        ("'<<': {p: 1}", {"<<": {"p": 1}}),
        ("- <<", ["<<"]),
        ("! 5", "5"),
        ("{! 5: ! [a]}", {"5": ["a"]}),
        ("!!map {a: !!seq [b]}", {"a": ["b"]}),
        ("!!str 1: !!int '2'", {"1": 2}),
        ("a: 'b\n\n  c'", {"a": "b\nc"}),
        ("a:\r\n- b\r\n", {"a": ["b"]}),
        ("{a, b}", {"a": None, "b": None}),
    ],
)
def test_structures(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "3:1: a: duplicate key"),
        ("a:\n- b: 1\n  'b': 2", "3:3: a[0].b: duplicate key"),
        ("labels: {x.y/z: 1, x.y/z: 2}", "1:20: labels[x.y/z]: duplicate key"),
        ("1: a\n'1': b", "2:1: 1: duplicate key"),
        ("a: 1\n<<: {a: 2}\na: 3", "3:1: a: duplicate key"),
        ("<<: {a: 2}\na: 3\na: 4", "3:1: a: duplicate key"),
        ("a: *x", '1:4: a: unknown anchor "x"'),
        ("a: &x [*x]", '1:8: a[0]: the anchor "x" contains itself'),
        ("a: &x 1\n---\nb: *x", '3:4: b: unknown anchor "x"'),
        ("<<: 1", "1:5: <<: only objects can be merged with <<"),
        ("<<: [1]", "1:7: <<: only objects can be merged with <<"),
        ("a: &x [{}]\n<<: *x", "2:5: <<: only objects can be merged with <<"),
        ("? [a]\n: b", "1:3: a list or an object cannot be a key"),
        ("- &x [a]\n- {*x : 1}", "2:4: [1]: a list or an object cannot be a key"),
        ("a: !mine b", '1:4: a: unknown tag "!mine"'),
        ("a: !!set {b}", '1:4: a: unknown tag "tag:yaml.org,2002:set"'),
        ("a: !!seq {}", '1:4: a: unknown tag "tag:yaml.org,2002:seq"'),
        ("a: &x\nb: {*x : 1}", "2:5: b: null and numbers beyond 64 bits cannot be keys"),
        ("~: 1", "1:1: null and numbers beyond 64 bits cannot be keys"),
        ("a: .inf", "1:4: a: infinity and not-a-number cannot be written in JSON"),
        ("a: !!int x", "1:4: a: not a value that the tag !!int allows"),
        ("a: b: c", "1:5: mapping values are not allowed in this context"),
        (
            "a:\n\t- b",
            f"2:1: a: while scanning for the next token: {STRAY}",
        ),
        ("a: b\x7f", "1:5: control character U+007F"),
        ("a: b\nc: \ufffe", "2:4: control character U+FFFE"),
        ("!%ed%a0%80 x", "1:1: the text is not YAML"),
        ("a: [b", "1:6: a[1]: while parsing a flow sequence: did not find expected ',' or ']'"),
    ],
)
def test_refusals_name_place_field_and_problem(text, message):
    assert refusal(text) == message


def test_equal_keys_are_refused_in_an_object_made_where_a_merged_one_was():
    """An object that was merged is gone, and its memory is used again."""
    assert refusal("{<<: {<<: {a: 1}}, d: {a: 1, a: 2}}") == "1:30: d.a: duplicate key"


def test_nesting_is_bounded():
    assert value("[" * DEPTH_MAX + "]" * DEPTH_MAX)

    for opening in ("[", "{a: ", "- "):
        assert f"nested more than {DEPTH_MAX} levels" in refusal(opening * (DEPTH_MAX + 1))


def test_nesting_through_aliases_is_bounded_as_well():
    links = [f"- &a{n} [*a{n - 1}]" for n in range(1, 200)]

    assert f"nested more than {DEPTH_MAX} levels" in refusal("- &a0 []\n" + "\n".join(links))


def test_a_scalar_may_be_long_but_not_too_long():
    assert value(f"a: '{'x' * SCALAR_LENGTH_MAX}'") == {"a": "x" * SCALAR_LENGTH_MAX}
    assert refusal(f"a: '{'x' * (SCALAR_LENGTH_MAX + 1)}'") == (
        f"1:4: a: longer than {SCALAR_LENGTH_MAX} characters"
    )


@pytest.mark.parametrize(
    ("start", "more"), [("", "x "), ("'", "x "), ("|\n", "      x\n"), ("#", "x"), ("&", "x")]
)
def test_a_text_without_end_is_refused_early_with_its_field(start, more):
    assert refusal(f"b:\n  - c: {start}" + more * 2**21) == (
        f"2:6: b[0].c: more than {SCALAR_LENGTH_MAX} characters in one value or comment"
    )


def test_much_text_before_a_document_is_refused():
    directives = "".join(f"%TAG !{n}! x\n" for n in range(40_000))

    assert refusal(directives).startswith("1:1: more than 262144 characters")


def test_the_values_of_all_documents_together_are_bounded():
    document = "- &a [" + "x, " * 999 + "]\n" + "- *a\n" * 399 + "---\n"
    count = VALUES_MAX // 400_000 + 1

    assert refusal(document * count).endswith(f"more than {VALUES_MAX} values")


def test_aliases_share_what_they_stand_for_up_to_a_bound():
    text = "- &a [" + "x, " * 999 + "]\n"

    assert len(trees(text + "- *a\n" * 400)) == 1
    assert refusal(text + "- *a\n" * 401) == (
        f"402:3: [401]: aliases expand to more than {ALIASED_VALUES_MAX} values"
    )


def test_a_bomb_of_aliases_does_not_go_off():
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 90)
    )

    assert "aliases expand to more than" in refusal(bomb)


def test_a_bomb_of_merges_does_not_go_off():
    fields = ", ".join(f"k{n}: 1" for n in range(1000))
    merges = "".join(f"- {{<<: [*a, *a, *a], b: {n}}}\n" for n in range(400))

    assert "aliases expand to more than" in refusal(f"- &a {{{fields}}}\n{merges}")


TARGETED = """\
first: &base
  cpu: 1
  memory: 2
second:
  limits: *base
third:
  - <<: *base
    memory: 3
  - &inline {<<: {cpu: 4}, gpu: 5}
"""


@pytest.mark.parametrize(
    ("target", "place"),
    [
        (["first"], Place(1, 8)),
        (["first", "cpu"], Place(2, 8)),
        (["second", "limits"], Place(5, 11)),
        (["second", "limits", "cpu"], Place(5, 11)),
        (["third"], Place(7, 3)),
        (["third", 0], Place(7, 5)),
        (["third", 0, "cpu"], Place(7, 9)),
        (["third", 0, "memory"], Place(8, 13)),
        (["third", 1], Place(9, 5)),
        (["third", 1, "gpu"], Place(9, 33)),
        (["third", 1, "cpu"], Place(9, 25)),
        (["third", 2], Place(7, 3)),
        (["nowhere"], Place(1, 1)),
    ],
)
def test_the_place_of_a_field_or_of_the_way_to_it(target, place):
    (tree,) = trees(TARGETED, *target)

    assert tree.target_place == place


def test_places_count_from_the_start_of_the_source():
    text = Text([b"{}\n  a:\n    b: 1\n"])
    assert "".join(text.pieces()) != ""
    (tree,) = yaml_trees(text, ["a", "b"], offset=5)

    assert tree.root == {"a": {"b": 1}}
    assert tree.place == Place(2, 3)
    assert tree.target_place == Place(3, 8)


def test_objects_in_a_list_know_where_they_start():
    (tree,) = trees("items:\n- a: 1\n-\n  b: 1\nother:\n- c: 1\n")
    root = tree.root
    assert isinstance(root, dict)
    items, other = root["items"], root["other"]
    assert isinstance(items, list)
    assert isinstance(other, list)

    assert [tree.start_of(item) for item in items] == [Place(2, 3), Place(4, 3)]
    assert tree.start_of(root) == Place(1, 1)
    assert tree.start_of(other[0]) == tree.place
