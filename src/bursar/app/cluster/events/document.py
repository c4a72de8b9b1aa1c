"""The content of an event and its JSON, within the limits of `events.k8s.io/v1`.

A note has at most 1024 bytes; a reason, an action and an instance have at most 128; a name is a
DNS subdomain. The API refuses an event that exceeds a limit, so texts are cut.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.micro_time import format_micro_time
from bursar.app.cluster.ports import Json, Key

NAMESPACE_OF_CLUSTER_WIDE: Final = "default"
"""Namespace of events about cluster-scoped objects, by convention of Kubernetes."""
NOTE_BYTES_MAX: Final = 1024
WORD_BYTES_MAX: Final = 128
NAME_LENGTH_MAX: Final = 253

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")


class EventType(Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """The object of an event. The uid distinguishes it from a later object of the same name."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""

    def document(self) -> Json:
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "fieldPath": self.field_path,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """What happened, and to which object. Equal occurrences become one event with a count."""

    regarding: ObjectReference
    reason: str
    action: str
    note: str
    type: EventType
    related: ObjectReference | None = None

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or NAMESPACE_OF_CLUSTER_WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The reporting controller, as a qualified name, and its instance."""

    component: str
    instance: str

    def __post_init__(self) -> None:
        if not self.component or not self.instance:
            raise ValueError("events need the names of a component and of its instance")


def cut(text: str, bytes_max: int) -> str:
    """The longest prefix of whole characters with at most `bytes_max` bytes of UTF-8.

    >>> cut("naïve", 3)
    'na'
    """
    if text.isascii() and len(text) <= bytes_max:
        # The same object: thousands of events share their reason and action.
        return text
    encoded = text.encode(errors="replace")
    return encoded[:bytes_max].decode(errors="ignore")


def event_name(occurrence: Occurrence, suffix: str) -> str:
    """The object's name and a suffix; only the suffix if the name is no DNS subdomain."""
    name = f"{occurrence.regarding.name}.{suffix}"
    if len(name) <= NAME_LENGTH_MAX and _DNS_SUBDOMAIN.fullmatch(name):
        return name
    return f"event.{suffix}"


def event_document(
    key: Key, occurrence: Occurrence, source: Source, time: datetime
) -> dict[str, Json]:
    document: dict[str, Json] = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"namespace": key.namespace, "name": key.name},
        "eventTime": format_micro_time(time),
        "reportingController": source.component,
        "reportingInstance": cut(source.instance, WORD_BYTES_MAX),
        "action": occurrence.action,
        "reason": occurrence.reason,
        "regarding": occurrence.regarding.document(),
        "note": occurrence.note,
        "type": occurrence.type.value,
    }
    if occurrence.related is not None:
        document["related"] = occurrence.related.document()
    return document


def series_document(count: int, last_time: datetime) -> Json:
    """The `series` of an event. The API accepts it only for a count of at least 2."""
    assert count > 1
    return {"count": count, "lastObservedTime": format_micro_time(last_time)}
