"""Options that say how pods are counted. Every command that counts pods has them."""

from collections.abc import Mapping
from typing import Any, Final

from bursar.app.counting.settings import CountingSettings
from bursar.cli.options import together

counting_options: Final = together()
"""`counting_from` makes settings of what the command receives."""


def counting_from(chosen: Mapping[str, Any]) -> CountingSettings:  # noqa: ARG001 - none yet
    return CountingSettings()
