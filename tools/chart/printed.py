"""What `bursar manifests` prints, as data."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from click.testing import CliRunner

from bursar.cli.install.manifests import manifests

Manifest = dict[str, Any]


def documents(*arguments: str) -> list[Manifest]:
    """The documents of one command line; new copies at each call."""
    items: list[Manifest] = json.loads(_printed(arguments))["items"]
    return items


def documents_of_part(part: str, beside: Sequence[str], options: Sequence[str]) -> list[Manifest]:
    """The documents of one part, if it is printed beside others, whose documents are left out."""
    both = documents(part, *beside, *options)
    others = {identity(each) for each in documents(*beside, *options)} if beside else set()
    return [each for each in both if identity(each) not in others]


@cache
def _printed(arguments: tuple[str, ...]) -> str:
    ran = CliRunner().invoke(manifests, [*arguments, "-o", "json"], standalone_mode=False)
    if ran.exception is not None:
        raise ran.exception
    return ran.stdout


def identity(manifest: Manifest) -> tuple[str, str, str, str]:
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "")
    return manifest["apiVersion"], manifest["kind"], namespace, metadata["name"]
