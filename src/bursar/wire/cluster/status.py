"""Decoding of API responses: Status, lists and watch events.

Objects inside lists and watch events stay bytes. Of each, only the resourceVersion is decoded. This
also verifies that the bytes are one JSON object.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from bursar.wire.structs.body import UNREADABLE
from bursar.wire.structs.fields import printable
from bursar.wire.structs.metadata import PartialObjectMetadata
from bursar.wire.structs.struct import Struct

MESSAGE_LENGTH_MAX: Final = 2048
"""Longest message of the API server that is passed on."""

CAUSES_MAX: Final = 64

RETRY_AFTER_S_MAX: Final = 2**31 - 1
"""The largest value of `retryAfterSeconds` in Go. JSON has larger ones, which are no float."""

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

ERROR: Final = "ERROR"
"""The type of a watch event whose object is a Status."""

_EVENT_START: Final = b'{"type":"'
_EVENT_MIDDLE: Final = b'","object":'
_EVENT_TYPE_END: Final = len(b'{"type":"BOOKMARK"')
_EVENT_TYPES: Final = {
    text.encode(): text for text in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", ERROR)
}


class EnvelopeError(ValueError):
    """A body that is not the expected envelope. The message does not quote it."""


# ------------------------------------------------------------------ failures


class _Cause(Struct):
    field: str | None = None
    message: str | None = None
    reason: str | None = None


class _Details(Struct):
    name: str | None = None
    kind: str | None = None
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None


class _Status(Struct):
    api_version: str | None = None
    kind: str | None = None
    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The `metav1.Status` of a failed request."""

    code: int
    reason: str
    message: str
    kind: str = ""
    """The kind or resource of the failure; empty if it concerns the request itself."""
    name: str = ""
    """The name of the object that the failure is about."""
    causes: Sequence[str] = ()
    retry_after_s: int | None = None


def find_status(body: bytes) -> Status | None:
    """Decode the `metav1.Status` of a failure; None for any other body."""
    try:
        raw = _STATUS.decode(body)
    except UNREADABLE:
        return None
    if (raw.api_version, raw.kind, raw.status) != ("v1", "Status", "Failure"):
        return None
    details = raw.details or _Details()
    return Status(
        code=raw.code or 0,
        reason=printable(raw.reason or ""),
        message=printable(raw.message or "", MESSAGE_LENGTH_MAX),
        kind=printable(details.kind or ""),
        name=printable(details.name or ""),
        causes=tuple(_cause_text(cause) for cause in (details.causes or ())[:CAUSES_MAX]),
        retry_after_s=min(max(details.retry_after_seconds or 0, 0), RETRY_AFTER_S_MAX) or None,
    )


def _cause_text(cause: _Cause) -> str:
    text = cause.message or cause.reason or ""
    return printable(f"{cause.field}: {text}" if cause.field else text, MESSAGE_LENGTH_MAX)


# ------------------------------------------------------------------ lists


class _ListMeta(Struct):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(Struct):
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEnvelope:
    items: Sequence[bytes]
    resource_version: str
    continuation: str


def decode_list(body: bytes) -> ListEnvelope:
    """Split a list into its items. Raises `EnvelopeError`."""
    try:
        raw = _LIST.decode(body)
    except UNREADABLE:
        raise EnvelopeError("not a list of objects") from None
    meta = raw.metadata
    if meta is None or not meta.resource_version:
        raise EnvelopeError("a list without a resourceVersion")
    return ListEnvelope(
        # Items are copied. Otherwise one item would keep the whole list in memory.
        items=[bytes(item) for item in raw.items or ()],
        resource_version=meta.resource_version,
        continuation=meta.continue_ or "",
    )


# ------------------------------------------------------------------ watches


class _WatchLine(Struct):
    type: str
    object: msgspec.Raw


class _VersionMeta(Struct):
    resource_version: str | None = None


class _Versioned(Struct):
    """An object of which only the resourceVersion is read.

    Every watch event is decoded to this. Decoding all of `ObjectMeta` takes twice as long.
    """

    metadata: _VersionMeta | None = None


def decode_event(line: bytes) -> tuple[str, bytes, str]:
    """The type of a watch event, its object, and the resourceVersion of the object.

    Raises `EnvelopeError`.
    """
    cut = _cut_event(line)
    if cut is not None:
        try:
            return *cut, _find_version(cut[1])
        except UNREADABLE:
            pass  # There is more after the object, so the line must be parsed.
    try:
        envelope = _WATCH_LINE.decode(line)
        body = bytes(envelope.object)
        return envelope.type, body, _find_version(body)
    except UNREADABLE:
        raise EnvelopeError("not a watch event") from None


def _cut_event(line: bytes) -> tuple[str, bytes] | None:
    """Split a line in the API server's notation; None for any other notation.

    This avoids parsing the object twice, which would double the cost of an event. The split is
    valid if the rest is one JSON object, which the caller checks.
    """
    end = line.find(b'"', len(_EVENT_START), _EVENT_TYPE_END)
    kind = _EVENT_TYPES.get(line[len(_EVENT_START) : end])
    if kind and line.startswith(_EVENT_START) and line.startswith(_EVENT_MIDDLE, end):
        return kind, line[end + len(_EVENT_MIDDLE) : -1]
    return None


def _find_version(body: bytes) -> str:
    metadata = _VERSIONED.decode(body).metadata
    return (metadata.resource_version or "") if metadata else ""


def ends_initial_events(bookmark: bytes) -> bool:
    """Whether a bookmark ends the initial objects of a watch."""
    try:
        metadata = _BOOKMARK.decode(bookmark).metadata
    except UNREADABLE:
        raise EnvelopeError("not an object") from None
    return bool(metadata and (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true")


_STATUS: Final = msgspec.json.Decoder(_Status)
_LIST: Final = msgspec.json.Decoder(_List)
_WATCH_LINE: Final = msgspec.json.Decoder(_WatchLine)
_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_BOOKMARK: Final = msgspec.json.Decoder(PartialObjectMetadata)
