"""AdmissionReview: requests of the API server to a webhook, and the responses.

Objects inside a review stay bytes, because the fields to decode depend on the kind. No error
message quotes a body: a webhook can receive any object, including secrets.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from bursar.core.model.selectors.selector import SelectorError, selector_of
from bursar.core.quota.quota import ORDER_ANNOTATION, QuotaKind
from bursar.wire.documents.tree import Json
from bursar.wire.quota.objects import (
    NamespacesSelector,
    ScopeExpression,
    ScopeSelector,
    label_selector,
)
from bursar.wire.structs.body import UNREADABLE
from bursar.wire.structs.fields import printable
from bursar.wire.structs.metadata import Named, ObjectMeta
from bursar.wire.structs.struct import Struct

API_VERSION: Final = "admission.k8s.io/v1"
API_VERSIONS: Final = (API_VERSION, "admission.k8s.io/v1beta1")
"""Supported versions. The fields that are read are the same in both."""

NO_OBJECT: Final = b""

T = TypeVar("T")

_ABSENT: Final = msgspec.Raw(b"null")


class ReviewError(ValueError):
    """A body that is no AdmissionReview. The message is sent to the caller."""


class ObjectError(ValueError):
    """An object inside a review that cannot be decoded. The message does not quote it."""


# ------------------------------------------------------------------ the review


class _Kind(Struct):
    group: str | None = None
    version: str | None = None
    kind: str | None = None


class _User(Struct):
    username: str | None = None


class _Request(Struct):
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


class _Review(Struct):
    api_version: str | None = None
    request: _Request | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """An admission request. Its `repr` contains no object."""

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
    """The new object; empty for a deletion."""
    old_object: bytes = field(repr=False)

    @property
    def subject(self) -> str:
        """Operation, kind and name in one line: `CREATE /v1, Kind=Secret team-a/token`."""
        place = "/".join(part for part in (self.namespace, self.name) if part)
        text = f"{self.operation} {self.group}/{self.version}, Kind={self.kind} {place}"
        return printable(text.strip(), 256)


def decode_review(body: bytes) -> Review:
    """Decode a review. Raises `ReviewError`."""
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
    """The reason of a decoding error, without texts that quote the body."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return printable(str(error), 256)


# ------------------------------------------------------------------ the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionDecision:
    """Whether a write is admitted, and what the API server reports to the writer."""

    is_allowed: bool = False
    code: int = HTTPStatus.OK
    message: str = ""
    warnings: Sequence[str] = ()
    patch: Sequence[object] = ()
    """Operations of a JSON patch; empty to leave the object as it is."""


class _Status(Struct, omit_defaults=True):
    code: int
    message: str = ""


