"""The expressions of the policies about quotas, evaluated by upstream, judge as `core` does."""

import re

import pytest

from bursar.app.install.policies.quota_policy import QUOTA_POLICIES, quota_policy_documents
from bursar.core.quota.quota import QuotaKind
from support.quota.judged_quotas import CASES, body_of

pytestmark = pytest.mark.oracle

POLICIES = {
    each["metadata"]["name"]: each["spec"]
    for each in quota_policy_documents()
    if each["kind"] == "ValidatingAdmissionPolicy"
}
VARIABLE = re.compile(r"variables\.(\w+)")


def inlined(text: str, variables: dict[str, str]) -> str:
    """The expression without variables, which the oracle does not have."""
    while VARIABLE.search(text):
        text = VARIABLE.sub(lambda found: f"({variables[found[1]]})", text)
    return text


def expressions(kind: QuotaKind) -> list[tuple[str, str]]:
    """Each validation with its message."""
    spec = POLICIES[QUOTA_POLICIES[kind]]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    return [
        (inlined(each["expression"], variables), inlined(each["messageExpression"], variables))
        for each in spec["validations"]
    ]


def asked(oracle, texts, body):
    now = "2026-11-17T00:00:00Z"
    return oracle.ask("cel", expressions=texts, object=body, native={}, now=now)


@pytest.mark.parametrize(("kind", "spec", "words"), CASES.values(), ids=CASES)
def test_a_policy_refuses_what_a_resource_quota_may_not_say(oracle, kind, spec, words):
    pairs = expressions(kind)
    body = body_of(kind, spec)
    answers = asked(oracle, [condition for condition, _ in pairs], body)

    assert [each for each in answers if "value" not in each] == []
    failed = [message for (_, message), each in zip(pairs, answers, strict=True) if not truth(each)]
    assert bool(failed) == (words is not None), answers
    said = [text(each) for each in asked(oracle, failed, body)] if failed else []
    assert all(said)
    if words is not None and words not in OF_THE_SCHEMA:
        assert any(words in each for each in said), said


OF_THE_SCHEMA = ('"in"', '"Gt"')
"""The API server refuses these operators by the schema, before the policy is asked."""


def truth(answer) -> bool:
    return answer["value"] == {"bool": True}


def text(answer) -> str:
    return answer["value"]["string"]
