"""Decisions of the books, and releases that are in flight."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The decision to lift the gate of a pod in the state given."""

    row: PodRow
    is_exempt: bool = False
    """No quota is charged, because pods of the namespace are not gated any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The decision that a pod waits, with the reasons to report."""

    row: PodRow
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    releases: list[Release]
    waits: list[Wait]


class ReleaseOutcome(Enum):
    """The API server's answer to the patch that lifts a gate."""

    LIFTED = "lifted"
    CHANGED = "changed"
    """The pod is not in the expected state, or the outcome is unknown: the watch will show."""
    GONE = "gone"
    REFUSED = "refused"


class PendingRelease:
    """A release in flight: decided, and not shown by the watch yet."""

    __slots__ = ("id", "is_exempt", "is_unconfirmed", "latest", "row", "uid")

    def __init__(self, row: PodRow, *, is_exempt: bool) -> None:
        self.row: Final = row
        """The pod in the state in which it was released."""
        self.is_exempt: Final = is_exempt
        self.uid: Final = row.stamp.uid
        self.id: Final = f"release/{self.uid}"
        """The id of the reservation."""
        self.latest = row
        """The latest state of the pod. If it is not `row`, the fenced patch must fail."""
        self.is_unconfirmed = False
        """The API server has answered `CHANGED`."""
