"""Which object controls which, of objects of any kind."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bursar.wire.documents.tree import Value
from bursar.wire.structs.metadata import ObjectMeta, PartialObjectMetadata, controller_of
from bursar.wire.structs.shape import shaped


class Controlled(NamedTuple):
    """An object, and the object of the same namespace that controls it."""

    namespace: str
    kind: str
    name: str
    controller_kind: str
    controller_name: str


def controlled_objects(values: Iterable[dict[str, Value]]) -> Iterator[Controlled]:
    """The objects that have a controller; of pods, which the core knows, none. Raises `FieldError`.

    The values have been decoded before, so an error is not expected.
    """
    for value in values:
        if value.get("kind") == "Pod":
            continue
        meta = shaped(value, PartialObjectMetadata).metadata or ObjectMeta()
        owner = controller_of(meta)
        if owner is not None:
            yield Controlled(
                namespace=meta.namespace or "",
                kind=str(value.get("kind")),
                name=meta.name or "",
                controller_kind=owner.kind or "",
                controller_name=owner.name or "",
            )
