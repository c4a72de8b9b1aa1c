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


class Readiness(Enum):
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


def readiness_of(findings: Sequence[Finding]) -> Readiness:
    levels = {each.level for each in findings}
    if Level.BLOCKER in levels:
        return Readiness.BLOCKED
    return Readiness.NOT_READY if Level.TASK in levels else Readiness.READY
