"""Files that are packaged with Bursar: the definitions of AAQ's kinds, and examples."""

from pathlib import Path

import bursar
from bursar.app.bad_input import BadInputError


def packaged(name: str) -> str:
    """The path: beside the package in a checkout, inside it where it was installed."""
    package = Path(bursar.__file__).parent
    for root in (package.parents[1], package):
        if (root / name).exists():
            return str(root / name)
    raise BadInputError(f"{name} is not installed")
