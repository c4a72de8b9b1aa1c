"""The webhook of peer pods: reviews of new pods, on upstream's path.

Every response has HTTP status 200; a failure is reported inside the review. Upstream's webhook does
the same, and the API server shows the pod's author only messages from inside the review.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from bursar.adapters.admission.routes import Tracing
from bursar.adapters.serving.message import JSON, Guard, Request, Response, Route, Routes
from bursar.app.names import PEER_PODS_PATH
from bursar.core.peerpods.annotations import SIZE_ANNOTATIONS, Rewrite
from bursar.core.peerpods.decision import ANNOTATIONS_READ, Denied
from bursar.core.peerpods.names import RECORD_ANNOTATION
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.wire.admission import (
    AdmissionDecision,
    ObjectError,
    ResponseTemplate,
    Review,
    ReviewError,
    decode_review,
    encode_response,
    encode_response_template,
)
from bursar.wire.documents.tree import Value
from bursar.wire.peerpods.json_patch import patch_between
from bursar.wire.peerpods.review import PeerPodReview, decode_peer_pod, decode_peer_pod_review
from bursar.wire.peerpods.rewrite import rewrite
from bursar.wire.structs.fields import printable

BODY_BYTES_MAX: Final = 7 * 2**20
"""The limit of upstream's webhook, which also refuses a body of exactly this size."""
REFUSED_BYTES_MAX: Final = 2**20
"""A body that exceeds the limit by less than this is read, to be refused in upstream's words."""
MESSAGE_LENGTH_MAX: Final = 2048
CACHED_ANSWERS_MAX: Final = 512
CACHE_KEY_BYTES_MAX: Final = 16 * 2**10
"""Largest pod, as far as it is decoded, that is cached. The cache stays below 40 MiB."""
ANNOTATIONS_IGNORED_BYTES_MAX: Final = 128 * 2**10
"""Largest review whose unread annotations are left out of the cache key: in a larger review, they
could make the annotations of the pod too large for the record."""

NOTHING_TO_DECODE: Final = "there is no content to decode"
"""Upstream's message for a review without an object."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    decision: AdmissionDecision
    end: str
    """The label value under which the outcome is counted."""
    overwritten: int = 0
    """How many size annotations of the pod's author were replaced."""


class PeerPodCounts:
    """Counters of reviewed pods by outcome, for /metrics."""

    def __init__(self) -> None:
        self.ends = Counter(rewritten=0, unchanged=0, untouched=0, denied=0, error=0)
        self.overwritten = 0
        """How many size annotations of pod authors were replaced."""

    def add(self, end: str, overwritten: int) -> None:
        self.ends[end] += 1
        self.overwritten += overwritten


def peer_pod_routes(
    settings: PeerPodSettings,
    counts: PeerPodCounts,
    review_guard: Guard | None = None,
    tracing: Tracing | None = None,
) -> Routes:
    known = _AnswerCache(settings)

    async def review(request: Request) -> Response:
        began_s = 0.0 if tracing is None else tracing.now_s()
        response, end = answered(request)
        if tracing is not None:
            tracing.record_review(request, end, began_s)
        return response

    def answered(request: Request) -> tuple[Response, str]:
        asked = decode_peer_pod_review(request.body) if _problem(request) is None else None
        if asked is not None:
            ending = known.answer_to(asked, len(request.body))
            counts.add(ending.end, ending.overwritten)
            return Response(ending.answer.with_uid(asked.uid), content_type=JSON), ending.end
        # The quick decoder refused the review; the slow one tells why.
        spoken, outcome = _reviewed(request, settings)
        counts.add(outcome.end, outcome.overwritten)
        return Response(encode_response(spoken, outcome.decision), content_type=JSON), outcome.end

    route = Route(review, BODY_BYTES_MAX + REFUSED_BYTES_MAX, review_guard)
    return {("POST", PEER_PODS_PATH): route}


# ------------------------------------------------------------------ the cache


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    """An encoded outcome: bytes take less memory in the cache than the values."""

    answer: ResponseTemplate
    end: str
    overwritten: int


