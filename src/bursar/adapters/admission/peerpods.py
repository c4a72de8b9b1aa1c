"""The route of peer pods: reviews of new pods, answered as upstream's webhook answers them.

Every response has HTTP status 200 and holds a review, errors too. An API server shows the
message of a review to the author of the pod. It does not show the body of an HTTP error.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from bursar.adapters.serving.message import JSON, Request, Response, Route, Routes
from bursar.core.peerpods.json_document import JsonObject
from bursar.core.peerpods.record import RECORD_ANNOTATION
from bursar.core.peerpods.rewriting import ANNOTATIONS_READ, Denied, Rewritten, rewrite
from bursar.core.peerpods.settings import (
    GPUS_ANNOTATION,
    MEMORY_ALIAS_ANNOTATION,
    MEMORY_ANNOTATION,
    VCPUS_ANNOTATION,
    PeerPodSettings,
)
from bursar.wire.admission import (
    AnswerToMany,
    Asked,
    ObjectError,
    PeerReview,
    ReviewError,
    decode_peer_pod,
    decode_peer_review,
    decode_review,
    encode_answer,
    encode_answer_to_many,
)
from bursar.wire.structs.fields import printable

PEER_PODS_PATH: Final = "/mutate-v1-pod"
BODY_BYTES_MAX: Final = 7 * 2**20
"""Upstream's limit. A body of exactly this size is refused too."""
REFUSED_BYTES_MAX: Final = 2**20
"""A body that exceeds the limit by no more than this is read and refused in upstream's words."""
MESSAGE_LENGTH_MAX: Final = 2048
CACHED_ANSWERS_MAX: Final = 512
CACHE_KEY_BYTES_MAX: Final = 16 * 2**10
"""Answers to larger pods are not cached. So the cache stays below 40 MiB, answers included."""
ANNOTATIONS_IGNORED_BYTES_MAX: Final = 128 * 2**10
"""Up to this size of a review, annotations that the rewrite does not read cannot make the
annotations of the rewritten pod too large."""

NOTHING_TO_DECODE: Final = "there is no content to decode"
"""Upstream's message for a review without an object."""

