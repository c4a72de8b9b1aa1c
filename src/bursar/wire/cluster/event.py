"""Decoding of events (`events.k8s.io/v1`): what happened to which object, when and how often."""

from dataclasses import dataclass
from datetime import datetime

from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import decode_time
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.struct import Struct


class Reference(Struct):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class Series(Struct):
    count: int | None = None
    last_observed_time: str | None = None


class Event(Struct):
    metadata: ObjectMeta | None = None
    regarding: Reference | None = None
    series: Series | None = None
    event_time: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int | None = None
    reason: str | None = None
    note: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEvent:
    kind: str
    namespace: str
    name: str
    reason: str
    note: str
    is_warning: bool
    count: int
    time: datetime | None
    """When it happened last."""


def decode_event(body: bytes) -> SeenEvent:
    """Decode an event. Raises `FieldError` or another `ValueError`."""
    raw = decode_body(body, Event)
    regarding, series = raw.regarding or Reference(), raw.series or Series()
    time = (
        decode_time(series.last_observed_time, "series.lastObservedTime")
        or decode_time(raw.deprecated_last_timestamp, "deprecatedLastTimestamp")
        or decode_time(raw.event_time, "eventTime")
    )
    return SeenEvent(
        kind=regarding.kind or "",
        namespace=regarding.namespace or "",
        name=regarding.name or "",
        reason=raw.reason or "",
        note=raw.note or "",
        is_warning=raw.type == "Warning",
        count=series.count or raw.deprecated_count or 1,
        time=time,
    )
