"""Decodes an admission review, lets the rule for its kind decide, and encodes the response."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from bursar.app.admission.pods import (
    NO_GROWTH,
    NOT_YET,
    ONLY_ONE_AAQ,
    Installation,
    ResizeRequest,
    ResizeReservations,
    WhenUnreachable,
    allow,
    judge_creation,
    judge_growth,
    judge_update,
    may_grow,
)
from bursar.app.admission.policies import PolicyCheck
from bursar.app.admission.quotas import QuotaCheck, QuotaWriting
from bursar.app.cluster.kinds import RESIZE
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.app.quota.kinds import GROUP
from bursar.core.model.pod import Pod
from bursar.core.quota.quota import QuotaKind
from bursar.wire.admission import (
    AdmissionDecision,
    ObjectError,
    Review,
    decode_gated_pod,
    decode_quota_text,
    decode_review,
    encode_response,
)
from bursar.wire.model import pod as wire_pod
from bursar.wire.structs.body import UNREADABLE
from bursar.wire.structs.fields import FieldError

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"

_QUOTA_KINDS: Final = {kind.value: kind for kind in (QuotaKind.NAMESPACED, QuotaKind.CLUSTER)}
_PODS: Final = msgspec.json.Decoder(wire_pod.Pod)


class UnanswerableError(Exception):
    """No rule can judge the review. The text is sent to the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """Answers reviews of pods, of resizes, of quotas, of AAQ objects and of policies."""

    installation: Installation
    quotas: QuotaCheck
    reservations: ResizeReservations
    policies: PolicyCheck
    when_unreachable: WhenUnreachable = WhenUnreachable.DENY
    is_gating: Callable[[], bool] = lambda: True
    """Whether new pods get the gate yet."""

    async def answer(self, body: bytes) -> tuple[bytes, AdmissionDecision]:
        """Return the response and its verdict. Raises `ReviewError`, `UnanswerableError`."""
        review = decode_review(body)
        try:
            decision = await self._judge(review)
        except (ObjectError, FieldError) as error:
            raise UnanswerableError(f"could not generate admission response: {error}") from None
        return encode_response(review, decision), decision

    async def _judge(self, review: Review) -> AdmissionDecision:
        if review.kind == "Pod" and not review.group:
            return await self._judge_pod(review)
        if review.group in ("", GROUP):
            if review.kind in _QUOTA_KINDS:
                return await self.quotas.judge(_quota_writing(review, _QUOTA_KINDS[review.kind]))
            if review.kind == "AAQ":
                return ONLY_ONE_AAQ
        if (review.group, review.kind) == (COUNTING_POLICIES.group, COUNTING_POLICIES.kind):
            return self.policies.judge(review.object, review.old_object)
        raise UnanswerableError(
            "could not generate admission response: "
            f"AAQ webhook doesn't recongnize request: {review.subject}"
        )

    async def _judge_pod(self, review: Review) -> AdmissionDecision:
        if review.operation == CREATE:
            if not self.is_gating():
                return allow(NOT_YET)
            pod = decode_gated_pod(review.object)
            return judge_creation(pod.gates, pod.node_name, review.namespace, self.installation)
        if review.operation == UPDATE and review.subresource == RESIZE:
            return await self._judge_resize(review)
        before, after = decode_gated_pod(review.old_object), decode_gated_pod(review.object)
        return judge_update(before.gates, after.gates, review.username, self.installation)

    async def _judge_resize(self, review: Review) -> AdmissionDecision:
        if not may_grow(_decode_pod(review.old_object), _decode_pod(review.object)):
            return NO_GROWTH
        request = ResizeRequest(
            id=review.uid,
            namespace=review.namespace,
            name=review.name,
            uid=decode_gated_pod(review.old_object).uid,
            old=review.old_object,
            new=review.object,
            is_dry_run=review.is_dry_run,
        )
        return await judge_growth(request, self.reservations, self.when_unreachable)


def _quota_writing(review: Review, kind: QuotaKind) -> QuotaWriting:
    text = decode_quota_text(review.object, kind)
    before = decode_quota_text(review.old_object, kind) if review.old_object else None
    return QuotaWriting(
        kind=kind,
        namespace=review.namespace,
        spec=text.spec,
        names=text.names,
        order=text.order,
        spec_before=None if before is None else before.spec,
        selector=text.selector,
        selector_before=None if before is None else before.selector,
        selector_problem=text.selector_problem,
    )


def _decode_pod(body: bytes) -> Pod:
    try:
        return wire_pod.to_core(_PODS.decode(body))
    except UNREADABLE:
        raise ObjectError("a pod that cannot be read") from None
