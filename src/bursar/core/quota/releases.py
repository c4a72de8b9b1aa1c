"""Decisions of the books, and releases that are in flight."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.refusal import Refusal

RETRY_SECONDS: Final = 30
"""A release is retried if the watch has not shown its outcome after this time."""
UNANSWERED_SECONDS: Final = 1
"""Back-off after the first patch without a clear answer; it doubles up to `RETRY_SECONDS`."""
BACKOFF_SECONDS: Final = 2
BACKOFF_SECONDS_MAX: Final = 300
"""Back-off after the API server refused to lift a gate: doubles from the first to the second."""


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
    is_done: bool = True
    """Whether this is all for now. If not, the next call goes on where this one ended."""


class ReleaseOutcome(Enum):
    """The API server's answer to the patch that lifts a gate."""

    LIFTED = "lifted"
    CHANGED = "changed"
    """The pod is not in the expected state, or the outcome is unknown: the watch will show."""
    GONE = "gone"
    """The API server has no such pod. The watch will show the deletion, and frees the amount."""
    UNANSWERED = "unanswered"
    """An error of the server, or no answer in time: the patch may have been applied."""
    REFUSED = "refused"


class Backoff(NamedTuple):
    """How long a pod waits after the API server refused to lift its gate."""

    until_s: int
    seconds: int
    detail: str
    """The API server's message."""

    @classmethod
    def after(cls, before: "Backoff | None", now_s: int, detail: str) -> "Backoff":
        """The next back-off; `before` is the one that has passed."""
        seconds = BACKOFF_SECONDS
        if before is not None:
            seconds = min(before.seconds * 2, BACKOFF_SECONDS_MAX)
        return cls(now_s + seconds, seconds, detail)


class PendingRelease:
    """A release in flight: decided, and not shown by the watch yet."""

    __slots__ = (
        "id",
        "is_exempt",
        "is_unconfirmed",
        "latest",
        "retry_s",
        "row",
        "uid",
        "unanswered",
    )

    def __init__(self, row: PodRow, *, is_exempt: bool) -> None:
        self.row: Final = row
        """The pod in the state in which it was released."""
        self.is_exempt: Final = is_exempt
        self.uid: Final = row.uid
        self.id: Final = f"release/{self.uid}"
        """The id of the reservation."""
        self.latest = row
        """The latest state of the pod. If it is not `row`, the fenced patch must fail."""
        self.is_unconfirmed = False
        """A patch had another outcome than `LIFTED` or `REFUSED`, or the watch has not shown a
        lifted gate in time: only the watch can end it."""
        self.retry_s: int | None = None
        """When the patch is sent again, by the monotonic clock; None before its first outcome."""
        self.unanswered = 0
        """Number of patches without a clear answer, one after the other."""

    def retry_after(self, outcome: ReleaseOutcome, now_s: int) -> int:
        """Record an outcome that only the watch can confirm. Returns when to send the patch again.

        The watch shows a lifted gate soon. If etcd was restored to an older state, it never does.
        """
        if outcome is not ReleaseOutcome.LIFTED:
            self.is_unconfirmed = True
        if outcome is ReleaseOutcome.UNANSWERED:
            pause_s = min(UNANSWERED_SECONDS << min(self.unanswered, RETRY_SECONDS), RETRY_SECONDS)
            self.unanswered += 1
        else:
            pause_s, self.unanswered = RETRY_SECONDS, 0
        self.retry_s = now_s + pause_s
        return self.retry_s

    def is_due(self, now_s: int) -> bool:
        """Whether the patch has to be sent again now.

        The patch is fenced, so this is harmless. The reservation stays, because the first patch may
        have been applied.
        """
        if self.retry_s is None or self.retry_s > now_s:
            return False
        self.is_unconfirmed, self.retry_s = True, now_s + RETRY_SECONDS
        return True
