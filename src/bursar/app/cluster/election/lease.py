"""What a Lease says about who leads, read and written as client-go's leader election does.

Only the record is compared to find out whether a holder is alive: a label that somebody
puts on the Lease is no sign of life.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.ports import Json, Key, Resource

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NOBODY: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    holder: str
    """Who leads; nobody if empty."""
    duration_seconds: int
    """How long others wait after the last sign of life; 0 if the Lease does not say."""
    acquire_time: str
    renew_time: str
    transitions: int

    def spec(self) -> Json:
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_seconds,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.transitions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLease:
    """A Lease as the cluster keeps it: the record, and what a write must name to be fenced."""

    uid: str
    resource_version: str
    record: LeaseRecord

    def is_same_record(self, other: "StoredLease | None") -> bool:
        return other is not None and (self.uid, self.record) == (other.uid, other.record)


def decode_lease(body: bytes) -> StoredLease:
    """Every field of the record is optional in the API; an absent one is empty or zero."""
    document: object = json.loads(body)
    metadata, spec = _member(document, "metadata"), _member(document, "spec")
    return StoredLease(
        uid=_text(metadata, "uid"),
        resource_version=_text(metadata, "resourceVersion"),
        record=LeaseRecord(
            holder=_text(spec, "holderIdentity"),
            duration_seconds=_number(spec, "leaseDurationSeconds"),
            acquire_time=_text(spec, "acquireTime"),
            renew_time=_text(spec, "renewTime"),
            transitions=_number(spec, "leaseTransitions"),
        ),
    )


def new_lease(key: Key, record: LeaseRecord) -> Json:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": record.spec(),
    }


def fenced_change(lease: StoredLease, record: LeaseRecord) -> Json:
    """A merge patch that the server refuses if anybody wrote the Lease since it was read."""
    return {
        "metadata": {"uid": lease.uid, "resourceVersion": lease.resource_version},
        "spec": record.spec(),
    }


def _member(document: object, name: str) -> object:
    return document.get(name) if isinstance(document, Mapping) else None


def _text(document: object, name: str) -> str:
    value = _member(document, name)
    return value if isinstance(value, str) else ""


def _number(document: object, name: str) -> int:
    value = _member(document, name)
    return value if isinstance(value, int) else 0
