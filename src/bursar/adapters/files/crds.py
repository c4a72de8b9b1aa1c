"""The CustomResourceDefinitions of AAQ's kinds, which are packaged with Bursar."""

from pathlib import Path

import yaml

from bursar.adapters.files.packaged import packaged
from bursar.app.cluster.ports import Json


def crd_folder() -> Path:
    """The folder of the definitions."""
    return Path(packaged("api/crds"))


def crd_documents() -> list[dict[str, Json]]:
    """The definitions, one CustomResourceDefinition each."""
    return [yaml.safe_load(path.read_bytes()) for path in sorted(crd_folder().glob("*.yaml"))]
