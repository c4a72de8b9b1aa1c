"""Finding a field path in a value."""

import pytest

from bursar.wire.documents.tree import steps_towards

VALUE = {
    "spec": {
        "containers": [{"name": "a"}, {"resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 2}}}],
        "a.b": {"a": 1},
        "a": {"b": 1},
        "x[0]": 1,
        "x": [2],
    }
}


@pytest.mark.parametrize(
    ("field", "steps"),
    [
        ("", []),
        ("spec", ["spec"]),
        (
            "spec.containers[1].resources.limits[cpu]",
            ["spec", "containers", 1, "resources", "limits", "cpu"],
        ),
        (
            "spec.containers[1].resources.limits[nvidia.com/gpu]",
            ["spec", "containers", 1, "resources", "limits", "nvidia.com/gpu"],
        ),
        ("spec.a.b.a", ["spec", "a.b", "a"]),
        ("spec.x[0]", ["spec", "x[0]"]),
        ("spec.containers[7].name", ["spec", "containers"]),
        ("spec.containers[0].name.more", ["spec", "containers", 0, "name"]),
        ("specs", []),
        ("metadata.name", []),
    ],
)
def test_a_path_is_followed_as_far_as_it_goes(field, steps):
    assert steps_towards(VALUE, field) == steps
