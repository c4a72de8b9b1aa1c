"""The queue: all pods behind the quota gate, in order of release, and what each waits for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import Books
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Reason, Refusal
from bursar.core.quota.releases import Release
from bursar.core.quota.waiting_pods.groups import WaitingGroup
from bursar.core.quota.waiting_pods.need_index import Rank

REOPEN_PERCENT: Final = 90
NAMES_MAX: Final = 10
"""How many of the pods that are ahead are named; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """One pod of the queue."""

    position: int
    """From 1, among all pods of the queue."""
    row: PodRow
    refusals: tuple[Refusal, ...]
    """Empty for a pod that is about to be released."""
    ahead: tuple[PodKey, ...]
    """The first of the pods that rank before this one and need a quota that it waits for.

    Pods that can never fit are not among them, because they hold up no other pod.
    """
    ahead_count: int

    @property
    def reason(self) -> Reason | None:
        """The gravest of its reasons; None for a pod that is about to be released."""
        return _gravest(self.refusals)


def _gravest(refusals: Iterable[Refusal]) -> Reason | None:
    reasons = [refusal.reason for refusal in refusals]
    if Reason.QUOTA_TOO_SMALL in reasons:
        return Reason.QUOTA_TOO_SMALL
    return reasons[0] if reasons else None


# ------------------------------------------------------------------ counting


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCount:
    by_reason: dict[Reason, int]
    """Waiting pods by the reason of the last decision; of several reasons, by the gravest one."""
    undecided: int
    """Pods that have not been decided upon yet."""


def count_waiting(books: Books) -> WaitingCount:
    """Count the queue. The books keep these numbers, so the cost does not grow with the queue."""
    waiting, blocked = books.waiting, books.blocked_counts
    return WaitingCount(
        by_reason={reason: waiting.count_of(reason) + blocked[reason] for reason in Reason},
        undecided=waiting.count_of(None),
    )


def oldest_wait_s(books: Books, groups_max: int) -> int | None:
    """The second from which the age of the oldest pod that waits for a quota counts.

    None if no pod waits. At most `groups_max` groups of pods are searched, so that the cost is
    bounded; the members of a group need no search.
    """
    groups = islice(books.waiting.groups(), groups_max)
    return min((age_s for _, age_s, _, _ in (group.rank() for group in groups)), default=None)


def waiting_by_namespace(books: Books) -> Mapping[str, int]:
    """Pods behind the quota gate, whatever they wait for, also those that are being deleted."""
    return Counter(books.waiting.sizes()) + Counter(books.blocked_sizes())


class FullQueues:
    """Namespaces with the maximum number of waiting pods. Each accepts pods again at 90 % of it."""

    def __init__(self, pods_max: int, full: Iterable[str] = ()) -> None:
        """At most `pods_max` pods of a namespace may wait; 0: any number.

        `full` are the namespaces that a predecessor has found full.
        """
        self.pods_max: Final = pods_max
        self.names = frozenset(full)

    def update(self, waiting: Mapping[str, int]) -> frozenset[str]:
        """Take the numbers of waiting pods. Returns the namespaces that have become full."""
        before = self.names
        self.names = frozenset(
            name for name, count in waiting.items() if self._is_full(count, name in before)
        )
        return self.names - before

    def _is_full(self, count: int, was_full: bool) -> bool:  # noqa: FBT001 - private
        if not self.pods_max:
            return False
        return count >= self.pods_max or (was_full and count * 100 > self.pods_max * REOPEN_PERCENT)


# ------------------------------------------------------------------ listing


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: Rank
    row: PodRow
    refusals: tuple[Refusal, ...]
    quotas: frozenset[QuotaKey]
    """The quotas that the pod needs, if it waits for a quota."""
    shared: frozenset[QuotaKey] = frozenset()
    """The cluster-wide quotas among `quotas`."""


