"""Parts that Kubernetes objects of many kinds have in common, under the API reference's names.

Decoders that run for every watch event or every admission review declare smaller structs of their
own, and their docstrings give the measured reason. All other decoders use the structs here.
"""

from bursar.wire.structs.fields import FieldError, RawTexts
from bursar.wire.structs.struct import Struct


class OwnerReference(Struct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Struct):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: RawTexts | None = None
    annotations: RawTexts | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class PartialObjectMetadata(Struct):
    """An object of any kind, of which only the metadata is read."""

    metadata: ObjectMeta | None = None


class Condition(Struct):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class Named(Struct):
    """An object with a name, such as a scheduling gate or a resource claim."""

    name: str | None = None


class MatchExpression(Struct):
    """An entry of `matchExpressions` of a label selector or a node selector term."""

    key: str | None = None
    operator: str | None = None
    values: list[str | None] | None = None


def required_name(meta: ObjectMeta) -> str:
    """The name of an object. Raises `FieldError` if it is missing."""
    if not meta.name:
        raise FieldError("metadata.name", "required, but missing")
    return meta.name


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner reference that is marked as the controller."""
    return next((owner for owner in meta.owner_references or () if owner.controller), None)
