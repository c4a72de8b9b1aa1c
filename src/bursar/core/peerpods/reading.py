"""What rewriting reads of a pod's document: its class, annotations and resources.

The document itself stays as it is, with every field of it that we do not know.
"""

from typing import Final

from bursar.core.model.pod import (
    NO_RESOURCES,
    ClaimReference,
    Container,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.quantity import ZERO, Quantity, QuantityError
from bursar.core.peerpods.json_document import Json, JsonObject

CONTAINERS: Final = "containers"
INIT_CONTAINERS: Final = "initContainers"
CONTAINERS_MAX: Final = 1 << 14
"""Of each kind. With its defaults none takes less than 100 bytes, and etcd has room for 1.5 MiB."""


CLAIMS_MAX: Final = 1 << 15
"""Of one container. A record of more would be larger than all annotations may be."""
NAME_LENGTH_MAX: Final = 1 << 10
"""Longer than any name of a resource or claim. Judging one of megabytes costs hundreds of them."""


class ShapeError(ValueError):
    """A field that is not what a pod has there. The text names it and quotes nothing."""


def object_in(holder: JsonObject, key: str, field: str) -> JsonObject:
    """The object under a key, empty if there is none. Raises `ShapeError`."""
    value = holder.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ShapeError(f"{field}: an object is expected")
    return value


def objects_in(holder: JsonObject, key: str, field: str) -> list[JsonObject]:
    """The objects listed under a key. Raises `ShapeError`."""
    value = holder.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ShapeError(f"{field}: a list is expected")
    found: list[JsonObject] = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise ShapeError(f"{field}[{index}]: an object is expected")
        found.append(item)
    return found


def pod_in(document: JsonObject) -> Pod:
    """The pod, as far as rewriting goes. Raises `ShapeError`."""
    metadata = object_in(document, "metadata", "metadata")
    annotations = object_in(metadata, "annotations", "metadata.annotations")
    spec = object_in(document, "spec", "spec")
    claims = objects_in(spec, "resourceClaims", "spec.resourceClaims")
    return Pod(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name") or _text(metadata, "generateName"),
        annotations={key: _text(annotations, key) for key in annotations},
        containers=_containers(spec, CONTAINERS),
        init_containers=_containers(spec, INIT_CONTAINERS),
        resources=None
        if spec.get("resources") is None
        else _requirements(object_in(spec, "resources", "spec.resources"), "spec.resources"),
        claim_names=tuple(_text(claim, "name") for claim in claims),
        runtime_class=_text(spec, "runtimeClassName"),
    )


def _containers(spec: JsonObject, key: str) -> tuple[Container, ...]:
    if spec.get(key) is None:
        return ()
    field = f"spec.{key}"
    listed = objects_in(spec, key, field)
    if len(listed) > CONTAINERS_MAX:
        raise ShapeError(f"{field}: {len(listed)} are more than any API server can store")
    return tuple(
        [_container(raw, f"{field}[{index}].resources") for index, raw in enumerate(listed)]
    )


def _container(raw: JsonObject, field: str) -> Container:
    resources = object_in(raw, "resources", field)
    return Container(
        name=_text(raw, "name"),
        restart_policy=_text(raw, "restartPolicy"),
        resources=_requirements(resources, field) if resources else NO_RESOURCES,
    )


def _requirements(raw: JsonObject, field: str) -> ResourceRequirements:
    return ResourceRequirements(
        requests=_amounts(raw, "requests", field),
        limits=_amounts(raw, "limits", field),
        claims=_claims(raw, field) if "claims" in raw else (),
    )


def _claims(raw: JsonObject, field: str) -> tuple[ClaimReference, ...]:
    listed = objects_in(raw, "claims", f"{field}.claims")
    if len(listed) > CLAIMS_MAX:
        raise ShapeError(f"{field}.claims: {len(listed)} are too many to be written down")
    claims = tuple(
        ClaimReference(name=_text(claim, "name"), request=_text(claim, "request"))
        for claim in listed
    )
    for index, claim in enumerate(claims):
        if max(len(claim.name), len(claim.request)) > NAME_LENGTH_MAX:
            raise ShapeError(f"{field}.claims[{index}]: {_NO_NAME}")
    return claims


def _amounts(raw: JsonObject, side: str, field: str) -> dict[str, Quantity]:
    listed = raw.get(side)
    if not isinstance(listed, dict):
        # Where the fault is takes longer to spell out than to look for, so only if there is one.
        listed = object_in(raw, side, f"{field}.{side}")
    amounts: dict[str, Quantity] = {}
    for name, text in listed.items():
        if len(name) > NAME_LENGTH_MAX:
            raise ShapeError(f"{field}.{side}: {_NO_NAME}")
        try:
            amounts[name] = Quantity.parse(text) if isinstance(text, str) else _amount(text)
        except (ShapeError, QuantityError) as error:
            raise ShapeError(f"{field}.{side}[{name}]: {error}") from None
    return amounts


_NO_NAME: Final = f"a name of more than {NAME_LENGTH_MAX} characters"


def _amount(value: Json) -> Quantity:
    """An API server writes amounts as texts; in a file they may be numbers."""
    if value is None:
        return ZERO
    if isinstance(value, bool) or not isinstance(value, int):
        raise ShapeError("a quantity is expected")
    return Quantity.parse(str(value))


def _text(holder: JsonObject, key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""