def waiting_list(books: Books, releases: Iterable[Release] = ()) -> list[WaitingPod]:
    """All waiting pods, first to last.

    `releases` are those of the last decision, which the books do not keep in the queue. Of pods
    under cluster-wide quotas the first of each namespace come first, then the second of each.
    """
    entries = [*_queued(books), *_blocked(books), *_released(books, releases)]
    entries.sort(key=lambda entry: entry.rank)
    turns: dict[str, tuple[int, int]] = {}
    order: list[tuple[tuple[tuple[int, int], Rank], _Entry]] = []
    for entry in entries:
        namespace = entry.row.namespace
        count, number = turns.get(namespace, (0, 0))
        if entry.shared:
            count += 1
            number = books.waiting.turns.release_number(namespace, entry.shared)
        turns[namespace] = (count, number)
        order.append(((turns[namespace], entry.rank), entry))
    order.sort(key=lambda each: each[0])
    ahead = _Ahead()
    listed = [_listed(position, entry, ahead) for position, (_, entry) in enumerate(order, 1)]
    assert len({(each.row.namespace, each.row.name) for each in listed}) == len(listed)
    return listed


def _listed(position: int, entry: _Entry, ahead: "_Ahead") -> WaitingPod:
    short = frozenset(refusal.quota for refusal in entry.refusals if refusal.quota is not None)
    count, names = ahead.of(short)
    waiting = WaitingPod(
        position=position,
        row=entry.row,
        refusals=entry.refusals,
        ahead=names,
        ahead_count=count,
    )
    if entry.quotas and waiting.reason is not Reason.QUOTA_TOO_SMALL:
        ahead.add(position, entry.quotas, PodKey(entry.row.namespace, entry.row.name))
    return waiting


class _Ahead:
    """The pods listed so far, grouped by the set of quotas that they need.

    There are few such sets and many pods, so no pod is compared with every other.
    """

    def __init__(self) -> None:
        self._counts: dict[frozenset[QuotaKey], int] = {}
        self._first: dict[frozenset[QuotaKey], list[tuple[int, PodKey]]] = {}
        self._needing: dict[QuotaKey, list[frozenset[QuotaKey]]] = {}

    def add(self, position: int, quotas: frozenset[QuotaKey], pod: PodKey) -> None:
        if quotas not in self._counts:
            self._counts[quotas] = 0
            self._first[quotas] = []
            for key in quotas:
                self._needing.setdefault(key, []).append(quotas)
        self._counts[quotas] += 1
        if len(self._first[quotas]) < NAMES_MAX:
            self._first[quotas].append((position, pod))

    def of(self, short: frozenset[QuotaKey]) -> tuple[int, tuple[PodKey, ...]]:
        """The number of pods listed so far that need one of these quotas, and the first of them."""
        needing = dict.fromkeys(each for key in short for each in self._needing.get(key, ()))
        names = merge(*(self._first[each] for each in needing))
        return (
            sum(self._counts[each] for each in needing),
            tuple(pod for _, pod in islice(names, NAMES_MAX)),
        )


def _queued(books: Books) -> Iterator[_Entry]:
    for group in books.waiting.groups():
        refusals = _refusals(books, group)
        for _, row in group.members.values():
            rank = _rank(books, row, ignores_priority=group.ignores_priority)
            yield _Entry(rank, row, refusals, group.bill.quotas, group.bill.shared)


def _refusals(books: Books, group: WaitingGroup) -> tuple[Refusal, ...]:
    """Why the group waits as of now.

    The pod ahead is named even if it is of another namespace: the reader of the list may read all
    of its pods.
    """
    refusals = group.bill.refusals()
    if refusals:
        return refusals
    ahead = books.waiting.holder_before(group)
    if ahead is None:
        return ()
    key, holder = ahead
    behind = str(PodKey(holder.namespace, holder.head().name))
    return (Refusal(reason=Reason.BEHIND_ANOTHER, quota=key, detail=behind),)


def _blocked(books: Books) -> Iterator[_Entry]:
    for wait in books.blocked():
        yield _Entry(_rank(books, wait.row), wait.row, wait.refusals, frozenset())


def _released(books: Books, releases: Iterable[Release]) -> Iterator[_Entry]:
    for release in releases:
        row = release.row
        promises = books.ledger.reservations_of(PodKey(row.namespace, row.name))
        ignores_priority = any(promise.bill.is_fifo for promise in promises)
        rank = _rank(books, row, ignores_priority=ignores_priority)
        yield _Entry(rank, row, (), frozenset())


def _rank(books: Books, row: PodRow, *, ignores_priority: bool = False) -> Rank:
    priority = 0 if ignores_priority else row.profile.priority or 0
    return (-priority, books.ages.age_s(row), row.namespace, row.name)
