"""Peer pods and catalogues of instance types in files."""

from collections.abc import Sequence
from contextlib import closing
from typing import BinaryIO, Final

from bursar.adapters.files import sources
from bursar.adapters.files.manifests import ManifestError, read_exact_objects
from bursar.adapters.files.sources import SourceError
from bursar.core.peerpods.instances import InstanceType
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.wire.documents.stream import read_documents
from bursar.wire.documents.text import DocumentError
from bursar.wire.documents.tree import steps_towards
from bursar.wire.peerpods.catalogue import decode_catalogue
from bursar.wire.peerpods.manifests import KINDS_READ, RewrittenManifest, rewrite_manifest
from bursar.wire.structs.fields import FieldError

__all__ = ["KINDS_READ", "RewrittenManifest", "read_catalogue", "rewrite_files"]

CATALOGUE_BYTES_MAX: Final = 1 << 20


def rewrite_files(
    paths: Sequence[str],
    stdin: BinaryIO,
    settings: PeerPodSettings,
    *,
    templates: bool = False,
    is_recursive: bool = False,
) -> tuple[RewrittenManifest, ...]:
    """Every object in the sources, in their order, with its pods rewritten.

    With `templates` a workload counts as the pod it creates. Raises `ManifestError`.
    """
    return tuple(
        rewrite_manifest(body, settings, templates=templates)
        for body, _ in read_exact_objects(paths, stdin, is_recursive=is_recursive)
    )


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
    [document] = documents
    try:
        return decode_catalogue(document.value)
    except FieldError as error:
        place = document.place_of(steps_towards(document.value, error.field))
        raise ManifestError(f"{path}:{place}: {error}") from None