class _AnswerCache:
    """A cache of outcomes. The pods of one workload are alike and get the same patch."""

    def __init__(self, settings: PeerPodSettings) -> None:
        self._settings = settings
        self._answers: OrderedDict[bytes, _CachedAnswer] = OrderedDict()

    def answer_to(self, asked: PeerPodReview, review_bytes: int) -> _CachedAnswer:
        key = _cache_key(asked, review_bytes)
        if key is None:
            return self._computed(asked)
        ending = self._answers.get(key)
        if ending is not None:
            self._answers.move_to_end(key)
            return ending
        ending = self._answers[key] = self._computed(asked)
        if len(self._answers) > CACHED_ANSWERS_MAX:
            self._answers.popitem(last=False)
        return ending

    def _computed(self, asked: PeerPodReview) -> _CachedAnswer:
        outcome = _outcome(asked.pod, self._settings)
        answer = encode_response_template(asked.api_version, outcome.decision)
        return _CachedAnswer(answer, outcome.end, outcome.overwritten)


def _cache_key(asked: PeerPodReview, review_bytes: int) -> bytes | None:
    """The cache key: all that decides about the response; None if it is too large to cache.

    Of the annotations that are not read, only two things matter: whether there are any, because
    the patch then adds to them, and their total size, which is small in a small review.
    """
    pod, has_others = asked.pod, False
    annotations = _annotations(pod)
    if annotations and review_bytes <= ANNOTATIONS_IGNORED_BYTES_MAX:
        read: dict[str, Value] = {
            key: annotations[key] for key in ANNOTATIONS_READ if key in annotations
        }
        has_others = len(read) < len(annotations)
        pod = {**pod, "metadata": {"annotations": read}}
    try:
        key = msgspec.json.encode((asked.api_version, has_others, pod))
    except (OverflowError, RecursionError):
        return None
    return key if len(key) <= CACHE_KEY_BYTES_MAX else None


# ------------------------------------------------------------------ one pod


def _reviewed(request: Request, settings: PeerPodSettings) -> tuple[Review | None, _Outcome]:
    """The review, as far as it could be decoded, and the outcome."""
    problem = _problem(request)
    if problem is not None:
        return None, problem
    try:
        review = decode_review(request.body)
    except ReviewError as error:
        return None, _failure(HTTPStatus.BAD_REQUEST, str(error))
    if not review.object:
        return review, _failure(HTTPStatus.BAD_REQUEST, NOTHING_TO_DECODE)
    try:
        return review, _outcome(decode_peer_pod(review.object), settings)
    except ObjectError as error:
        return review, _failure(HTTPStatus.BAD_REQUEST, str(error))


def _problem(request: Request) -> _Outcome | None:
    """Why the body is refused before it is decoded, in the order of upstream's checks."""
    if not request.body:
        return _failure(HTTPStatus.BAD_REQUEST, "request body is empty")
    if len(request.body) >= BODY_BYTES_MAX:
        text = f"request entity is too large; limit is {BODY_BYTES_MAX} bytes"
        return _failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    if request.content_type != JSON:
        text = f"contentType={request.content_type}, expected {JSON}"
        return _failure(HTTPStatus.BAD_REQUEST, text)
    return None


def _failure(code: int, message: str, end: str = "error") -> _Outcome:
    return _Outcome(
        AdmissionDecision(code=code, message=printable(message, MESSAGE_LENGTH_MAX)), end
    )


def _outcome(pod: dict[str, Value], settings: PeerPodSettings) -> _Outcome:
    decision, after = rewrite(pod, settings)
    match decision:
        case Denied(message):
            return _failure(HTTPStatus.FORBIDDEN, message, "denied")
        case Rewrite(warnings=warnings):
            patch = patch_between(pod, after)
            shown = tuple(printable(each, MESSAGE_LENGTH_MAX) for each in warnings)
            response = AdmissionDecision(is_allowed=True, warnings=shown, patch=patch)
            end = "rewritten" if patch else "unchanged"
            return _Outcome(response, end, _overwritten(pod, decision))
        case _:
            return _Outcome(AdmissionDecision(is_allowed=True), "untouched")


def _overwritten(pod: dict[str, Value], decision: Rewrite) -> int:
    """How many size annotations of the pod's author were replaced.

    If the pod has a record, its sizes were written by an earlier call and are not counted.
    """
    before, after = _annotations(pod), decision.annotations
    if RECORD_ANNOTATION in before:
        return 0
    return sum(bool(before.get(key)) and before[key] != after.get(key) for key in SIZE_ANNOTATIONS)


def _annotations(document: dict[str, Value]) -> dict[str, Value]:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}
