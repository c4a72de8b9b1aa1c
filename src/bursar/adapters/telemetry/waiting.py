"""Waiting pods by reason, counted from the books.

Equal pods are counted together, so the cost grows with the number of different pods.
"""

from dataclasses import dataclass

from bursar.core.quota.books import Books
from bursar.core.quota.refusal import Reason
from bursar.core.quota.waiting import Party


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCount:
    by_reason: dict[Reason, int]
    undecided: int
    """Pods that the next round decides about."""


def count_waiting(books: Books) -> WaitingCount:
    by_reason = dict.fromkeys(Reason, 0)
    undecided = 0
    for party in books.room.parties():
        reason = _reason(party)
        if reason is not None:
            by_reason[reason] += len(party.members)
        elif party in books.room.restless:
            undecided += len(party.members)
        else:
            by_reason[Reason.BEHIND_ANOTHER] += len(party.members)
    for aside in books.asides():
        by_reason[aside.refusals[0].reason] += 1
    return WaitingCount(by_reason=by_reason, undecided=undecided)


def _reason(party: Party) -> Reason | None:
    """What is short for it; None if nothing is."""
    reasons = {refusal.reason for refusal in party.bill.refusals()}
    if Reason.QUOTA_TOO_SMALL in reasons:
        return Reason.QUOTA_TOO_SMALL
    return Reason.QUOTA_EXCEEDED if reasons else None
