"""Defaults that the API server sets on objects of some kinds at creation."""

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bursar.adapters.memory.kinds import Kind
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.kinds import CRDS, NAMESPACES, NODES, PRIORITY_CLASSES, SECRETS
from bursar.app.cluster.ports import Resource
from bursar.core.model.namespace import NAME_LABEL
from bursar.wire.structs.fields import timestamp

SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE_NAMESPACES: Final = frozenset({"default", "kube-public", "kube-system"})
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def created(kind: Kind, body: JsonObject, now: datetime) -> JsonObject:
    fill = _FILLERS.get(kind.resource)
    return body if fill is None else fill(body, now)


def changed(kind: Kind, body: JsonObject) -> JsonObject:
    """The object with the defaults that the API server sets again on every change."""
    return _secret(body) if kind.resource == SECRETS else body


def _namespace(body: JsonObject, _now: datetime) -> JsonObject:
    metadata = dict(body["metadata"])
    metadata["labels"] = {**metadata.get("labels", {}), NAME_LABEL: metadata["name"]}
    return {
        **body,
        "metadata": metadata,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _node(body: JsonObject, _now: datetime) -> JsonObject:
    status = dict(body.get("status") or {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = status["capacity"]
    return {**body, "spec": body.get("spec") or {}, "status": status}


def _priority_class(body: JsonObject, _now: datetime) -> JsonObject:
    return {"preemptionPolicy": "PreemptLowerPriority", **body}


def _secret(body: JsonObject, _now: datetime | None = None) -> JsonObject:
    plain = body.get("stringData") or {}
    written = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()}
    rest = {name: value for name, value in body.items() if name != "stringData"}
    if written:
        rest["data"] = {**(body.get("data") or {}), **written}
    rest.setdefault("type", "Opaque")
    return rest


def _definition(body: JsonObject, now: datetime) -> JsonObject:
    spec = body.get("spec") or {}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": timestamp(now), "reason": reason}
        for kind, reason in (
            ("NamesAccepted", "NoConflicts"),
            ("Established", "InitialNamesAccepted"),
        )
    ]
    stored = [each.get("name") for each in spec.get("versions") or () if each.get("storage")]
    status = {
        "conditions": conditions,
        "acceptedNames": spec.get("names") or {},
        "storedVersions": stored,
    }
    return {**body, "status": status}


_FILLERS: Final[Mapping[Resource, Callable[[JsonObject, datetime], JsonObject]]] = {
    NAMESPACES: _namespace,
    NODES: _node,
    PRIORITY_CLASSES: _priority_class,
    SECRETS: _secret,
    CRDS: _definition,
}
