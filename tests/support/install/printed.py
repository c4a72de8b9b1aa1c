"""What `bursar manifests` prints."""

from typing import Any

import yaml
from click.testing import CliRunner

from bursar.cli.install.manifests import manifests


def printed(*arguments: str) -> str:
    ran = CliRunner().invoke(manifests, arguments, standalone_mode=False)
    assert ran.exception is None, ran.exception
    return ran.stdout


def printed_objects(*arguments: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(printed(*arguments)))
