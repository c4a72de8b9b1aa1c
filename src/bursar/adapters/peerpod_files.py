"""Peer pods in files: every object as it was written, and pods as they come out of the rewrite.

An API server fills in defaults before it asks a webhook, requests from limits above all.
A file has not been through that, so it is done here first. The patch nevertheless starts
from what the file says.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from bursar.adapters.files import sources
from bursar.adapters.files.manifests import ManifestError, read_objects_as_written
from bursar.adapters.files.sources import SourceError
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod import Container, ResourceRequirements
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.json_document import Json, JsonObject, PatchStep, patch_between
from bursar.core.peerpods.reading import CONTAINERS, INIT_CONTAINERS, object_in, objects_in
from bursar.core.peerpods.rewriting import Rewriting, Rewritten, is_peer_pod, rewrite
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.wire.documents.stream import Document, read_documents
from bursar.wire.documents.text import DocumentError
from bursar.wire.documents.tree import Value, steps_towards
from bursar.wire.model import pod as wire_pod
from bursar.wire.peerpods import decode_catalogue
from bursar.wire.structs.fields import FieldError
from bursar.wire.structs.shape import shaped

__all__ = ["FileObject", "ManifestError", "as_sent", "read_catalogue", "rewrite_files"]

CATALOGUE_BYTES_MAX: Final = 1 << 20
DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileObject:
    """One object of the sources, and what became of it."""

    kind: str
    subject: str
    """Namespace and name."""
    written: JsonObject
    rewriting: Rewriting | None
    """None for what is no pod."""

    @property
    def document(self) -> JsonObject:
        """The object as it should be applied; as written if nothing was to be done."""
        rewriting = self.rewriting
        return rewriting.document if isinstance(rewriting, Rewritten) else self.written

    @property
    def patch(self) -> tuple[PatchStep, ...]:
        return patch_between(self.written, self.document)


def rewrite_files(
    paths: Sequence[str], stdin: BinaryIO, settings: PeerPodSettings
) -> tuple[FileObject, ...]:
    """Every object in the sources, in their order. Raises `ManifestError`."""
    return tuple(
        # A fraction somewhere in the object is passed on; nobody here looks at it.
        _rewritten(cast("JsonObject", body), settings)
        for body, _ in read_objects_as_written(paths, stdin)
    )


def _rewritten(body: JsonObject, settings: PeerPodSettings) -> FileObject:
    metadata = object_in(body, "metadata", "metadata")
    name = metadata.get("name") or metadata.get("generateName") or ""
    is_pod = body.get("kind") == "Pod" and body.get("apiVersion") == "v1"
    is_peer = is_pod and is_peer_pod(body, settings)
    rewriting = rewrite(as_sent(body) if is_peer else body, settings) if is_pod else None
    return FileObject(
        kind=str(body.get("kind")),
        subject=f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/{name}",
        written=body,
        rewriting=rewriting,
    )


# ------------------------------------------------------------------ defaults


def as_sent(body: JsonObject) -> JsonObject:
    """A pod's document as an API server sends it: defaults filled in, amounts as texts.

    Raises `FieldError` for an amount that cannot be read.
    """
    stored = with_defaults(wire_pod.to_core(shaped(cast("dict[str, Value]", body), wire_pod.Pod)))
    spec = dict(object_in(body, "spec", "spec"))
    for key, containers in (
        (CONTAINERS, stored.containers),
        (INIT_CONTAINERS, stored.init_containers),
    ):
        if containers:
            spec[key] = _filled(objects_in(spec, key, key), containers)
    if stored.resources is not None:
        spec["resources"] = _texts(object_in(spec, "resources", "resources"), stored.resources)
    return {**body, "spec": spec}


def _filled(raw: list[JsonObject], containers: tuple[Container, ...]) -> list[Json]:
    return [
        {
            **each,
            "resources": _texts(object_in(each, "resources", "resources"), container.resources),
        }
        for each, container in zip(raw, containers, strict=True)
    ]


def _texts(raw: JsonObject, resources: ResourceRequirements) -> JsonObject:
    filled = dict(raw)
    for side, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        filled.pop(side, None)
        if amounts:
            filled[side] = {name: str(amount) for name, amount in amounts.items()}
    return filled


# ------------------------------------------------------------------ catalogues


def read_catalogue(path: str) -> tuple[InstanceType, ...]:
    """The instance types in a file. Raises `ManifestError`."""
    try:
        with closing(sources.chunks_of_file(path, bytes_max=CATALOGUE_BYTES_MAX)) as chunks:
            documents = list(read_documents(chunks))
    except SourceError as error:
        raise ManifestError(f"{error.name}: {error.problem}") from None
    except DocumentError as error:
        raise ManifestError(f"{path}:{error}") from None
    if len(documents) != 1:
        raise ManifestError(f"{path}: one document is expected, found {len(documents)}")
    return _catalogue(path, documents[0])


def _catalogue(path: str, document: Document) -> tuple[InstanceType, ...]:
    try:
        return decode_catalogue(document.value)
    except FieldError as error:
        place = document.place_of(steps_towards(document.value, error.field))
        raise ManifestError(f"{path}:{place}: {error}") from None
