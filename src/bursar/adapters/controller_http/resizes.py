"""The leader's resize service: the webhook asks whether a running pod may grow.

Only the webhook's service account may ask, because an answer reserves quota. A replica that
does not lead answers 421, and the webhook reads the Lease again. No response contains any part
of a pod or a token. It contains amounts of a quota only if the controller knows the pod by
namespace, name and uid: the webhook may have been asked by a stranger.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from bursar.adapters.serving.message import JSON, Request, Response, refusal
from bursar.app.cluster.ports import ClusterError, UnavailableError
from bursar.app.names import WEBHOOK
from bursar.app.quota.growth.resize import ResizeService
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import explanation
from bursar.wire.structs.body import UNREADABLE

SCHEME: Final = "bearer"
ID_LENGTH_MAX: Final = 256

_ABSENT: Final = msgspec.Raw(b"null")


def webhook_user(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{WEBHOOK}"


class _ResizeQuestion(msgspec.Struct, rename="camel"):
    id: str
    namespace: str
    name: str
    uid: str
    pod: msgspec.Raw
    dry_run: bool = False


class _Pod(msgspec.Struct):
    metadata: msgspec.Raw = _ABSENT
    spec: msgspec.Raw = _ABSENT
    status: dict[str, msgspec.Raw] | None = None


class _ResizeAnswer(msgspec.Struct):
    allowed: bool
    message: str = ""


_QUESTIONS: Final = msgspec.json.Decoder(_ResizeQuestion)
_PODS: Final = msgspec.json.Decoder(_Pod)


class _RefusedError(Exception):
    """The request is not answered; the caller receives the response that it holds."""

    def __init__(self, code: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.response: Final = refusal(code, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRoute:
    """The handler of POST /v1/resizes."""

    user: str
    """The only user that may send requests: the webhook's account."""
    find_username: Callable[[str], Awaitable[str | None]]
    """Returns the user of a token, or None if the token is not valid. Raises `ClusterError`."""
    find_resizes: Callable[[], ResizeService | None]
    """Returns None while this replica does not lead."""
    decode: Callable[[bytes], PodRow]
    """Raises `ValueError`. Use the informer's decoder, which shares equal parts of pods."""

    async def __call__(self, request: Request) -> Response:
        try:
            await self._require_webhook(request)
            answer = await self._answer(_decode_question(request))
        except _RefusedError as error:
            return error.response
        return Response(msgspec.json.encode(answer), content_type=JSON)

    async def _require_webhook(self, request: Request) -> None:
        scheme, _, token = request.authorization.partition(" ")
        if scheme.lower() != SCHEME or not token:
            raise _RefusedError(HTTPStatus.UNAUTHORIZED, "a bearer token is required")
        try:
            username = await self.find_username(token.strip())
        except ClusterError:
            problem = "the token could not be checked"
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, problem) from None
        if username is None:
            raise _RefusedError(HTTPStatus.UNAUTHORIZED, "the token is not valid")
        if username != self.user:
            raise _RefusedError(HTTPStatus.FORBIDDEN, f"only {self.user} may ask")

    async def _answer(self, question: _ResizeQuestion) -> _ResizeAnswer:
        row = self._decode_pod(question)
        # Leadership may have changed while the token was checked, so it is looked up here.
        resizes = self.find_resizes()
        if resizes is None:
            problem = "this replica does not lead"
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST, problem)
        try:
            refusals = await resizes.resize(row, is_dry_run=question.dry_run)
        except UnavailableError as error:
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, error.message) from None
        return _ResizeAnswer(allowed=not refusals, message=explanation(refusals))

    def _decode_pod(self, question: _ResizeQuestion) -> PodRow:
        try:
            row = self.decode(_without_conditions(question.pod))
        except (ValueError, *UNREADABLE):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the pod cannot be read") from None
        if (row.namespace, row.name, row.stamp.uid) != (
            question.namespace,
            question.name,
            question.uid,
        ):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the pod is not the one that is named")
        return row


def _decode_question(request: Request) -> _ResizeQuestion:
    if request.media_type != JSON:
        raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{JSON} is expected")
    try:
        question = _QUESTIONS.decode(request.body)
    except UNREADABLE:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the question cannot be read") from None
    if not question.id or len(question.id) > ID_LENGTH_MAX:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the question needs a short id")
    return question


def _without_conditions(body: msgspec.Raw) -> bytes:
    """The pod without the conditions that its node reported for an earlier resize.

    A pod is charged for its smaller size while the node refuses a resize. That refusal does
    not apply to the new resize.
    """
    pod = _PODS.decode(body)
    if pod.status:
        pod.status.pop("conditions", None)
    return msgspec.json.encode(pod)
