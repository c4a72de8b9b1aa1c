import json

from bursar.app.admission.policies import PROBLEMS_MAX, PolicyCheck
from support.cel.recorded import LANGUAGE

CHECK = PolicyCheck(LANGUAGE)


def body(generation=1, **spec):
    given = {"match": "object.metadata.name == 'a'", "charges": {"x": "1"}, **spec}
    meta = {"name": "p", "generation": generation}
    return json.dumps({"metadata": meta, "spec": given}).encode()


def test_valid_policy_is_allowed():
    decision = CHECK.judge(body(), b"")
    assert decision.is_allowed
    assert decision.warnings == ()


def test_invalid_policy_is_denied_with_field_line_column_and_caret():
    decision = CHECK.judge(body(charges={"instances/notebook": "1 +\n 'a'"}), b"")
    assert (decision.is_allowed, decision.code) == (False, 422)
    assert decision.message == (
        'the policy is not valid: spec.charges["instances/notebook"]: 1:3: found no matching '
        "overload for '_+_' applied to '(int, string)'\n | 1 +\n | ..^"
    )


def test_refusal_is_bounded():
    charges = {f"name{at}": "1 +" for at in range(30)}
    message = CHECK.judge(body(charges=charges), b"").message
    assert message.count("syntax error") == PROBLEMS_MAX


def test_policy_that_cannot_be_read_is_denied():
    assert CHECK.judge(b'{"metadata": {"name": "p"}, "spec": 5}', b"").code == 400


def test_metadata_of_an_invalid_policy_can_change():
    bad = body(match="1 +")
    assert CHECK.judge(bad, bad).is_allowed
    assert not CHECK.judge(body(match="1 -"), bad).is_allowed
    assert not CHECK.judge(bad, b"{}").is_allowed


def test_policy_for_every_pod_gets_a_warning():
    assert CHECK.judge(body(match=" true "), b"").warnings
    assert not CHECK.judge(body(match="true", mode="Shadow"), b"").warnings
