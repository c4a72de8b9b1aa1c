"""The waiting pods: their order, and which pods may pass which.

A group of pods that does not fit is parked at the accounts that are short, and tried again
when enough is free in one of them. A group that may not be passed *holds* the quotas that are
short for it: a group of its namespace that ranks behind it and needs such a quota waits even if
it would fit. While it is the turn of the namespace to hold a cluster-wide quota, the groups of all
other namespaces that need the quota wait as well.

Within a namespace, groups are tried in order of rank. Among namespaces that share a cluster-wide
quota, the namespace whose last release is the longest ago goes first.

After an event, only groups that may be next are looked at. Of the groups that are parked at one
place, the first that fits is taken to be tried, and after it the next one. If a pod that holds the
quota keeps the first group back, it keeps back the others too: all of them stay parked until that
pod no longer holds the quota.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Reason
from bursar.core.quota.waiting_pods.groups import NOWHERE, Line, Parked, Place, WaitingGroup
from bursar.core.quota.waiting_pods.need_index import NeedIndex, Rank
from bursar.core.quota.waiting_pods.turns import Turns

IDLE_LINES_MAX: Final = 4_096
"""Empty lines are kept for the next pods of their namespaces unless there are more lines."""


class WaitingQueue:
    """All groups, where they are parked, and which of them hold which quotas.

    A group is either to be tried or parked, except while the caller of `pop` tries it.
    """

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        """By namespace."""
        self._lines_at: dict[Place, dict[Line, None]] = {}
        self._places_of: dict[QuotaKey, dict[Place, None]] = {}
        self._holds: dict[QuotaKey, dict[str, NeedIndex[WaitingGroup]]] = {}
        """By quota and namespace."""
        self._order: list[tuple[int, Rank, int, Line]] = []
        """A heap of lines with groups to be tried. Of each line the latest entry is valid."""
        self._numbers = count(1)
        self._popped: WaitingGroup | None = None
        self._paused: set[str] = set()
        """Namespaces whose groups are not to be tried for now."""
        self._counts: dict[Reason | None, int] = {}
        self.turns: Final = Turns()

    # ------------------------------------------------------------------ queries

    def __len__(self) -> int:
        return sum(self._counts.values())

    def sizes(self) -> dict[str, int]:
        """Number of waiting pods by namespace."""
        return {name: len(line.pods) for name, line in self._lines.items() if line.pods}

    def group_of(self, pod: PodKey) -> WaitingGroup | None:
        line = self._lines.get(pod.namespace)
        return None if line is None else line.pods.get(pod.name)

    def groups(self) -> Iterator[WaitingGroup]:
        for line in self._lines.values():
            yield from line.groups.values()

    def groups_in(self, namespace: str) -> list[WaitingGroup]:
        line = self._lines.get(namespace)
        return [] if line is None else list(line.groups.values())

    @property
    def is_anything_parked(self) -> bool:
        """Whether it matters to any group that more is free."""
        return bool(self._lines_at or self._holds)

    def count_of(self, reason: Reason | None) -> int:
        """Number of pods whose group waited for this when it was last tried; None: never tried."""
        return self._counts.get(reason, 0)

    def holder_before(self, group: WaitingGroup) -> tuple[QuotaKey, WaitingGroup] | None:
        """A quota that the group needs, and the group that keeps it from having it."""
        if not self._holds:
            return None
        rank = group.rank()
        for key in group.bill.quotas:
            holder = self._holder_before(key, group, rank)
            if holder is not None:
                return key, holder
        return None

    def _holder_before(self, key: QuotaKey, group: WaitingGroup, rank: Rank) -> WaitingGroup | None:
        turn = self.turns.holding.get(key)
        if turn is not None and turn.namespace != group.line.namespace:
            return self.first_holder(key, turn.namespace)
        holder = self.first_holder(key, group.line.namespace)
        if holder is None or holder is group or holder.held_rank > rank:
            return None
        return holder

    def first_holder(self, key: QuotaKey, namespace: str) -> WaitingGroup | None:
        """The first group of a namespace that holds a quota."""
        holds = self._holds.get(key, {}).get(namespace)
        return None if holds is None else holds.first()

    def first_holders(self, key: QuotaKey) -> list[WaitingGroup]:
        """The first group of each namespace that holds a quota."""
        holders = (holds.first() for holds in self._holds.get(key, {}).values())
        return [holder for holder in holders if holder is not None]

    # ------------------------------------------------------------------ joining and leaving

    def join(
        self, pod: PodKey, row: PodRow, bill: Bill, age_s: int, *, ignores_priority: bool
    ) -> None:
        """Add a pod to its group, or update it there. Its rank follows from `age_s`."""
        namespace, name = pod
        held = self.group_of(pod)
        if held is not None and held.bill is not bill:
            self._leave(held, name)
        line = self._lines.get(namespace)
        if line is None:
            line = self._lines[namespace] = Line(namespace)
        group = line.groups.get(bill)
        before = None
        if group is None:
            group = WaitingGroup(bill, line, ignores_priority=ignores_priority)
            line.groups[bill] = group
        else:
            before = group.rank()
        group.put(row, age_s)
        if held is not group:
            line.pods[name] = group
            self._counts[group.reason] = self._counts.get(group.reason, 0) + 1
        rank = group.rank()
        if rank != before:
            if group.held:
                self.hold(group, ())
            self._try(group, rank)
        elif held is not group:
            self._try(group, rank)

    def leave(self, pod: PodKey) -> PodRow | None:
        """Remove a pod from the queue. Groups that it held up are tried again."""
        group = self.group_of(pod)
        return None if group is None else self._leave(group, pod.name)

    def _leave(self, group: WaitingGroup, name: str) -> PodRow:
        del group.line.pods[name]
        self._counts[group.reason] -= 1
        if len(group.members) == 1:
            row = group.take(name)
            self._forget(group)
            return row
        was_head = group.head().name == name
        row = group.take(name)
        if was_head:
            self.hold(group, ())
            self.try_again(group)
        return row

    def _forget(self, group: WaitingGroup) -> None:
        group.untried_rank = None
        if group.parked:
            self._unpark(group)
        if group.held:
            self.hold(group, ())
        line = group.line
        del line.groups[group.bill]
        if not line.groups:
            line.clear()
            if len(self._lines) > IDLE_LINES_MAX:
                del self._lines[line.namespace]

    def set_reason(self, group: WaitingGroup, reason: Reason) -> None:
        """Note why a group waits."""
        if group.reason is not reason:
            size = len(group.members)
            self._counts[group.reason] -= size
            self._counts[reason] = self._counts.get(reason, 0) + size
            group.reason = reason

    # ------------------------------------------------------------------ the next to be tried

    def try_again(self, group: WaitingGroup) -> None:
        """Have a group tried: it is new, it has changed, or it may fit now."""
        self._try(group, group.rank())

    def _try(self, group: WaitingGroup, rank: Rank) -> None:
        if group.untried_rank == rank:
            return
        if group.parked:
            self._unpark(group)
        group.untried_rank = rank
        line = group.line
        line.add(rank, next(self._numbers), group)
        if not line.number or rank < line.rank:
            self._enter(group, rank)

    def _enter(self, group: WaitingGroup, rank: Rank) -> None:
        """Enter a line among the others, with the group that is its first."""
        line = group.line
        if line.namespace in self._paused:
            return
        line.number, line.rank = next(self._numbers), rank
        # The turn changes only when a pod of the line is released, and then it is entered anew.
        turn = self.turns.release_number(line.namespace, group.bill.shared)
        heappush(self._order, (turn, rank, line.number, line))

    def pop(self) -> WaitingGroup | None:
        """The next group to be tried; None if there is none.

        The caller tries it and removes its first pod, or parks it, before the next call.
        """
        popped = self._popped
        if popped is not None:
            self._popped = None
            if popped.line.groups:
                self._go_on(popped.line)
        while self._order:
            _, _, number, line = heappop(self._order)
            if number != line.number:
                continue
            line.number = 0
            if line.namespace in self._paused:
                continue
            group = line.first()
            if group is not None and group.untried_rank == line.rank:
                group.untried_rank = None
                self._popped = group
                return group
            self._go_on(line)
        return None

    def _go_on(self, line: Line) -> None:
        """One of its groups has been tried: find the next one."""
        if line.drawn:
            for place, (group, rank) in list(line.drawn.items()):
                # The group drawn from one place may have been the last one at another.
                if place in line.drawn and group.untried_rank != rank:
                    self._draw(line, place)
        self._enter_first(line)

    def _enter_first(self, line: Line) -> None:
        """Enter a line among the others, unless it is entered or has nothing to be tried."""
        first = None if line.number else line.first()
        if first is not None and first.untried_rank is not None:
            self._enter(first, first.untried_rank)

    # ------------------------------------------------------------------ pauses

    def pause(self, namespace: str) -> None:
        """Have no group of a namespace tried until `resume`, while its accounts are not right."""
        self._paused.add(namespace)

    def resume(self, namespace: str) -> None:
        """Have the groups of a namespace tried again that are to be tried."""
        self._paused.discard(namespace)
        line = self._lines.get(namespace)
        if line is not None:
            self._enter_first(line)

    def drop_paused(self, freed: dict[Account, None]) -> None:
        """Remove the accounts of paused namespaces: after the pause all their groups are tried."""
        if self._paused:
            for account in [each for each in freed if each.quota.namespace in self._paused]:
                del freed[account]

    # ------------------------------------------------------------------ parking

    def park(self, group: WaitingGroup, needs: Iterable[tuple[Account, int]]) -> None:
        """Wait until this much is free in one of these accounts. No account is named twice."""
        self._park(group, tuple(needs))

    def park_behind(self, group: WaitingGroup, quota: QuotaKey) -> None:
        """Wait until the pod ahead no longer holds the quota."""
        self._park(group, ((quota, 0),))

    def _park(self, group: WaitingGroup, needs: Parked) -> None:
        self._unpark(group)
        line, rank = group.line, group.rank()
        for place, nanos in needs:
            index = line.parked.get(place)
            if index is None:
                index = line.parked[place] = NeedIndex()
                self._lines_at.setdefault(place, {})[line] = None
                self._places_of.setdefault(_quota_of(place), {})[place] = None
            index.add(nanos, rank, group)
        group.parked = needs
        group.parked_rank = rank

    def _unpark(self, group: WaitingGroup) -> None:
        line = group.line
        for place, nanos in group.parked:
            index = line.parked[place]
            index.remove(nanos, group.parked_rank)
            if not index:
                del line.parked[place]
                self._vacate(line, place)
        group.parked = NOWHERE

    def _vacate(self, line: Line, place: Place) -> None:
        line.drawn.pop(place, None)
        lines = self._lines_at[place]
        del lines[line]
        if not lines:
            del self._lines_at[place]
            key = _quota_of(place)
            places = self._places_of[key]
            del places[place]
            if not places:
                del self._places_of[key]

    def wake(self, place: Place, namespace: str | None = None) -> None:
        """Try the first groups parked at a place: more is free there, or a hold has ended.

        With a namespace, only groups of this namespace are tried.
        """
        lines = self._lines_at.get(place)
        if lines is None:
            return
        for line in list(lines):
            if namespace in (None, line.namespace):
                self._draw(line, place)

    def _draw(self, line: Line, place: Place) -> None:
        """Try the first group that fits, among the groups of a line that are parked at a place."""
        line.drawn.pop(place, None)
        group = line.parked[place].first(place.free if isinstance(place, Account) else 0)
        if group is None:
            return
        if self._holder_before(_quota_of(place), group, group.parked_rank) is None:
            self.try_again(group)
            if place in line.parked:
                line.drawn[place] = (group, group.parked_rank)

    # ------------------------------------------------------------------ holding

    def hold(self, group: WaitingGroup, quotas: Iterable[QuotaKey]) -> None:
        """Let the group hold these quotas and no others.

        The hold is for its current head. When the head changes, the group is tried again.
        """
        before, wanted = group.held, frozenset(quotas)
        if before == wanted:
            return
        group.held = wanted
        for key in before - wanted:
            self._let_go(key, group)
        rank = group.held_rank
        if not before:
            rank = group.held_rank = group.rank()
        for key in wanted - before:
            holds = self._holds.setdefault(key, {})
            holds.setdefault(group.line.namespace, NeedIndex()).add(0, rank, group)

    def _let_go(self, key: QuotaKey, group: WaitingGroup) -> None:
        namespace = group.line.namespace
        holds = self._holds[key][namespace]
        was_first = holds.first() is group
        holds.remove(0, group.held_rank)
        if not holds:
            self._let_go_all(key, namespace)
        if was_first:
            for place in list(self._places_of.get(key, ())):
                self.wake(place, namespace)

    def _let_go_all(self, key: QuotaKey, namespace: str) -> None:
        del self._holds[key][namespace]
        if not self._holds[key]:
            del self._holds[key]
        turn = self.turns.holding.get(key)
        if turn is not None and turn.namespace == namespace:
            self.end_turn(key)

    def end_turn(self, key: QuotaKey) -> None:
        """Let pods of all namespaces pass the one that holds a cluster-wide quota."""
        self.turns.end(key)
        for place in list(self._places_of.get(key, ())):
            self.wake(place)


def _quota_of(place: Place) -> QuotaKey:
    return place.quota if isinstance(place, Account) else place
