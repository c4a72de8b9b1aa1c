"""ClusterResources as they are written."""

import json

import pytest

from bursar.core.model.quantity import Quantity
from bursar.wire.pools import decode_pool
from bursar.wire.structs.fields import FieldError

SPEC = {"resourceName": "example.com/licence", "capacity": 5}
SELECTOR = {"matchLabels": {"team": "cfd"}}


def pool(**spec):
    metadata = {
        "name": "p",
        "uid": "u",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return decode_pool(json.dumps({"metadata": metadata, "spec": {**SPEC, **spec}}).encode())


def test_a_whole_object():
    found = pool(
        capacity="2k",
        namespaceSelector=SELECTOR,
        shares=[{"name": "s", "namespaceSelector": {}, "maximum": "1", "perNamespace": True}],
    )

    assert (found.name, found.uid, found.generation) == ("p", "u", 2)
    assert found.created_at == "2026-01-01T00:00:00Z"
    assert (found.resource, found.capacity) == ("example.com/licence", Quantity.parse("2000"))
    assert found.selector is not None
    assert found.selector.matches({"team": "cfd"})
    share = found.shares[0]
    assert (share.name, share.maximum, share.is_per_namespace) == ("s", Quantity.parse("1"), True)
    assert share.selector.matches({})
    assert found.problem == ""


def test_without_a_selector_every_namespace_may_use_it():
    assert pool().selector is None


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"resourceName": "cpu"}, 'resourceName: "cpu" is not an extended resource such as'),
        ({"resourceName": "x.kubernetes.io/a"}, "is not an extended resource"),
        ({"resourceName": f"a.b/{'c' * 300}"}, "is not an extended resource"),
        ({"resourceName": None}, 'resourceName: "" is not an extended resource'),
        ({"capacity": None}, "capacity: a whole number of at least 0 is expected"),
        ({"capacity": "1500m"}, "capacity: a whole number of at least 0 is expected"),
        ({"capacity": -1}, "capacity: a whole number of at least 0 is expected"),
        ({"capacity": "many"}, "capacity: "),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a"}]}}, "namespaceSelector: "),
        ({"shares": [{"namespaceSelector": {}}]}, "shares[0].name: a name of its own is required"),
        (
            {"shares": [{"name": "a/b", "namespaceSelector": {}, "maximum": 1}]},
            "shares[0].name: a name of its own is required",
        ),
        (
            {"shares": [{"name": "a", "namespaceSelector": {}, "maximum": 1}] * 2},
            "shares[1].name: a name of its own is required",
        ),
        ({"shares": [{"name": "a"}]}, "shares[0].namespaceSelector: required, but missing"),
        ({"shares": [{"name": "a", "namespaceSelector": {}}]}, "shares[0].maximum: "),
        ({"shares": [{"name": "a"}] * 33}, "shares: more than 32"),
    ],
)
def test_a_spec_that_cannot_be_used_becomes_a_pool_with_a_problem(spec, problem):
    found = pool(**spec)

    assert problem in found.problem
    assert found.name == "p"


def test_an_object_without_a_spec_has_a_problem_and_one_without_a_name_is_refused():
    assert decode_pool(b'{"metadata": {"name": "p"}}').problem
    with pytest.raises(FieldError, match=r"metadata.name"):
        decode_pool(b'{"spec": {}}')
    with pytest.raises(FieldError):
        decode_pool(b"{}")
