"""`--group-by`: what the rows of `bursar top` are about."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.names import qualified_name_errors

LABEL_PREFIX: Final = "label:"
NONE: Final = "(none)"
"""The group of objects that do not have the label, and of pods without a node."""


class GroupBy(Enum):
    LABEL = "label"
    OWNER = "owner"
    NODE = "node"
    NAMESPACE = "namespace"
    RESOURCE = "resource"


class GroupingError(ValueError):
    """A text that `--group-by` does not take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    by: GroupBy
    label: str = ""
    """The key, if objects are grouped by a label."""


def parse_grouping(text: str, choices: Sequence[GroupBy]) -> Grouping:
    """Read `owner`, `node`, `namespace` or `label:KEY`. Raises `GroupingError`."""
    words = [f"{LABEL_PREFIX}KEY" if by is GroupBy.LABEL else by.value for by in choices]
    if text.startswith(LABEL_PREFIX) and GroupBy.LABEL in choices:
        label = text.removeprefix(LABEL_PREFIX)
        if qualified_name_errors(label):
            raise GroupingError(f"{text} names no label; give label:KEY, such as label:app")
        return Grouping(by=GroupBy.LABEL, label=label)
    found = next((by for by in choices if by.value == text and by is not GroupBy.LABEL), None)
    if found is None:
        raise GroupingError(f"no group {text}; the groups are: {', '.join(words)}")
    return Grouping(by=found)
