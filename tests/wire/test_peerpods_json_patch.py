"""The least patch between two documents."""

import pytest

from bursar.adapters.memory.objects.patches import json_patched
from bursar.wire.peerpods.json_patch import patch_between


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        ({"a": [1, "x" * 9]}, {"a": [1, "".join("x" * 9)]}, []),
        ({"a": 1}, {"a": True}, ["replace /a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["replace /a"]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["replace /a/1/b"]),
        ({"a": None}, {"a": {}}, ["replace /a"]),
        ({"a/b": 1, "c~d": 2}, {"e": {}}, ["remove /a~1b", "remove /c~0d", "add /e"]),
    ],
)
def test_each_step_is_at_the_deepest_place_that_differs(before, after, steps):
    patch = patch_between(before, after)

    assert [f"{step['op']} {step['path']}" for step in patch] == steps
    assert json_patched(before, list(patch)) == after
