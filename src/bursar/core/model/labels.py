"""The empty mapping of labels or annotations, shared by all objects that have none."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


def no_labels() -> Mapping[str, str]:
    """The empty mapping; a default for dataclass fields."""
    return NO_LABELS