class _Response(Struct, omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status
    patch: str = ""
    patch_type: str = ""
    warnings: Sequence[str] = ()


class _ReviewResponse(Struct):
    kind: str
    api_version: str
    response: _Response


def encode_response(review: Review | None, decision: AdmissionDecision) -> bytes:
    """The response to a review in the review's version; None for a body that is no review."""
    if review is None:
        return _encode(API_VERSION, "", decision)
    return _encode(review.api_version, review.uid, decision)


def _encode(api_version: str, uid: str, decision: AdmissionDecision) -> bytes:
    patch = base64.b64encode(msgspec.json.encode(decision.patch)).decode() if decision.patch else ""
    response = _Response(
        uid=uid,
        allowed=decision.is_allowed,
        status=_Status(code=decision.code, message=decision.message),
        patch=patch,
        patch_type="JSONPatch" if patch else "",
        warnings=tuple(decision.warnings),
    )
    return msgspec.json.encode(
        _ReviewResponse(kind="AdmissionReview", api_version=api_version, response=response)
    )


@dataclass(frozen=True, slots=True)
class ResponseTemplate:
    """An encoded response without its uid, for reviews of one version with the same decision."""

    before: bytes
    after: bytes

    def with_uid(self, uid: str) -> bytes:
        return b"".join((self.before, msgspec.json.encode(uid), self.after))


def encode_response_template(api_version: str, decision: AdmissionDecision) -> ResponseTemplate:
    # Only constants precede the uid, so the first empty one is the uid.
    before, key, after = _encode(api_version, "", decision).partition(b'"uid":')
    return ResponseTemplate(before + key, after.removeprefix(b'""'))


# ------------------------------------------------------------------ pods


class _GatedSpec(Struct):
    scheduling_gates: list[Named] | None = None
    node_name: str | None = None


class _GatedMeta(Struct):
    uid: str | None = None


class _GatedPod(Struct):
    """The part of a pod that the gate depends on.

    Every review of a pod is decoded to this, in two thirds of the time of `wire.model.pod.Pod`.
    """

    metadata: _GatedMeta | None = None
    spec: _GatedSpec | None = None


@dataclass(frozen=True, slots=True)
class GatedPod:
    """The fields of a pod that decide about its scheduling gate."""

    uid: str
    gates: tuple[str, ...]
    node_name: str


def decode_gated_pod(body: bytes) -> GatedPod:
    """Decode the fields of a pod that the gate depends on. Raises `ObjectError`."""
    pod = decode_object(_PODS, body)
    meta, spec = pod.metadata or _GatedMeta(), pod.spec or _GatedSpec()
    return GatedPod(
        uid=meta.uid or "",
        gates=tuple([gate.name or "" for gate in spec.scheduling_gates or ()]),
        node_name=spec.node_name or "",
    )


# ------------------------------------------------------------------ quotas


class _QuotaSpec(Struct):
    """A quota's spec. Amounts stay undecoded, so that they keep the digits of their author."""

    hard: dict[str, msgspec.Raw] | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None
    quota: "_QuotaSpec | None" = None
    """The spec inside the spec of a cluster-scoped quota."""
    selector: NamespacesSelector | None = None
    """The namespaces of a cluster-scoped quota."""


class _Quota(Struct):
    metadata: ObjectMeta | None = None
    spec: _QuotaSpec | None = None


@dataclass(frozen=True, slots=True)
class QuotaText:
    """A quota as its author wrote it. Amounts are not parsed, so they may be invalid."""

    spec: Mapping[str, Json]
    """The spec that a ResourceQuota with the same limits has."""
    names: tuple[str, ...]
    """The names of the resources in `hard`."""
    order: str | None
    """The value of the annotation that sets the order of release; None if it is absent."""
    selector: Json = None
    """The selector of namespaces of a cluster-scoped quota, as it is written."""
    selector_problem: str = ""
    """Why the selector of namespaces cannot be read; empty if it can, or if there is none."""


def decode_quota_text(body: bytes, kind: QuotaKind) -> QuotaText:
    """Decode a quota without parsing its amounts. Raises `ObjectError`."""
    quota = decode_object(_QUOTAS, body)
    spec = quota.spec or _QuotaSpec()
    selector, problem = None, ""
    if kind is QuotaKind.CLUSTER:
        selector, problem = spec.selector, _selector_problem(spec.selector)
        spec = spec.quota or _QuotaSpec()
    annotations = (quota.metadata or ObjectMeta()).annotations or {}
    hard = {name: _amount_text(raw) for name, raw in (spec.hard or {}).items()}
    text: dict[str, Json] = {"hard": hard}
    if spec.scopes:
        text["scopes"] = spec.scopes
    if spec.scope_selector is not None:
        expressions = spec.scope_selector.match_expressions or ()
        text["scopeSelector"] = {"matchExpressions": [_expression(each) for each in expressions]}
    order = annotations.get(ORDER_ANNOTATION)
    return QuotaText(text, tuple(hard), order, msgspec.to_builtins(selector), problem)


def _selector_problem(selector: NamespacesSelector | None) -> str:
    if selector is None or selector.labels is None:
        return ""
    try:
        selector_of(label_selector(selector.labels))
    except SelectorError as error:
        return f"spec.selector.labels: {error}"
    return ""


def _amount_text(raw: msgspec.Raw) -> str:
    """The text of an amount. A JSON number keeps its digits."""
    body = bytes(raw)
    if body.startswith(b'"'):
        return decode_object(_TEXTS, body)
    if body == b"null":
        return "0"  # as Go reads it
    if body[:1] in b"{[":
        raise ObjectError("spec.hard: an amount is neither a text nor a number")
    return body.decode("ascii")


def _expression(raw: ScopeExpression) -> Mapping[str, Json]:
    named: dict[str, Json] = {"scopeName": raw.scope_name or "", "operator": raw.operator or ""}
    return {**named, "values": [value or "" for value in raw.values]} if raw.values else named


def decode_object(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    if not body:
        # Go's message for an empty input. The review of a deletion has no new object.
        raise ObjectError("unexpected end of JSON input")
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise ObjectError(_cause(error)) from None


_REVIEWS: Final = msgspec.json.Decoder(_Review | None)
_PODS: Final = msgspec.json.Decoder(_GatedPod)
_QUOTAS: Final = msgspec.json.Decoder(_Quota)
_TEXTS: Final = msgspec.json.Decoder(str)
