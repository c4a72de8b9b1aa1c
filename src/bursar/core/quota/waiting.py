"""The waiting pods: their order, and which pods may pass which.

Pods that are alike wait as one *group*: if one of them does not fit, none does, so only the
first of a group is ever tried. A group that does not fit is parked at the accounts that are
short, and tried again when enough is free in one of them.

A group that may not be passed *holds* the quotas that are short for it. A pod that ranks
behind it and needs such a quota waits even if it would fit.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey

Rank: TypeAlias = tuple[int, int, str, str]
"""Priority (negated), second of creation, namespace, name. The lowest rank goes first."""


class WaitingGroup:
    """Waiting pods with the same bill and the same priority."""

    __slots__ = ("_arrivals", "_created_s", "bill", "ignores_priority", "members", "unreported")

    def __init__(self, bill: Bill, *, ignores_priority: bool) -> None:
        self.bill = bill
        self.ignores_priority = ignores_priority
        self.members: dict[str, PodRow] = {}
        self.unreported: dict[str, None] = {}
        """Names of members for which no `Wait` has been returned yet."""
        self._created_s: dict[str, int] = {}
        self._arrivals: list[tuple[int, str]] = []
        """A heap by age, then name. It may hold stale entries of members that left or changed."""

    @property
    def namespace(self) -> str:
        return self.bill.profile.namespace

    def put(self, row: PodRow) -> None:
        name, created_s = row.name, row.stamp.created_s
        if name not in self.members:
            self.unreported[name] = None
        self.members[name] = row
        if self._created_s.get(name) != created_s:
            self._created_s[name] = created_s
            heappush(self._arrivals, (created_s, name))

    def take(self, name: str) -> PodRow | None:
        self.unreported.pop(name, None)
        self._created_s.pop(name, None)
        return self.members.pop(name, None)

    def head(self) -> PodRow:
        """The member that goes first. The group must not be empty."""
        return self.members[self._first()[1]]

    def rank(self) -> Rank:
        """The rank of the member that goes first."""
        profile = self.bill.profile
        priority = 0 if self.ignores_priority else profile.priority or 0
        created_s, name = self._first()
        return (-priority, created_s, profile.namespace, name)

    def _first(self) -> tuple[int, str]:
        while True:
            first = created_s, name = self._arrivals[0]
            if self._created_s.get(name) == created_s:
                return first
            heappop(self._arrivals)


class WaitingQueue:
    """All groups, where they are parked, and which of them hold which quotas."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Bill, WaitingGroup]] = {}
        self._group_of: dict[PodKey, WaitingGroup] = {}
        self._parked: dict[Account, dict[WaitingGroup, int]] = {}
        self._parked_at: dict[WaitingGroup, tuple[Account, ...]] = {}
        self._holds: dict[QuotaKey, dict[WaitingGroup, Rank]] = {}
        self._first: dict[QuotaKey, tuple[Rank, WaitingGroup]] = {}
        """Cache of the first group that holds a quota."""
        self._held_by: dict[WaitingGroup, frozenset[QuotaKey]] = {}
        self._behind: dict[QuotaKey, dict[WaitingGroup, None]] = {}
        self._behind_at: dict[WaitingGroup, QuotaKey] = {}
        self.untried: Final[dict[WaitingGroup, None]] = {}
        """Groups to be tried: new, changed, or possibly fitting now."""

    # ------------------------------------------------------------------ queries

    def __len__(self) -> int:
        return len(self._group_of)

    def group_of(self, pod: PodKey) -> WaitingGroup | None:
        return self._group_of.get(pod)

    def groups(self) -> Iterator[WaitingGroup]:
        for groups in self._groups.values():
            yield from groups.values()

    def groups_in(self, namespace: str) -> list[WaitingGroup]:
        return list(self._groups.get(namespace, {}).values())

    def holder_before(
        self, group: WaitingGroup, rank: Rank
    ) -> tuple[QuotaKey, WaitingGroup] | None:
        """A quota that the group needs and the group ranking before it that holds this quota."""
        for key in group.bill.quotas if self._holds else ():
            if key in self._holds:
                held_rank, holder = self._first_hold(key)
                if holder is not group and held_rank < rank:
                    return key, holder
        return None

    def _first_hold(self, key: QuotaKey) -> tuple[Rank, WaitingGroup]:
        known = self._first.get(key)
        if known is None:
            holds = self._holds[key]
            holder = min(holds, key=lambda each: holds[each])
            known = self._first[key] = (holds[holder], holder)
        return known

    # ------------------------------------------------------------------ joining and leaving

    def join(self, row: PodRow, bill: Bill, *, ignores_priority: bool) -> None:
        """Add a pod to its group, or update it there."""
        pod = PodKey(row.namespace, row.name)
        held = self._group_of.get(pod)
        if held is not None and held.bill is not bill:
            self.leave(pod)
        groups = self._groups.setdefault(row.namespace, {})
        group = groups.get(bill)
        if group is None:
            group = WaitingGroup(bill, ignores_priority=ignores_priority)
            groups[bill] = group
        before = group.rank() if group.members else None
        group.put(row)
        self._group_of[pod] = group
        if held is not group or group.rank() != before:
            self.untried[group] = None
        if group.rank() != before:
            self.hold(group, ())

    def leave(self, pod: PodKey) -> PodRow | None:
        """Remove a pod from the queue. Groups that it held up are tried again."""
        group = self._group_of.pop(pod, None)
        if group is None:
            return None
        was_head = group.head().name == pod.name
        row = group.take(pod.name)
        if not group.members:
            self._forget(group)
        elif was_head:
            self.untried[group] = None
            self.hold(group, ())
        return row

    def _forget(self, group: WaitingGroup) -> None:
        groups = self._groups[group.namespace]
        del groups[group.bill]
        if not groups:
            del self._groups[group.namespace]
        self.unpark(group)
        self.hold(group, ())
        self.untried.pop(group, None)

    # ------------------------------------------------------------------ parking

    def park(self, group: WaitingGroup, needs: Iterable[tuple[Account, int]]) -> None:
        """Wait until this much is free in one of these accounts."""
        self.unpark(group)
        needed = dict(needs)
        for account, nanos in needed.items():
            self._parked.setdefault(account, {})[group] = nanos
        self._parked_at[group] = tuple(needed)

    def park_behind(self, group: WaitingGroup, quota: QuotaKey) -> None:
        self.unpark(group)
        self._behind.setdefault(quota, {})[group] = None
        self._behind_at[group] = quota

    def unpark(self, group: WaitingGroup) -> None:
        for account in self._parked_at.pop(group, ()):
            parked = self._parked[account]
            del parked[group]
            if not parked:
                del self._parked[account]
        key = self._behind_at.pop(group, None)
        if key is not None:
            behind = self._behind[key]
            del behind[group]
            if not behind:
                del self._behind[key]

    def wake(self, account: Account) -> None:
        """More is free in an account: try the groups for which it is enough."""
        parked = self._parked.get(account)
        if parked:
            free = account.free
            for group, nanos in parked.items():
                if nanos <= free:
                    self.untried[group] = None

    # ------------------------------------------------------------------ holding

    def hold(self, group: WaitingGroup, quotas: Iterable[QuotaKey]) -> None:
        """Let the group hold these quotas and no others.

        The hold is for its current head. When the head changes, the group is tried again.
        """
        before = self._held_by.pop(group, frozenset())
        wanted = frozenset(quotas)
        rank = group.rank() if wanted else None
        for key in before | wanted:
            self._first.pop(key, None)
        for key in before - wanted:
            del self._holds[key][group]
            if not self._holds[key]:
                del self._holds[key]
            self._wake_behind(key)
        if rank is None:
            return
        for key in wanted:
            self._holds.setdefault(key, {})[group] = rank
        self._held_by[group] = wanted

    def _wake_behind(self, key: QuotaKey) -> None:
        for group in self._behind.get(key, ()):
            self.untried[group] = None
