"""Patches as functions, with the examples of their RFCs."""

import pytest

from bursar.adapters.memory.objects.patches import PatchError, json_patched, merge_patched


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_rfc_7386(target, patch, expected):
    assert merge_patched(target, patch) == expected


@pytest.mark.parametrize(
    ("target", "operations", "expected"),
    [
        ({"foo": "bar"}, [("add", "/baz", "qux")], {"baz": "qux", "foo": "bar"}),
        ({"foo": ["bar", "baz"]}, [("add", "/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, [("add", "/foo/-", ["abc"])], {"foo": ["bar", ["abc"]]}),
        ({"foo": ["bar"]}, [("add", "/foo/1", "end")], {"foo": ["bar", "end"]}),
        ({"baz": "qux", "foo": "bar"}, [("remove", "/baz", None)], {"foo": "bar"}),
        ({"foo": [1, 2, 3]}, [("remove", "/foo/1", None)], {"foo": [1, 3]}),
        ({"baz": "qux"}, [("replace", "/baz", "boo")], {"baz": "boo"}),
        ({"foo": [1, 2]}, [("replace", "/foo/0", 9)], {"foo": [9, 2]}),
        ({"/": 9, "~1": 10}, [("test", "/~01", 10), ("test", "/~1", 9)], {"/": 9, "~1": 10}),
        ({"foo": None}, [("test", "/foo", None)], {"foo": None}),
        ({"a": {"b": [1]}}, [("test", "/a", {"b": [1]})], {"a": {"b": [1]}}),
    ],
)
def test_json_patches_of_rfc_6902(target, operations, expected):
    patch = [{"op": op, "path": path, "value": value} for op, path, value in operations]

    assert json_patched(target, patch) == expected


def test_moving_and_copying():
    target = {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}
    move = {"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}
    copy = {"op": "copy", "from": "/qux", "path": "/copied"}

    assert json_patched(target, [move, copy]) == {
        "foo": {"bar": "baz"},
        "qux": {"corge": "grault", "thud": "fred"},
        "copied": {"corge": "grault", "thud": "fred"},
    }


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/list/7", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/list/2"},
        {"op": "replace", "path": "/text/deep", "value": 1},
        {"op": "test", "path": "/text", "value": "other"},
        {"op": "move", "from": "/none", "path": "/x"},
        {"op": "frob", "path": "/text"},
        {"op": "add", "path": 7},
        "add",
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_refused_and_changes_nothing(operation):
    target = {"text": "t", "list": [1, 2]}
    with pytest.raises(PatchError):
        json_patched(target, [{"op": "add", "path": "/new", "value": 1}, operation])

    assert target == {"text": "t", "list": [1, 2]}


def test_a_patch_is_a_list():
    with pytest.raises(PatchError):
        json_patched({}, {"op": "add"})


def test_the_result_shares_nothing_with_the_patch():
    value = {"inner": [1]}
    result = json_patched({}, [{"op": "add", "path": "/a", "value": value}])
    merged = merge_patched({}, {"a": value})
    value["inner"].append(2)

    assert result == merged == {"a": {"inner": [1]}}
