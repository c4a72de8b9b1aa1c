"""Findings of a review: one sentence or more about one object, and how grave they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How grave a finding is."""

    BLOCKER = "blocker"
    TASK = "task"
    CHANGE = "change"
    FACT = "fact"


class Verdict(Enum):
    """Whether a move can begin."""

    READY = "ready"
    NOT_READY = "not ready"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    about: str
    """The object or the kind of object."""
    text: str


def verdict_of(findings: Sequence[Finding]) -> Verdict:
    levels = {each.level for each in findings}
    if Level.BLOCKER in levels:
        return Verdict.BLOCKED
    return Verdict.NOT_READY if Level.TASK in levels else Verdict.READY
