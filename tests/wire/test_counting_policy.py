import json

import pytest

from bursar.core.cel.values import Double
from bursar.core.counting.policy import PolicyText
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.policy import decode_policy, read_body, unknown_fields
from bursar.wire.structs.fields import FieldError

BODY = b"""{"metadata": {"name": "p", "uid": "u", "generation": 3}, "spec": {
"mode": "Shadow", "match": "true", "charges": {"x": "1"}, "keepNative": true,
"variables": [{"name": "a", "expression": "1"}]}}"""


def test_policy_is_decoded():
    assert decode_policy(BODY) == PolicyText(
        name="p",
        uid="u",
        generation=3,
        mode="Shadow",
        match="true",
        charges={"x": "1"},
        keeps_native=True,
        variables=(("a", "1"),),
    )


def test_empty_policy_enforces_nothing():
    assert decode_policy(b'{"metadata": {"name": "p"}}') == PolicyText(name="p")
    assert decode_policy(b'{"metadata": {"name": "p"}, "spec": {"ignore": true}}').is_ignored


def test_misspelt_fields_are_found():
    assert unknown_fields(json.loads(BODY)["spec"]) == []
    spec = {"Mode": "Shadow", "variables": [{"name": "a", "expr": "1"}, "odd"]}
    assert unknown_fields(spec) == ["spec.Mode", "spec.variables[0].expr"]


def test_policy_of_another_form_is_refused_with_its_field():
    with pytest.raises(FieldError, match="charges"):
        decode_policy(b'{"metadata": {"name": "p"}, "spec": {"charges": {"x": 1}}}')


def test_pod_is_read_as_values_of_expressions():
    pod = read_body(keep_body(b'{"a": {"b": [1, true, null, "x", 1.5]}}'))
    assert pod == {"a": {"b": [1, True, None, "x", Double("1.5")]}}


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"a": "\xff"}', b'{"a":' + b"[" * 5000])
def test_body_that_is_no_pod_is_refused(body):
    with pytest.raises(ValueError, match="not a JSON object"):
        read_body(keep_body(body))
