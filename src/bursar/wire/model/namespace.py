"""Namespaces: the fields of a v1 Namespace that decide which quotas it is under."""

from bursar.core.model.namespace import NamespaceObject
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import FieldError, RawTexts, decode_texts
from bursar.wire.structs.struct import Struct


class Meta(Struct):
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: RawTexts | None = None
    annotations: RawTexts | None = None


class NamespaceStatus(Struct):
    phase: str | None = None


class Namespace(Struct):
    metadata: Meta | None = None
    status: NamespaceStatus | None = None


def decode_namespace(body: bytes) -> NamespaceObject:
    """Read a namespace. Raises `FieldError` or another `ValueError`."""
    return to_core(decode_body(body, Namespace))


def to_core(raw: Namespace) -> NamespaceObject:
    """Translate a decoded namespace. Raises `FieldError` if it has no name."""
    meta = raw.metadata or Meta()
    if not meta.name:
        raise FieldError("metadata.name", "required, but missing")
    return NamespaceObject(
        name=meta.name,
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels=decode_texts(meta.labels),
        annotations=decode_texts(meta.annotations),
        phase=(raw.status and raw.status.phase) or "",
    )
