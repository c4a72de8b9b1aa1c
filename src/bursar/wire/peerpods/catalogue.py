"""Catalogues: the instance types of a cloud, as an operator writes them down.

An unknown field is refused: `gpu: 1` in place of `gpus: 1` would turn a type with GPUs into one
for all pods.
"""

from typing import Final

from bursar.core.peerpods.instances import InstanceType
from bursar.wire.documents.tree import Value
from bursar.wire.structs.fields import FieldError, Scalar, decode_quantity, printable, quoted
from bursar.wire.structs.shape import shaped
from bursar.wire.structs.struct import Struct

MIB: Final = 1 << 20
API_VERSION: Final = "bursar.io/v1alpha1"
KIND: Final = "InstanceCatalogue"


class Offer(Struct):
    name: str | None = None
    provider: str | None = None
    arch: str | None = None
    vcpus: int | None = None
    memory: Scalar = None
    gpus: int | None = None
    price: Scalar = None


class Catalogue(Struct):
    api_version: str | None = None
    kind: str | None = None
    instance_types: list[Offer] | None = None


def decode_catalogue(value: Value) -> tuple[InstanceType, ...]:
    """Read a catalogue. Raises `FieldError`."""
    if not isinstance(value, dict):
        raise FieldError("", "an object with instanceTypes is expected")
    catalogue = shaped(value, Catalogue)
    _require_header(catalogue)
    _require_known(value, Catalogue, "")
    offers = catalogue.instance_types or []
    if not offers:
        raise FieldError("instanceTypes", "required, but missing or empty")
    _require_known_offers(value["instanceTypes"])
    types: dict[str, InstanceType] = {}
    for index, offer in enumerate(offers):
        decoded = _to_core(offer, f"instanceTypes[{index}]")
        if decoded.name in types:
            raise FieldError(f"instanceTypes[{index}].name", "is there already")
        types[decoded.name] = decoded
    return tuple(types.values())


def _require_header(catalogue: Catalogue) -> None:
    """The header may be left out; an object of another kind is refused."""
    for field, found, expected in (
        ("kind", catalogue.kind, KIND),
        ("apiVersion", catalogue.api_version, API_VERSION),
    ):
        if found not in {None, expected}:
            raise FieldError(field, f"{expected} is expected, found {quoted(str(found))}")


def _require_known_offers(offers: Value) -> None:
    for index, offer in enumerate(offers if isinstance(offers, list) else ()):
        _require_known(offer, Offer, f"instanceTypes[{index}].")


def _require_known(value: Value, kind: type[Struct], parent: str) -> None:
    known = kind.__struct_encode_fields__
    for key in value if isinstance(value, dict) else ():
        if key not in known:
            problem = f"unknown field; there are {', '.join(known)}"
            raise FieldError(f"{parent}{printable(key)}", problem)


def _to_core(offer: Offer, field: str) -> InstanceType:
    if not offer.name:
        raise FieldError(f"{field}.name", "required, but missing")
    memory = decode_quantity(offer.memory, f"{field}.memory")
    # Rounded down, so that no type counts as larger than it is.
    memory_mib = memory.nanos // 10**9 // MIB
    if memory_mib < 1:
        raise FieldError(f"{field}.memory", "must be at least 1Mi")
    if (offer.vcpus or 0) < 1:
        raise FieldError(f"{field}.vcpus", "must be at least 1")
    if (offer.gpus or 0) < 0:
        raise FieldError(f"{field}.gpus", "must not be negative")
    price = None if offer.price is None else decode_quantity(offer.price, f"{field}.price")
    if price is not None and price.is_negative:
        raise FieldError(f"{field}.price", "must not be negative")
    return InstanceType(
        name=offer.name,
        vcpus=offer.vcpus or 0,
        memory_mib=memory_mib,
        gpus=offer.gpus or 0,
        price=price,
        arch=offer.arch or "",
        provider=offer.provider or "",
    )
