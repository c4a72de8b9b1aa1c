"""POST /v1/resizes: the webhook asks whether a running pod may grow.

Only its service account may ask, because an answer reserves room. Whoever does not lead
says so, and the webhook looks up again who does. Nothing of a pod or a token is ever
part of an answer.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from bursar.adapters.serving.server import JSON, Incoming, Outgoing
from bursar.app.cluster.ports import ClusterError, UnavailableError
from bursar.app.quota.resize import ResizeService
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import explanation

WEBHOOK: Final = "aaq-server"
"""Service account of the process that answers admission reviews."""
SCHEME: Final = "bearer"
ID_LENGTH_MAX: Final = 256

_ABSENT: Final = msgspec.Raw(b"null")


def webhook_user(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{WEBHOOK}"


class _Question(msgspec.Struct, rename="camel"):
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


class _Answer(msgspec.Struct):
    allowed: bool
    message: str = ""


_QUESTIONS: Final = msgspec.json.Decoder(_Question)
_PODS: Final = msgspec.json.Decoder(_Pod)


class _RefusedError(Exception):
    """A question that gets no answer; the text is what the sender is told."""

    def __init__(self, code: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.outgoing: Final = Outgoing(text.encode(), code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRoute:
    """A route of the controller's server."""

    user: str
    """Who may ask."""
    find_username: Callable[[str], Awaitable[str | None]]
    """Whose token it is; None if nobody's. Raises `ClusterError`."""
    find_resizes: Callable[[], ResizeService | None]
    """None while we do not lead."""
    decode: Callable[[bytes], PodRow]
    """Raises `ValueError`. Best the one of the informer, so that equal pods stay one object."""

    async def __call__(self, incoming: Incoming) -> Outgoing:
        try:
            await self._require_webhook(incoming)
            question = _question(incoming)
            answer = self._answer(question)
        except _RefusedError as error:
            return error.outgoing
        return Outgoing(msgspec.json.encode(answer), content_type=JSON)

    async def _require_webhook(self, incoming: Incoming) -> None:
        scheme, _, token = incoming.authorization.partition(" ")
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

    def _answer(self, question: _Question) -> _Answer:
        row = self._row(question)
        # Asked for only now, because leadership may have changed while the token was checked.
        resizes = self.find_resizes()
        if resizes is None:
            problem = "this replica does not lead"
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST, problem)
        try:
            refusals = resizes.resize(row, question.id, is_dry_run=question.dry_run)
        except UnavailableError as error:
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, error.message) from None
        return _Answer(allowed=not refusals, message=explanation(refusals))

    def _row(self, question: _Question) -> PodRow:
        try:
            row = self.decode(_without_conditions(question.pod))
        except ValueError:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the pod cannot be read") from None
        if (row.namespace, row.name, row.stamp.uid) != (
            question.namespace,
            question.name,
            question.uid,
        ):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the pod is not the one that is named")
        return row


def _question(incoming: Incoming) -> _Question:
    if incoming.method != "POST":
        raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is answered here")
    if incoming.content_type.partition(";")[0].strip() != JSON:
        raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{JSON} is expected")
    try:
        question = _QUESTIONS.decode(incoming.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the question cannot be read") from None
    if not question.id or len(question.id) > ID_LENGTH_MAX:
        raise _RefusedError(HTTPStatus.BAD_REQUEST, "the question needs a short id")
    return question


def _without_conditions(body: msgspec.Raw) -> bytes:
    """The pod as it will be judged if the node takes it.

    That the node refused an earlier resize says nothing about this one; a pod is charged
    less while such a condition stands.
    """
    pod = _PODS.decode(body)
    if pod.status:
        pod.status.pop("conditions", None)
    return msgspec.json.encode(pod)
