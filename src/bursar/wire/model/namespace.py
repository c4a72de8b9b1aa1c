"""Decoding of namespaces: the fields that decide which quotas apply."""

from bursar.core.model.namespace import NamespaceObject
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import decode_texts
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.struct import Struct


class NamespaceStatus(Struct):
    phase: str | None = None


class Namespace(Struct):
    metadata: ObjectMeta | None = None
    status: NamespaceStatus | None = None


def decode_namespace(body: bytes) -> NamespaceObject:
    """Decode a namespace. Raises `FieldError` or another `ValueError`."""
    return to_core(decode_body(body, Namespace))


def to_core(raw: Namespace) -> NamespaceObject:
    """Translate a decoded namespace. Raises `FieldError` if it has no name."""
    meta = raw.metadata or ObjectMeta()
    return NamespaceObject(
        name=required_name(meta),
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels=decode_texts(meta.labels),
        annotations=decode_texts(meta.annotations),
        phase=(raw.status and raw.status.phase) or "",
    )
