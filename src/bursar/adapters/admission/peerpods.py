"""Reviews of new pods on upstream's path for peer pods, with its manners.

Whatever happens is said inside a review and with HTTP status 200: that is how the
webhook of peer pods speaks, and an API server shows such a text to the pod's author,
where it keeps the body of any other answer to itself.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from bursar.adapters.serving.server import JSON, Bounded, Incoming, Outgoing, Route
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
"""As upstream has it, which refuses a body of exactly this size as well."""
REFUSED_BYTES_MAX: Final = 2**20
"""What is larger by so much is still read, to be refused in upstream's words."""
MESSAGE_LENGTH_MAX: Final = 2048
KNOWN_PODS_MAX: Final = 512
KNOWN_BYTES_MAX: Final = 16 * 2**10
"""Of what is read of a pod, to be remembered. All together stay below 40 MiB, answers included."""
ANNOTATIONS_IGNORED_BYTES_MAX: Final = 128 * 2**10
"""Of a review. With all that is written for a pod of the size above they have room on it."""

NOTHING_TO_DECODE: Final = "there is no content to decode"
"""Upstream's words for a review without an object."""

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
    """Under which name it is counted."""
    overwritten: int = 0
    """How many sizes of the pod's author were replaced."""


class PeerPodCounts:
    """How many pods ended how, for /metrics."""

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
            f"# HELP {pods} Reviews of new pods for peer pods, by how they ended.",
            f"# TYPE {pods} counter",
            *(f'{pods}{{end="{end}"}} {count}' for end, count in sorted(self._ends.items())),
            f"# HELP {sizes} Sizes annotated by the author of a pod that were replaced.",
            f"# TYPE {sizes} counter",
            f"{sizes} {self._overwritten}",
        ]
        return ("\n".join(lines) + "\n").encode()


def peer_pod_routes(settings: PeerPodSettings, counts: PeerPodCounts) -> Mapping[str, Route]:
    known = _KnownPods(settings)

    async def review(incoming: Incoming) -> Outgoing:
        asked = decode_peer_review(incoming.body) if _problem(incoming) is None else None
        if asked is not None:
            ending = known.ending_of(asked, len(incoming.body))
            counts.add(ending.end, ending.overwritten)
            return Outgoing(ending.answer.to(asked.uid), content_type=JSON)
        # Something is wrong with it; now it matters what.
        spoken, outcome = _judged(incoming, settings)
        counts.add(outcome.end, outcome.overwritten)
        return Outgoing(encode_answer(spoken, outcome.verdict), content_type=JSON)

    return {PEER_PODS_PATH: Bounded(review, BODY_BYTES_MAX + REFUSED_BYTES_MAX)}


# ------------------------------------------------------------------ pods that are alike


@dataclass(frozen=True, slots=True)
class _Ending:
    """An outcome as bytes, so that many can be kept and none costs more than its length."""

    answer: AnswerToMany
    end: str
    overwritten: int


class _KnownPods:
    """What becomes of pods. Those of one workload are alike, so a pod's like is remembered."""

    def __init__(self, settings: PeerPodSettings) -> None:
        self._settings = settings
        self._endings: OrderedDict[bytes, _Ending] = OrderedDict()

    def ending_of(self, asked: PeerReview, review_bytes: int) -> _Ending:
        likeness = _likeness(asked, review_bytes)
        if likeness is None:
            return self._ending(asked)
        ending = self._endings.get(likeness)
        if ending is not None:
            self._endings.move_to_end(likeness)
            return ending
        ending = self._endings[likeness] = self._ending(asked)
        if len(self._endings) > KNOWN_PODS_MAX:
            self._endings.popitem(last=False)
        return ending

    def _ending(self, asked: PeerReview) -> _Ending:
        outcome = _outcome(asked.pod, self._settings)
        answer = encode_answer_to_many(asked.api_version, outcome.verdict)
        return _Ending(answer, outcome.end, outcome.overwritten)


def _likeness(asked: PeerReview, review_bytes: int) -> bytes | None:
    """All that decides about the answer to a review; None if it is too much to remember.

    Of annotations that are not read it matters whether there are any, since then one is
    added to them, and how large they are: too large only in a review that is large itself.
    """
    pod, has_others = asked.pod, False
    annotations = _annotations(pod)
    if annotations and review_bytes <= ANNOTATIONS_IGNORED_BYTES_MAX:
        read: JsonObject = {key: annotations[key] for key in ANNOTATIONS_READ if key in annotations}
        has_others = len(read) < len(annotations)
        pod = {**pod, "metadata": {"annotations": read}}
    try:
        likeness = msgspec.json.encode((asked.api_version, has_others, pod))
    except (OverflowError, RecursionError):
        return None
    return likeness if len(likeness) <= KNOWN_BYTES_MAX else None


# ------------------------------------------------------------------ one pod


def _judged(incoming: Incoming, settings: PeerPodSettings) -> tuple[Asked | None, _Outcome]:
    """What was asked, as far as it could be read, and what is answered."""
    problem = _problem(incoming)
    if problem is not None:
        return None, problem
    try:
        review = decode_review(incoming.body)
    except ReviewError as error:
        return None, _failure(HTTPStatus.BAD_REQUEST, str(error))
    if not review.object:
        return review, _failure(HTTPStatus.BAD_REQUEST, NOTHING_TO_DECODE)
    try:
        return review, _outcome(decode_peer_pod(review.object), settings)
    except ObjectError as error:
        return review, _failure(HTTPStatus.BAD_REQUEST, str(error))


def _problem(incoming: Incoming) -> _Outcome | None:
    """What is wrong before anything is read, in the order in which upstream looks."""
    if not incoming.body:
        return _failure(HTTPStatus.BAD_REQUEST, "request body is empty")
    if len(incoming.body) >= BODY_BYTES_MAX:
        text = f"request entity is too large; limit is {BODY_BYTES_MAX} bytes"
        return _failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    if incoming.content_type != JSON:
        text = f"contentType={incoming.content_type}, expected {JSON}"
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
    """How many sizes of the pod's author were replaced; what an earlier look wrote is not his."""
    before = _annotations(pod)
    if RECORD_ANNOTATION in before:
        return 0
    after = _annotations(rewriting.document)
    return sum(bool(before.get(key)) and before[key] != after.get(key) for key in _SIZES)


def _annotations(document: JsonObject) -> JsonObject:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}