_SIZES: Final = (VCPUS_ANNOTATION, MEMORY_ANNOTATION, MEMORY_ALIAS_ANNOTATION, GPUS_ANNOTATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    is_allowed: bool = False
    code: int = HTTPStatus.OK
    message: str = ""
    warnings: tuple[str, ...] = ()
    patch: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class _Outcome:
    verdict: _Verdict
    end: str
    """The label under which the review is counted."""
    overwritten: int = 0
    """The number of size annotations of the pod's author that were replaced."""


class PeerPodCounts:
    """Counts reviews by their result, for /metrics."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter(rewritten=0, unchanged=0, untouched=0, denied=0, error=0)
        self._overwritten = 0

    def add(self, end: str, overwritten: int = 0) -> None:
        self._ends[end] += 1
        self._overwritten += overwritten

    def exposition(self) -> bytes:
        pods = "bursar_peerpods_reviewed_total"
        sizes = "bursar_peerpods_annotations_overwritten_total"
        lines = [
            f"# HELP {pods} Reviews of new pods on the path of peer pods, by result.",
            f"# TYPE {pods} counter",
            *(f'{pods}{{end="{end}"}} {count}' for end, count in sorted(self._ends.items())),
            f"# HELP {sizes} Size annotations by authors of pods that were replaced.",
            f"# TYPE {sizes} counter",
            f"{sizes} {self._overwritten}",
        ]
        return ("\n".join(lines) + "\n").encode()


def peer_pod_routes(settings: PeerPodSettings, counts: PeerPodCounts) -> Routes:
    cache = _AnswerCache(settings)

    async def review(request: Request) -> Response:
        asked = decode_peer_review(request.body) if _problem(request) is None else None
        if asked is not None:
            cached = cache.answer_to(asked, len(request.body))
            counts.add(cached.end, cached.overwritten)
            return Response(cached.answer.to(asked.uid), content_type=JSON)
        # The quick way could not read it. The slow way finds out what is wrong.
        decoded, outcome = _judge(request, settings)
        counts.add(outcome.end, outcome.overwritten)
        return Response(encode_answer(decoded, outcome.verdict), content_type=JSON)

    return {("POST", PEER_PODS_PATH): Route(review, BODY_BYTES_MAX + REFUSED_BYTES_MAX)}


# ------------------------------------------------------------------ cached answers


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    """An encoded outcome. Bytes keep the memory of the cache predictable."""

    answer: AnswerToMany
    end: str
    overwritten: int


class _AnswerCache:
    """Answers by all that decides about them. Pods of one workload get the same answer."""

    def __init__(self, settings: PeerPodSettings) -> None:
        self._settings = settings
        self._answers: OrderedDict[bytes, _CachedAnswer] = OrderedDict()

    def answer_to(self, asked: PeerReview, review_bytes: int) -> _CachedAnswer:
        key = _cache_key(asked, review_bytes)
        if key is None:
            return self._computed(asked)
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
            return answer
        answer = self._answers[key] = self._computed(asked)
        if len(self._answers) > CACHED_ANSWERS_MAX:
            self._answers.popitem(last=False)
        return answer

    def _computed(self, asked: PeerReview) -> _CachedAnswer:
        outcome = _outcome(asked.pod, self._settings)
        answer = encode_answer_to_many(asked.api_version, outcome.verdict)
        return _CachedAnswer(answer, outcome.end, outcome.overwritten)


def _cache_key(asked: PeerReview, review_bytes: int) -> bytes | None:
    """All that decides about the answer to a review, or None if it is too large to cache.

    The values of annotations that the rewrite does not read make no difference. Whether there
    are any does, because the patch then adds to the existing annotations. Their size does too,
    but only in a large review.
    """
    pod, has_others = asked.pod, False
    annotations = _annotations(pod)
    if annotations and review_bytes <= ANNOTATIONS_IGNORED_BYTES_MAX:
        read: JsonObject = {key: annotations[key] for key in ANNOTATIONS_READ if key in annotations}
        has_others = len(read) < len(annotations)
        pod = {**pod, "metadata": {"annotations": read}}
    try:
        cache_key = msgspec.json.encode((asked.api_version, has_others, pod))
    except (OverflowError, RecursionError):
        return None
    return cache_key if len(cache_key) <= CACHE_KEY_BYTES_MAX else None


# ------------------------------------------------------------------ one pod


def _judge(request: Request, settings: PeerPodSettings) -> tuple[Asked | None, _Outcome]:
    """Return the review, or None if it cannot be decoded, and the outcome."""
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
    """Check the request before its body is decoded, in upstream's order."""
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
    return _Outcome(_Verdict(code=code, message=printable(message, MESSAGE_LENGTH_MAX)), end)


def _outcome(pod: JsonObject, settings: PeerPodSettings) -> _Outcome:
    rewriting = rewrite(pod, settings)
    match rewriting:
        case Denied(message):
            return _failure(HTTPStatus.FORBIDDEN, message, "denied")
        case Rewritten(steps=steps, warnings=warnings):
            told = tuple(printable(each, MESSAGE_LENGTH_MAX) for each in warnings)
            verdict = _Verdict(is_allowed=True, warnings=told, patch=steps)
            end = "rewritten" if steps else "unchanged"
            return _Outcome(verdict, end, _overwritten(pod, rewriting))
        case _:
            return _Outcome(_Verdict(is_allowed=True), "untouched")


def _overwritten(pod: JsonObject, rewriting: Rewritten) -> int:
    """Count the replaced size annotations of the pod's author.

    A pod with a record was rewritten before, so its sizes are not the author's.
    """
    before = _annotations(pod)
    if RECORD_ANNOTATION in before:
        return 0
    after = _annotations(rewriting.document)
    return sum(bool(before.get(key)) and before[key] != after.get(key) for key in _SIZES)


def _annotations(document: JsonObject) -> JsonObject:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}
