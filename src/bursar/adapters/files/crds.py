"""The CustomResourceDefinitions of AAQ's kinds, which are packaged with Bursar."""

from pathlib import Path
from typing import Final

import yaml

import bursar
from bursar.app.cluster.ports import Json

_CRDS: Final = "api/crds"


def crd_folder() -> Path:
    """The folder of the definitions: beside the package in a checkout, inside it when installed."""
    package = Path(bursar.__file__).parent
    folders = [root / _CRDS for root in (package.parents[1], package)]
    found = next((folder for folder in folders if folder.is_dir()), None)
    assert found is not None, "the definitions are part of the package"
    return found


def crd_documents() -> list[dict[str, Json]]:
    """The definitions, one CustomResourceDefinition each."""
    return [yaml.safe_load(path.read_bytes()) for path in sorted(crd_folder().glob("*.yaml"))]
