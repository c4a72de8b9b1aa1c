"""The CustomResourceDefinitions in the package, as data."""

import sys
from typing import Final

from bursar.adapters.files.manifests import read_objects_as_written
from bursar.adapters.files.packaged import packaged
from bursar.app.install.documents import Document

DEFINITIONS: Final = "api/crds"


def packaged_definitions() -> tuple[Document, ...]:
    """The CustomResourceDefinitions that Bursar has."""
    written = read_objects_as_written([packaged(DEFINITIONS)], sys.stdin.buffer)
    return tuple(body for body, _ in written)
