"""What counts as a difference between a stored object and what was applied."""

import pytest

from bursar.app.operator.drift import has_all

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"labels": {"a": "", "mine": "x"}}, {"labels": {"a": ""}}),
        ({"rules": [{**RULE, "defaulted": True}]}, {"rules": [RULE]}),
        (
            {"containers": [{"name": "injected"}, {"name": "a", "image": "x", "tty": False}]},
            {"containers": [{"name": "a", "image": "x"}]},
        ),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b"}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"args": ["a", "b"]}, {"args": ("a", "b")}),
    ],
)
def test_fields_of_others_are_no_difference(stored, wanted):
    assert has_all(stored, wanted)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (None, {"a": 1}),
        ({}, {"a": 1}),
        ({"a": 2}, {"a": 1}),
        ({"a": "text"}, {"a": ["text"]}),
        ({"a": 1}, {"a": [1]}),
        ({"rules": [RULE, RULE]}, {"rules": [RULE]}),
        ({"subjects": [{"name": "a"}, {"name": "mallory"}]}, {"subjects": [{"name": "a"}]}),
        ({"args": ["b", "a"]}, {"args": ["a", "b"]}),
        ({"containers": [{"name": "b"}]}, {"containers": [{"name": "a"}]}),
        ({"selector": {"a": "b", "c": ""}}, {"selector": {"a": "b"}}),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, {"namespaceSelector": {}}),
    ],
)
def test_everything_else_is(stored, wanted):
    assert not has_all(stored, wanted)
