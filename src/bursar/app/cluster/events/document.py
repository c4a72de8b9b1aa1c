"""What an event says, within the limits that the API sets, and how it is written.

The limits are those of `events.k8s.io/v1`: a note of 1024 bytes, reasons, actions and
instances of 128, a name that is a DNS subdomain. An event that breaks one is refused
whole, so text is cut rather than risked.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final

from bursar.app.cluster.micro_time import format_micro_time
from bursar.app.cluster.ports import Json, Key, Resource

EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
NAMESPACE_OF_CLUSTER_WIDE: Final = "default"
"""Where events about objects without a namespace are kept, by convention of the API."""
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
    """Which object an event is about. The uid tells it from a later one of the same name."""

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
class Happening:
    """What happened, and to whom. Equal happenings are one event that is counted."""

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
    """Who reports: the program, as a qualified name, and which of its instances."""

    component: str
    instance: str

    def __post_init__(self) -> None:
        if not self.component or not self.instance:
            raise ValueError("events need the names of a component and of its instance")


def cut(text: str, bytes_max: int) -> str:
    """As many whole characters as fit into so many bytes of UTF-8.

    >>> cut("naïve", 3)
    'na'
    """
    encoded = text.encode(errors="replace")
    return encoded[:bytes_max].decode(errors="ignore")


def event_name(happening: Happening, suffix: str) -> str:
    """The object's name and a suffix, or only that where the name cannot be part of one."""
    name = f"{happening.regarding.name}.{suffix}"
    if len(name) <= NAME_LENGTH_MAX and _DNS_SUBDOMAIN.fullmatch(name):
        return name
    return f"event.{suffix}"


def event_document(
    key: Key, happening: Happening, source: Source, time: datetime
) -> dict[str, Json]:
    document: dict[str, Json] = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"namespace": key.namespace, "name": key.name},
        "eventTime": format_micro_time(time),
        "reportingController": source.component,
        "reportingInstance": cut(source.instance, WORD_BYTES_MAX),
        "action": happening.action,
        "reason": happening.reason,
        "regarding": happening.regarding.document(),
        "note": happening.note,
        "type": happening.type.value,
    }
    if happening.related is not None:
        document["related"] = happening.related.document()
    return document


def series_document(count: int, last_time: datetime) -> Json:
    """How often it happened. The API knows a series only from the second time on."""
    assert count > 1
    return {"count": count, "lastObservedTime": format_micro_time(last_time)}
