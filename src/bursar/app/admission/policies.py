"""Validation of CountingPolicies: every error with its field, line and column."""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from bursar.app.admission.pods import allow, deny
from bursar.core.cel.expression import Language
from bursar.core.counting.policy import PolicyMode, PolicyText, compile_policy
from bursar.wire.admission import AdmissionDecision
from bursar.wire.counting.policy import decode_policy

PROBLEMS_MAX: Final = 8
"""Problems in one refusal. A policy with more is refused with the first of them."""


class PolicyCheck:
    def __init__(self, language: Language) -> None:
        self._language = language

    def judge(self, body: bytes, before: bytes) -> AdmissionDecision:
        """Decide about a policy that is created or changed."""
        try:
            text = decode_policy(body)
        except ValueError as error:
            return deny(f"the policy cannot be read: {error}", code=HTTPStatus.BAD_REQUEST)
        policy = compile_policy(text, self._language)
        if policy.problems and not _is_unchanged(text, before):
            shown = [
                f"{each.text}\n{each.excerpt}" if each.excerpt else each.text
                for each in policy.problems[:PROBLEMS_MAX]
            ]
            message = f"the policy is not valid: {'; '.join(shown)}"
            return deny(message, code=HTTPStatus.UNPROCESSABLE_ENTITY)
        return allow("the policy is valid", warnings=_warnings(policy.mode, text.match))


def _is_unchanged(text: PolicyText, before: bytes) -> bool:
    """Whether only metadata changed: a finalizer of an invalid policy must be removable."""
    if not before:
        return False
    try:
        return replace(decode_policy(before), generation=text.generation) == text
    except ValueError:
        return False


def _warnings(mode: PolicyMode, match: str) -> tuple[str, ...]:
    if mode is PolicyMode.ENFORCE and match.strip() == "true":
        return ("the policy counts every pod of the cluster",)
    return ()
