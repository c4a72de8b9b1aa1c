"""What the rewrite reads of a pod's document: class, annotations, resources and their uses.

`wire/model/pod` reads whole pods into structs. Here the document is kept as it is, because the
rewrite changes only the resources and annotations in it. Reading must be quick: the API server
waits for the webhook.
"""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.pod import (
    NO_RESOURCES,
    ClaimReference,
    Container,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.quantity import Quantity, QuantityError
from bursar.core.peerpods.downward_api import ResourceField
from bursar.wire.documents.tree import Value
from bursar.wire.structs.fields import FieldError, decode_quantity
from bursar.wire.structs.shape import described, quantity_scalar

CONTAINERS: Final = "containers"
INIT_CONTAINERS: Final = "initContainers"
RESOURCES: Final = "resources"

CONTAINERS_MAX: Final = 1 << 14
"""Most containers of a kind. Each takes 100 bytes or more in etcd, which holds 1.5 MiB."""
CLAIMS_MAX: Final = 1 << 15
"""Most claims of one container. The record of more would exceed the limit of annotations."""
NAME_LENGTH_MAX: Final = 1 << 10
"""Longest name of a resource or claim. Validating a name of megabytes takes much memory."""

_LONG_NAME: Final = f"a name of more than {NAME_LENGTH_MAX} characters"


def read_pod(document: dict[str, Value]) -> Pod:
    """The parts of a pod that the rewrite looks at. Raises `FieldError`."""
    metadata = object_in(document, "metadata", "metadata")
    annotations = object_in(metadata, "annotations", "metadata.annotations")
    spec = object_in(document, "spec", "spec")
    claims = objects_in(spec, "resourceClaims", "spec.resourceClaims")
    stated = object_in(spec, RESOURCES, "spec.resources")
    return Pod(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name") or _text(metadata, "generateName"),
        annotations={key: _text(annotations, key) for key in annotations},
        containers=_containers(spec, CONTAINERS),
        init_containers=_containers(spec, INIT_CONTAINERS),
        resources=None if spec.get(RESOURCES) is None else _requirements(stated, "spec.resources"),
        claim_names=tuple([_text(claim, "name") for claim in claims]),
        runtime_class=_text(spec, "runtimeClassName"),
    )


def object_in(holder: dict[str, Value], key: str, field: str) -> dict[str, Value]:
    """The object under a key, empty if it is missing or null. Raises `FieldError`."""
    value = holder.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(field, f"an object is expected, found {described(value)}")
    return value


def objects_in(holder: dict[str, Value], key: str, field: str) -> list[dict[str, Value]]:
    """The objects listed under a key, none if it is missing or null. Raises `FieldError`."""
    value = holder.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise FieldError(field, f"a list is expected, found {described(value)}")
    found: list[dict[str, Value]] = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise FieldError(f"{field}[{index}]", f"an object is expected, found {described(item)}")
        found.append(item)
    return found


def _containers(spec: dict[str, Value], key: str) -> tuple[Container, ...]:
    field = f"spec.{key}"
    listed = objects_in(spec, key, field)
    if len(listed) > CONTAINERS_MAX:
        raise FieldError(field, f"{len(listed)} are more than any API server can store")
    return tuple(
        [_container(raw, f"{field}[{index}].resources") for index, raw in enumerate(listed)]
    )


def _container(raw: dict[str, Value], field: str) -> Container:
    resources = object_in(raw, RESOURCES, field)
    return Container(
        name=_text(raw, "name"),
        restart_policy=_text(raw, "restartPolicy"),
        resources=_requirements(resources, field) if resources else NO_RESOURCES,
    )


def _requirements(raw: dict[str, Value], field: str) -> ResourceRequirements:
    return ResourceRequirements(
        requests=_amounts(raw, "requests", field),
        limits=_amounts(raw, "limits", field),
        claims=_claims(raw, f"{field}.claims") if "claims" in raw else (),
    )


def _claims(raw: dict[str, Value], field: str) -> tuple[ClaimReference, ...]:
    listed = objects_in(raw, "claims", field)
    if len(listed) > CLAIMS_MAX:
        raise FieldError(field, f"{len(listed)} are too many to be written down")
    claims = tuple(
        [
            ClaimReference(name=_text(claim, "name"), request=_text(claim, "request"))
            for claim in listed
        ]
    )
    for index, claim in enumerate(claims):
        if max(len(claim.name), len(claim.request)) > NAME_LENGTH_MAX:
            raise FieldError(f"{field}[{index}]", _LONG_NAME)
    return claims


def _amounts(raw: dict[str, Value], side: str, field: str) -> dict[str, Quantity]:
    listed = raw.get(side)
    if not isinstance(listed, dict):
        # The field's name is put together only where it is needed: that takes longer than reading.
        listed = object_in(raw, side, f"{field}.{side}")
    amounts: dict[str, Quantity] = {}
    for name, value in listed.items():
        if len(name) > NAME_LENGTH_MAX:
            raise FieldError(f"{field}.{side}", _LONG_NAME)
        try:
            amounts[name] = Quantity.parse(value if isinstance(value, str) else "")
        except QuantityError:
            # In a file an amount may be a number, null, or have blanks around it.
            where = f"{field}.{side}[{name}]"
            amounts[name] = decode_quantity(quantity_scalar(value, where), where)
    return amounts


def _text(holder: dict[str, Value], key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""


# ------------------------------------------------------------------ resourceFieldRef


def read_resource_fields(document: dict[str, Value]) -> Iterator[ResourceField]:
    """Every `resourceFieldRef` of environment variables and volumes.

    A field of an unexpected shape is passed over: the API server refuses it.
    """
    spec = _inside(document, "spec")
    for key in (CONTAINERS, INIT_CONTAINERS):
        for container in _listed(spec, key):
            for entry in _listed(container, "env"):
                yield from _fields(_inside(entry, "valueFrom"), container.get("name"))
    for volume in _listed(spec, "volumes"):
        for source in (volume, *_listed(_inside(volume, "projected"), "sources")):
            for item in _listed(_inside(source, "downwardAPI"), "items"):
                yield from _fields(item, None)


def _fields(holder: dict[str, Value], own_name: Value) -> Iterator[ResourceField]:
    field = _inside(holder, "resourceFieldRef")
    container, path = field.get("containerName") or own_name, field.get("resource")
    if isinstance(container, str) and isinstance(path, str):
        side, _, resource = path.partition(".")
        yield ResourceField(container, side, resource)


def _inside(holder: dict[str, Value], key: str) -> dict[str, Value]:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def _listed(holder: dict[str, Value], key: str) -> list[dict[str, Value]]:
    value = holder.get(key)
    if not value or not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, dict)]
