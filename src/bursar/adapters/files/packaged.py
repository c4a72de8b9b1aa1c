"""Files that are packaged with Bursar: the definitions of AAQ's kinds, and examples."""

import os

import bursar
from bursar.app.bad_input import BadInputError


def packaged(name: str) -> str:
    """The path: beside the package in a checkout, inside it where it was installed."""
    package = bursar.__path__[0]
    for root in (package.rsplit(os.sep, 2)[0], package):
        path = f"{root}{os.sep}{name}"
        if os.access(path, os.F_OK):
            return path
    raise BadInputError(f"{name} is not installed")
