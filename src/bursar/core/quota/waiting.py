"""Who waits, in which order, and who may pass whom.

Pods that are alike wait as one *party*: what does not fit for one of them does not fit
for the others, so only the first is ever tried. A party that does not fit is parked at
the accounts that are short, and looked at again when one of them has room for it.

A party that may not be passed *holds* the quotas that are short for it. Whoever ranks
behind it and needs such a quota waits, even if there would be room.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey

Rank: TypeAlias = tuple[int, int, str, str]
"""Lower goes first: priority (negated), second of creation, namespace, name."""


class Party:
    """Pods that are alike and wait: same bill, same priority."""

    __slots__ = ("_arrivals", "_created_s", "bill", "ignores_priority", "members", "untold")

    def __init__(self, bill: Bill, *, ignores_priority: bool) -> None:
        self.bill = bill
        self.ignores_priority = ignores_priority
        self.members: dict[str, PodRow] = {}
        self.untold: dict[str, None] = {}
        """Members that have not been told yet why they wait."""
        self._created_s: dict[str, int] = {}
        self._arrivals: list[tuple[int, str]] = []
        """By age, then name. It may also list members that have left, or were older once."""

    @property
    def namespace(self) -> str:
        return self.bill.profile.namespace

    def put(self, row: PodRow) -> None:
        name, created_s = row.name, row.stamp.created_s
        if name not in self.members:
            self.untold[name] = None
        self.members[name] = row
        if self._created_s.get(name) != created_s:
            self._created_s[name] = created_s
            heappush(self._arrivals, (created_s, name))

    def take(self, name: str) -> PodRow | None:
        self.untold.pop(name, None)
        self._created_s.pop(name, None)
        return self.members.pop(name, None)

    def head(self) -> PodRow:
        """The member that goes first. There must be one."""
        return self.members[self._first()[1]]

    def rank(self) -> Rank:
        """That of the member that goes first."""
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

    def ordered(self) -> list[PodRow]:
        """All members, first to last."""
        names = sorted(self.members, key=lambda name: (self._created_s[name], name))
        return [self.members[name] for name in names]


class WaitingRoom:
    """All parties, where they are parked, and who holds which quota."""

    def __init__(self) -> None:
        self._parties: dict[str, dict[Bill, Party]] = {}
        self._party_of: dict[PodKey, Party] = {}
        self._parked: dict[Account, dict[Party, int]] = {}
        self._parked_at: dict[Party, tuple[Account, ...]] = {}
        self._holds: dict[QuotaKey, dict[Party, Rank]] = {}
        self._first: dict[QuotaKey, tuple[Rank, Party]] = {}
        """The first of those who hold a quota, as far as it has been looked for."""
        self._held_by: dict[Party, frozenset[QuotaKey]] = {}
        self._behind: dict[QuotaKey, dict[Party, None]] = {}
        self._behind_at: dict[Party, QuotaKey] = {}
        self.restless: Final[dict[Party, None]] = {}
        """Parties to be tried: new, changed, or with new hope."""

    # ------------------------------------------------------------------ asking

    def __len__(self) -> int:
        return len(self._party_of)

    def party_of(self, pod: PodKey) -> Party | None:
        return self._party_of.get(pod)

    def parties(self) -> Iterator[Party]:
        for parties in self._parties.values():
            yield from parties.values()

    def parties_in(self, namespace: str) -> list[Party]:
        return list(self._parties.get(namespace, {}).values())

    def holder_before(self, party: Party, rank: Rank) -> tuple[QuotaKey, Party] | None:
        """Who holds a quota that the party needs, and ranks before it."""
        for key in party.bill.quotas if self._holds else ():
            if key in self._holds:
                held_rank, holder = self._first_hold(key)
                if holder is not party and held_rank < rank:
                    return key, holder
        return None

    def _first_hold(self, key: QuotaKey) -> tuple[Rank, Party]:
        known = self._first.get(key)
        if known is None:
            holds = self._holds[key]
            holder = min(holds, key=lambda each: holds[each])
            known = self._first[key] = (holds[holder], holder)
        return known

    # ------------------------------------------------------------------ coming and going

    def join(self, row: PodRow, bill: Bill, *, ignores_priority: bool) -> None:
        """Let a pod wait, or note that it has changed."""
        pod = PodKey(row.namespace, row.name)
        held = self._party_of.get(pod)
        if held is not None and held.bill is not bill:
            self.leave(pod)
        parties = self._parties.setdefault(row.namespace, {})
        party = parties.get(bill)
        if party is None:
            party = Party(bill, ignores_priority=ignores_priority)
            parties[bill] = party
        before = party.rank() if party.members else None
        party.put(row)
        self._party_of[pod] = party
        if held is not party or party.rank() != before:
            self.restless[party] = None
        if party.rank() != before:
            self.hold(party, ())

    def leave(self, pod: PodKey) -> PodRow | None:
        """The pod waits no longer. Whoever was behind it may have new hope."""
        party = self._party_of.pop(pod, None)
        if party is None:
            return None
        was_head = party.head().name == pod.name
        row = party.take(pod.name)
        if not party.members:
            self._forget(party)
        elif was_head:
            self.restless[party] = None
            self.hold(party, ())
        return row

    def _forget(self, party: Party) -> None:
        parties = self._parties[party.namespace]
        del parties[party.bill]
        if not parties:
            del self._parties[party.namespace]
        self.unpark(party)
        self.hold(party, ())
        self.restless.pop(party, None)

    # ------------------------------------------------------------------ parking

    def park(self, party: Party, needs: Iterable[tuple[Account, int]]) -> None:
        """Wait for room in these accounts, so much in each."""
        self.unpark(party)
        needed = dict(needs)
        for account, nanos in needed.items():
            self._parked.setdefault(account, {})[party] = nanos
        self._parked_at[party] = tuple(needed)

    def park_behind(self, party: Party, quota: QuotaKey) -> None:
        self.unpark(party)
        self._behind.setdefault(quota, {})[party] = None
        self._behind_at[party] = quota

    def unpark(self, party: Party) -> None:
        for account in self._parked_at.pop(party, ()):
            parked = self._parked[account]
            del parked[party]
            if not parked:
                del self._parked[account]
        key = self._behind_at.pop(party, None)
        if key is not None:
            behind = self._behind[key]
            del behind[party]
            if not behind:
                del self._behind[key]

    def wake(self, account: Account) -> None:
        """There is more room: those for whom it is enough are to be tried."""
        parked = self._parked.get(account)
        if parked:
            room = account.room
            for party, nanos in parked.items():
                if nanos <= room:
                    self.restless[party] = None

    # ------------------------------------------------------------------ holding

    def hold(self, party: Party, quotas: Iterable[QuotaKey]) -> None:
        """Keep those behind from passing in these quotas, and in no others any more.

        Others are kept from passing its head. With another head it has to be tried anew.
        """
        before = self._held_by.pop(party, frozenset())
        wanted = frozenset(quotas)
        rank = party.rank() if wanted else None
        for key in before | wanted:
            self._first.pop(key, None)
        for key in before - wanted:
            del self._holds[key][party]
            if not self._holds[key]:
                del self._holds[key]
            self._wake_behind(key)
        if rank is None:
            return
        for key in wanted:
            self._holds.setdefault(key, {})[party] = rank
        self._held_by[party] = wanted

    def _wake_behind(self, key: QuotaKey) -> None:
        for party in self._behind.get(key, ()):
            self.restless[party] = None
