"""What surrounds objects on their way: failures, lists, and the lines of a watch.

Objects inside lists and watch events stay bytes. Of each only its resourceVersion is
read, in one pass that also proves the bytes to be one JSON object.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from bursar.wire.structs.fields import printable

MESSAGE_LENGTH_MAX: Final = 2048
"""Longest text of the API server's that is passed on."""

CAUSES_MAX: Final = 64

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)

ERROR: Final = "ERROR"
"""The type of a watch event whose object is a Status."""

_EVENT_START: Final = b'{"type":"'
_EVENT_MIDDLE: Final = b'","object":'
_EVENT_TYPE_END: Final = len(b'{"type":"BOOKMARK"')
_EVENT_TYPES: Final = {
    text.encode(): text for text in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", ERROR)
}


class EnvelopeError(ValueError):
    """Bytes that are not the envelope they should be. Never quotes them: they may hold secrets."""


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """Foreign objects: unknown fields are ignored, and any field may be missing or null."""


# ------------------------------------------------------------------ failures


class _Cause(_Struct):
    field: str | None = None
    message: str | None = None
    reason: str | None = None


class _Details(_Struct):
    kind: str | None = None
    causes: list[_Cause] | None = None
    retry_after_seconds: int | None = None


class _Status(_Struct):
    kind: str | None = None
    status: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A failure in the API's own words."""

    code: int
    reason: str
    message: str
    kind: str = ""
    """The kind or resource the failure is about; empty if the request as such was at fault."""
    causes: Sequence[str] = ()
    retry_after_s: int | None = None


def find_status(body: bytes) -> Status | None:
    """Read a `metav1.Status`; None if the body is anything else."""
    try:
        raw = _STATUS.decode(body)
    except _UNREADABLE:
        return None
    if raw.kind != "Status":
        return None
    details = raw.details or _Details()
    return Status(
        code=raw.code or 0,
        reason=printable(raw.reason or ""),
        message=printable(raw.message or "", MESSAGE_LENGTH_MAX),
        kind=printable(details.kind or ""),
        causes=tuple(_cause_text(cause) for cause in (details.causes or ())[:CAUSES_MAX]),
        retry_after_s=details.retry_after_seconds or None,
    )


def _cause_text(cause: _Cause) -> str:
    text = cause.message or cause.reason or ""
    return printable(f"{cause.field}: {text}" if cause.field else text, MESSAGE_LENGTH_MAX)


# ------------------------------------------------------------------ lists


class _ListMeta(_Struct):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _List(_Struct):
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEnvelope:
    items: Sequence[bytes]
    resource_version: str
    continuation: str


def decode_list(body: bytes) -> ListEnvelope:
    """Cut a list into its items. Raises `EnvelopeError`."""
    try:
        raw = _LIST.decode(body)
    except _UNREADABLE:
        raise EnvelopeError("not a list of objects") from None
    meta = raw.metadata
    if meta is None or not meta.resource_version:
        raise EnvelopeError("a list without a resourceVersion")
    return ListEnvelope(
        # Each item is copied out, or one kept item would keep its whole list in memory.
        items=[bytes(item) for item in raw.items or ()],
        resource_version=meta.resource_version,
        continuation=meta.continue_ or "",
    )


# ------------------------------------------------------------------ watches


class _WatchLine(_Struct):
    type: str
    object: msgspec.Raw


class _VersionMeta(_Struct):
    resource_version: str | None = None


class _Versioned(_Struct):
    metadata: _VersionMeta | None = None


class _BookmarkMeta(_Struct):
    resource_version: str | None = None
    annotations: dict[str, str | None] | None = None


class _Bookmark(_Struct):
    metadata: _BookmarkMeta | None = None


def decode_event(line: bytes) -> tuple[str, bytes, str]:
    """The type of a watch event, its object and the object's resourceVersion if it has one.

    Raises `EnvelopeError`.
    """
    cut = _cut_event(line)
    if cut is not None:
        try:
            return *cut, _find_version(cut[1])
        except _UNREADABLE:
            pass  # Something follows the object: only a real parse can tell.
    try:
        envelope = _WATCH_LINE.decode(line)
        body = bytes(envelope.object)
        return envelope.type, body, _find_version(body)
    except _UNREADABLE:
        raise EnvelopeError("not a watch event") from None


def _cut_event(line: bytes) -> tuple[str, bytes] | None:
    """Cut a line as the API server writes it; None for any other spelling.

    Parsing the envelope would scan the object once more, which costs as much as all
    the rest. The cut is right if what it leaves turns out to be one JSON object.
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
    """Whether a bookmark says that all objects existing at the start have been sent."""
    try:
        metadata = _BOOKMARK.decode(bookmark).metadata
    except _UNREADABLE:
        raise EnvelopeError("not an object") from None
    return bool(metadata and (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true")


_STATUS: Final = msgspec.json.Decoder(_Status)
_LIST: Final = msgspec.json.Decoder(_List)
_WATCH_LINE: Final = msgspec.json.Decoder(_WatchLine)
_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_BOOKMARK: Final = msgspec.json.Decoder(_Bookmark)
