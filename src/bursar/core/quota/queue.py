"""The waiting list: every pod behind the gate, in the order of release, and what it waits for.

It is read off the books after they have decided. Pods that the books do not keep, because
somebody else's gates come first, are listed as well: their owners wait all the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Bill
from bursar.core.quota.books import Books, Release
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE, Order, QuotaKey
from bursar.core.quota.refusal import Reason, Refusal
from bursar.core.quota.waiting import Party, Rank

NAMES_MAX: Final = 10
"""How many of the pods that are ahead are named; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One pod of the list."""

    position: int
    """From 1, among all pods of the list."""
    row: PodRow
    refusals: tuple[Refusal, ...]
    """Empty for a pod that is about to be released."""
    ahead: tuple[PodKey, ...]
    """The first of those who rank before it and may take up a quota that it waits for.

    Pods that can never fit are not among them, since they hold nobody up.
    """
    ahead_count: int

    @property
    def reason(self) -> Reason | None:
        """The gravest of its reasons; None for a pod that is about to be released."""
        reasons = [refusal.reason for refusal in self.refusals]
        if Reason.QUOTA_TOO_SMALL in reasons:
            return Reason.QUOTA_TOO_SMALL
        return reasons[0] if reasons else None


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: Rank
    row: PodRow
    refusals: tuple[Refusal, ...]
    quotas: frozenset[QuotaKey]
    """Those it needs, if it is one of the pods that wait for room in a quota."""


def waiting_list(
    books: Books, releases: Iterable[Release], others: Iterable[PodRow] = ()
) -> list[Waiting]:
    """All that wait, first to last.

    `releases` are those of the last decision, which the books keep no longer; of the
    `others`, which may be any pods, those are listed that have our gate beside others.
    """
    entries = [
        *_in_room(books),
        *_aside(books),
        *_released(books, releases),
        *_gated_by_others(others),
    ]
    entries.sort(key=lambda entry: entry.rank)
    line = _Line()
    listed = [_listed(position, entry, line) for position, entry in enumerate(entries, start=1)]
    assert len({(each.row.namespace, each.row.name) for each in listed}) == len(listed)
    return listed


def _listed(position: int, entry: _Entry, line: "_Line") -> Waiting:
    short = frozenset(refusal.quota for refusal in entry.refusals if refusal.quota is not None)
    count, names = line.ahead_of(short)
    waiting = Waiting(
        position=position,
        row=entry.row,
        refusals=entry.refusals,
        ahead=names,
        ahead_count=count,
    )
    if entry.quotas and waiting.reason is not Reason.QUOTA_TOO_SMALL:
        line.join(position, entry.quotas, PodKey(entry.row.namespace, entry.row.name))
    return waiting


class _Line:
    """Who has been listed so far, by the quotas they need; pods that need the same stand together.

    There are few sets of quotas and many pods, so that nobody is compared with everybody.
    """

    def __init__(self) -> None:
        self._counts: dict[frozenset[QuotaKey], int] = {}
        self._first: dict[frozenset[QuotaKey], list[tuple[int, PodKey]]] = {}
        self._needing: dict[QuotaKey, list[frozenset[QuotaKey]]] = {}

    def join(self, position: int, quotas: frozenset[QuotaKey], pod: PodKey) -> None:
        if quotas not in self._counts:
            self._counts[quotas] = 0
            self._first[quotas] = []
            for key in quotas:
                self._needing.setdefault(key, []).append(quotas)
        self._counts[quotas] += 1
        if len(self._first[quotas]) < NAMES_MAX:
            self._first[quotas].append((position, pod))

    def ahead_of(self, short: frozenset[QuotaKey]) -> tuple[int, tuple[PodKey, ...]]:
        """How many have joined who need one of these quotas, and the first of them."""
        needing = dict.fromkeys(each for key in short for each in self._needing.get(key, ()))
        names = merge(*(self._first[each] for each in needing))
        return (
            sum(self._counts[each] for each in needing),
            tuple(pod for _, pod in islice(names, NAMES_MAX)),
        )


# ------------------------------------------------------------------ who is listed


def _in_room(books: Books) -> Iterator[_Entry]:
    for party in books.room.parties():
        refusals = _refusals(books, party)
        for row in party.members.values():
            rank = _rank(row, ignores_priority=party.ignores_priority)
            yield _Entry(rank, row, refusals, party.bill.quotas)


def _refusals(books: Books, party: Party) -> tuple[Refusal, ...]:
    """Why the party waits, as things stand now."""
    refusals = party.bill.refusals()
    if refusals:
        return refusals
    ahead = books.room.holder_before(party, party.rank())
    if ahead is None:
        return ()
    key, holder = ahead
    behind = str(PodKey(holder.namespace, holder.head().name))
    return (Refusal(reason=Reason.BEHIND_ANOTHER, quota=key, detail=behind),)


def _aside(books: Books) -> Iterator[_Entry]:
    for wait in books.asides():
        yield _Entry(_rank(wait.row), wait.row, wait.refusals, frozenset())


def _released(books: Books, releases: Iterable[Release]) -> Iterator[_Entry]:
    for release in releases:
        row = release.row
        promises = books.ledger.reservations_of(PodKey(row.namespace, row.name))
        ignores_priority = any(_is_fifo(books, promise.bill) for promise in promises)
        yield _Entry(_rank(row, ignores_priority=ignores_priority), row, (), frozenset())


def _is_fifo(books: Books, bill: Bill) -> bool:
    covered = (books.coverage.quota(key) for key in bill.quotas)
    return any(each is not None and each.quota.order is Order.FIFO for each in covered)


def _gated_by_others(rows: Iterable[PodRow]) -> Iterator[_Entry]:
    for row in rows:
        gates = row.profile.gates
        if GATE in gates and gates != (GATE,) and not row.is_terminated and row.deletion is None:
            detail = ", ".join(gate for gate in gates if gate != GATE)
            refusal = Refusal(reason=Reason.OTHER_GATES, detail=detail)
            yield _Entry(_rank(row), row, (refusal,), frozenset())


def _rank(row: PodRow, *, ignores_priority: bool = False) -> Rank:
    priority = 0 if ignores_priority else row.profile.priority or 0
    return (-priority, row.stamp.created_s, row.namespace, row.name)
