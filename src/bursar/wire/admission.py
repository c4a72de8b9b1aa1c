"""AdmissionReview: what an API server asks of a webhook, and the answer in the API's words.

Objects inside a review stay bytes until somebody knows which fields of which kind are
wanted. No error text quotes a body: a webhook may be shown any object, secrets too.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from bursar.core.quota.quota import ORDER_ANNOTATION, QuotaKind
from bursar.wire.structs.fields import printable

API_VERSION: Final = "admission.k8s.io/v1"
API_VERSIONS: Final = (API_VERSION, "admission.k8s.io/v1beta1")
"""Both have the same fields, as far as they go."""

NO_OBJECT: Final = b""

Plain: TypeAlias = "str | Sequence[Plain] | Mapping[str, Plain]"

T = TypeVar("T")

_ABSENT: Final = msgspec.Raw(b"null")
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ReviewError(ValueError):
    """A body that is no review; the text is what the sender is told."""


class ObjectError(ValueError):
    """An object inside a review that cannot be read; never quotes it."""


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """Foreign objects: unknown fields are ignored, and any field may be missing or null."""


# ------------------------------------------------------------------ the review


class _Kind(_Struct):
    group: str | None = None
    version: str | None = None
    kind: str | None = None


class _User(_Struct):
    username: str | None = None


class _Request(_Struct):
    uid: str | None = None
    kind: _Kind | None = None
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: str | None = None
    user_info: _User | None = None
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT
    dry_run: bool | None = None


class _Review(_Struct):
    api_version: str | None = None
    request: _Request | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A request to judge. It prints no object."""

    api_version: str
    uid: str
    group: str
    version: str
    kind: str
    subresource: str
    operation: str
    namespace: str
    name: str
    username: str
    is_dry_run: bool
    object: bytes = field(repr=False)
    """Empty where there is none, as in a deletion."""
    old_object: bytes = field(repr=False)

    @property
    def subject(self) -> str:
        """What the request is about, in one line and without the objects.

        The words are Kubernetes' own for a kind: `CREATE /v1, Kind=Secret team-a/token`.
        """
        place = "/".join(part for part in (self.namespace, self.name) if part)
        text = f"{self.operation} {self.group}/{self.version}, Kind={self.kind} {place}"
        return printable(text.strip(), 256)


def decode_review(body: bytes) -> Review:
    """Raises `ReviewError`."""
    if not body:
        raise ReviewError("admission request body is empty")
    try:
        review = _REVIEWS.decode(body)
    except UNREADABLE as error:
        raise ReviewError(f"could not parse admission review request: {_cause(error)}") from None
    if review is None or review.request is None:
        raise ReviewError("admission review can't be used: request field is nil")
    request = review.request
    kind = request.kind or _Kind()
    return Review(
        api_version=review.api_version if review.api_version in API_VERSIONS else API_VERSION,
        uid=request.uid or "",
        group=kind.group or "",
        version=kind.version or "",
        kind=kind.kind or "",
        subresource=request.sub_resource or "",
        operation=request.operation or "",
        namespace=request.namespace or "",
        name=request.name or "",
        username=(request.user_info or _User()).username or "",
        is_dry_run=bool(request.dry_run),
        object=_present(request.object),
        old_object=_present(request.old_object),
    )


def _present(raw: msgspec.Raw) -> bytes:
    body = bytes(raw)
    return NO_OBJECT if body == b"null" else body


def _cause(error: Exception) -> str:
    """Why JSON could not be read. Of our libraries' texts only those that quote nothing."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return printable(str(error), 256)


# ------------------------------------------------------------------ the answer


class Verdict(Protocol):
    """What was decided, by whoever does that."""

    @property
    def is_allowed(self) -> bool: ...
    @property
    def code(self) -> int: ...
    @property
    def message(self) -> str: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def patch(self) -> Sequence[object]:
        """Steps of a JSON patch; none to leave the object alone."""


class _Status(_Struct, omit_defaults=True):
    code: int
    message: str = ""


class _Response(_Struct, omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status
    patch: str = ""
    patch_type: str = ""
    warnings: Sequence[str] = ()


class _Answer(_Struct):
    kind: str
    api_version: str
    response: _Response


class Asked(Protocol):
    """What of a review comes back in its answer."""

    @property
    def api_version(self) -> str: ...
    @property
    def uid(self) -> str: ...


def encode_answer(review: Asked | None, verdict: Verdict) -> bytes:
    """The answer, in the version that was spoken; None for what could not be read as a review."""
    patch = base64.b64encode(msgspec.json.encode(verdict.patch)).decode() if verdict.patch else ""
    response = _Response(
        uid="" if review is None else review.uid,
        allowed=verdict.is_allowed,
        status=_Status(code=verdict.code, message=verdict.message),
        patch=patch,
        patch_type="JSONPatch" if patch else "",
        warnings=tuple(verdict.warnings),
    )
    spoken = API_VERSION if review is None else review.api_version
    answer = _Answer(kind="AdmissionReview", api_version=spoken, response=response)
    return msgspec.json.encode(answer)


@dataclass(frozen=True, slots=True)
class AnswerToMany:
    """An answer to all reviews of one version that ask the same: only their uids differ."""

    before: bytes
    after: bytes

    def to(self, uid: str) -> bytes:
        return b"".join((self.before, msgspec.json.encode(uid), self.after))


@dataclass(frozen=True, slots=True)
class _Anybody:
    api_version: str
    uid: str = ""


def encode_answer_to_many(api_version: str, verdict: Verdict) -> AnswerToMany:
    # Nothing but constants stands before the uid, so the first empty one is it.
    before, key, after = encode_answer(_Anybody(api_version), verdict).partition(b'"uid":')
    return AnswerToMany(before + key, after.removeprefix(b'""'))


# ------------------------------------------------------------------ pods


class _Named(_Struct):
    name: str | None = None


class _PodSpec(_Struct):
    scheduling_gates: list[_Named] | None = None
    node_name: str | None = None


class _PodMeta(_Struct):
    name: str | None = None
    uid: str | None = None


class _Pod(_Struct):
    metadata: _PodMeta | None = None
    spec: _PodSpec | None = None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What gating looks at."""

    uid: str
    gates: tuple[str, ...]
    node_name: str


