"""Plain values as structs: what is expected, what is found, in which field."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.wire.documents.tree import Number
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod
from bursar.wire.structs.fields import FieldError
from bursar.wire.structs.shape import described, shaped

QUOTE = "; quote it to make it one"


def refusal(value: Any, kind: type[msgspec.Struct] = wire_pod.Pod) -> str:
    with pytest.raises(FieldError) as caught:
        shaped(value, kind)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"spec": []}, "spec: an object is expected, found a list"),
        ({"spec": {"containers": "x"}}, "spec.containers: a list is expected, found a string"),
        ({"spec": {"containers": [None]}}, "spec.containers[0]: an object is expected, found null"),
        (
            {"spec": {"containers": [{"name": 1}]}},
            f"spec.containers[0].name: a string is expected, found a number{QUOTE}",
        ),
        (
            {"spec": {"containers": [{"image": Number("1e3")}]}},
            "spec.containers[0].image: a string is expected, found a number",
        ),
        (
            {"spec": {"overhead": {"cpu": [1]}}},
            "spec.overhead[cpu]: a quantity is expected, found a list",
        ),
        (
            {"spec": {"overhead": {"a.b/c": {}}}},
            "spec.overhead[a.b/c]: a quantity is expected, found an object",
        ),
        ({"spec": {"overhead": ["x"]}}, "spec.overhead: an object is expected, found a list"),
        ({"spec": {"priority": "5"}}, "spec.priority: a whole number is expected, found a string"),
        (
            {"spec": {"priority": Number("5.0")}},
            "spec.priority: a whole number is expected, found a number",
        ),
        (
            {"spec": {"priority": True}},
            "spec.priority: a whole number is expected, found true or false",
        ),
        (
            {"metadata": {"labels": {"a": True}}},
            f"metadata.labels[a]: a string is expected, found true or false{QUOTE}",
        ),
        (
            {"status": {"containerStatuses": [{}, {"ready": "yes"}]}},
            "status.containerStatuses[1].ready: true or false is expected, found a string",
        ),
    ],
)
def test_wrong_types_are_named_with_their_field(value, message):
    assert refusal(value) == message


def test_fields_of_nodes_have_the_names_of_the_api():
    assert refusal({"spec": {"podCIDRs": [1]}}, wire_node.Node) == (
        f"spec.podCIDRs[0]: a string is expected, found a number{QUOTE}"
    )


def test_numbers_in_json_keep_their_spelling_where_a_quantity_is_read():
    pod = shaped(
        {
            "metadata": {"labels": {"a": None}},
            "spec": {
                "overhead": {"cpu": Number("1e3"), "memory": "1Gi", "x": None},
                "volumes": [{"emptyDir": {"sizeLimit": Number("0.50")}}],
                "unknown": Number("7e7"),
            },
        },
        wire_pod.Pod,
    )

    assert pod.spec is not None
    assert pod.spec.overhead == {"cpu": "1e3", "memory": "1Gi", "x": None}
    assert pod.spec.volumes is not None
    assert pod.spec.volumes[0].empty_dir is not None
    assert pod.spec.volumes[0].empty_dir.size_limit == "0.50"


NAMES = st.sampled_from(
    ["metadata", "spec", "status", "name", "labels", "containers", "resources", "limits", "cpu"]
    + ["priority", "volumes", "emptyDir", "sizeLimit", "conditions", "type", "ready", "state", "os"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=5),
    max_leaves=15,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
@settings(max_examples=300)
def test_what_msgspec_refuses_is_explained_and_what_it_takes_is_taken(value):
    try:
        expected = msgspec.convert(value, wire_pod.Pod)
    except msgspec.ValidationError:
        assert "expected, found" in refusal(value)
    else:
        assert shaped(value, wire_pod.Pod) == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true or false"),
        (1, "a number"),
        (1.5, "a number"),
        (Number("1"), "a number"),
        ("secret", "a string"),
        (["secret"], "a list"),
        ({"secret": 1}, "an object"),
    ],
)
def test_values_are_described_without_showing_them(value, words):
    assert described(value) == words
