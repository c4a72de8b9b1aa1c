"""The election record of a Lease, encoded as by client-go's leader election.

Only the record shows that the holder is alive. Other changes of the Lease, such as labels, do not
count as a renewal.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.ports import Json, Key

NO_HOLDER: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    holder: str
    """The identity of the leader; empty if there is none."""
    duration_seconds: int
    """How long other candidates wait after the last renewal; 0 if the Lease has no value."""
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
    """A stored Lease: the record, and the uid and resourceVersion that fence a write."""

    uid: str
    resource_version: str
    record: LeaseRecord

    def is_same_record(self, other: "StoredLease | None") -> bool:
        return other is not None and (self.uid, self.record) == (other.uid, other.record)


def decode_lease(body: bytes) -> StoredLease:
    """Decode a Lease. An absent field of the record is empty or zero."""
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
    """A merge patch that fails with a conflict if the Lease changed since it was read."""
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