def decode_pod_facts(body: bytes) -> PodFacts:
    """Raises `ObjectError`."""
    pod = decode_object(_PODS, body)
    meta, spec = pod.metadata or _PodMeta(), pod.spec or _PodSpec()
    return PodFacts(
        uid=meta.uid or "",
        gates=tuple([gate.name or "" for gate in spec.scheduling_gates or ()]),
        node_name=spec.node_name or "",
    )


# ------------------------------------------------------------------ quotas


class _Expression(_Struct):
    scope_name: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class _ScopeSelector(_Struct):
    match_expressions: list[_Expression] | None = None


class _QuotaSpec(_Struct):
    hard: dict[str, msgspec.Raw] | None = None
    scopes: list[str] | None = None
    scope_selector: _ScopeSelector | None = None
    quota: "_QuotaSpec | None" = None
    """Where a cluster-wide quota keeps the other three."""


class _QuotaMeta(_Struct):
    annotations: dict[str, str | None] | None = None


class _Quota(_Struct):
    metadata: _QuotaMeta | None = None
    spec: _QuotaSpec | None = None


@dataclass(frozen=True, slots=True)
class QuotaText:
    """A quota as its author wrote it: nothing is parsed, for it is yet to be judged."""

    spec: Mapping[str, Plain]
    """What a ResourceQuota would have as its spec."""
    names: tuple[str, ...]
    """Of the resources in `hard`."""
    order: str | None
    """The annotation that says who goes first."""


def decode_quota_text(body: bytes, kind: QuotaKind) -> QuotaText:
    """Raises `ObjectError`."""
    quota = decode_object(_QUOTAS, body)
    spec = quota.spec or _QuotaSpec()
    if kind is QuotaKind.CLUSTER:
        spec = spec.quota or _QuotaSpec()
    annotations = (quota.metadata or _QuotaMeta()).annotations or {}
    hard = {name: _amount_text(raw) for name, raw in (spec.hard or {}).items()}
    text: dict[str, Plain] = {"hard": hard}
    if spec.scopes:
        text["scopes"] = spec.scopes
    if spec.scope_selector is not None:
        expressions = spec.scope_selector.match_expressions or ()
        text["scopeSelector"] = {"matchExpressions": [_expression(each) for each in expressions]}
    return QuotaText(text, tuple(hard), annotations.get(ORDER_ANNOTATION))


def _amount_text(raw: msgspec.Raw) -> str:
    """A number keeps the digits it was written with, which no number type would."""
    body = bytes(raw)
    if body.startswith(b'"'):
        return decode_object(_TEXTS, body)
    if body == b"null":
        return "0"  # as Go reads it
    if body[:1] in b"{[":
        raise ObjectError("spec.hard: an amount is neither a text nor a number")
    return body.decode("ascii")


def _expression(raw: _Expression) -> Mapping[str, Plain]:
    named = {"scopeName": raw.scope_name or "", "operator": raw.operator or ""}
    return {**named, "values": raw.values} if raw.values else named


def decode_object(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    if not body:
        # What Go says of no bytes at all; a review of a deletion has no new object.
        raise ObjectError("unexpected end of JSON input")
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise ObjectError(_cause(error)) from None


_REVIEWS: Final = msgspec.json.Decoder(_Review | None)
_PODS: Final = msgspec.json.Decoder(_Pod)
_QUOTAS: Final = msgspec.json.Decoder(_Quota)
_TEXTS: Final = msgspec.json.Decoder(str)
