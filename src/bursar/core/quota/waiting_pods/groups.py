"""Groups of waiting pods that are alike, and lines of groups that stand in one order.

Pods that are alike wait as one *group*: if one of them does not fit, none does, so only the
first of a group is ever tried. The groups of one namespace stand in one *line*.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.waiting_pods.need_index import NeedIndex, Rank
from bursar.core.quota.waiting_pods.timers import STALE_MAX

if TYPE_CHECKING:
    from bursar.core.quota.refusal import Reason

Place: TypeAlias = Account | QuotaKey
"""Where a group is parked: at an account that is short, or behind a pod that holds a quota."""
Parked: TypeAlias = tuple[tuple[Place, int], ...]
"""Places, and how much is needed there. A table would take twice the memory."""


class Member(NamedTuple):
    """A pod of a group."""

    age_s: int
    """The second from which its age counts."""
    row: PodRow


class WaitingGroup:
    """Waiting pods with the same bill and the same priority."""

    __slots__ = (
        "_arrivals",
        "bill",
        "held",
        "held_rank",
        "ignores_priority",
        "line",
        "members",
        "parked",
        "parked_rank",
        "reason",
        "unreported",
        "untried_rank",
    )

    def __init__(self, bill: Bill, line: "Line", *, ignores_priority: bool) -> None:
        self.bill: Final = bill
        self.line: Final = line
        self.ignores_priority: Final = ignores_priority
        self.members: Final[dict[str, Member]] = {}
        """By name."""
        self.unreported: Final[dict[str, None]] = {}
        """Names of members for which no `Wait` has been returned yet."""
        self.reason: Reason | None = None
        """Why it waited when it was last tried; None if it has not been tried."""
        self.untried_rank: Rank | None = None
        """Its rank if it is to be tried; None otherwise."""
        self.parked: Parked = NOWHERE
        """Where it is parked, and how much it needs there."""
        self.parked_rank: Rank = NO_RANK
        self.held: frozenset[QuotaKey] = NOTHING_HELD
        """The quotas that it holds."""
        self.held_rank: Rank = NO_RANK
        self._arrivals: list[tuple[int, str]] = []
        """A heap by age, then name. It may hold stale entries of members that left or changed."""

    @property
    def namespace(self) -> str:
        return self.bill.profile.namespace

    def put(self, row: PodRow, age_s: int) -> None:
        """Add or update a member. `age_s` is the second from which its age counts."""
        name = row.name
        before = self.members.get(name)
        self.members[name] = Member(age_s, row)
        if before is None:
            self.unreported[name] = None
        if before is None or before.age_s != age_s:
            heappush(self._arrivals, (age_s, name))

    def take(self, name: str) -> PodRow:
        """Remove a member."""
        row = self.members.pop(name).row
        self.unreported.pop(name, None)
        if len(self._arrivals) > 2 * len(self.members) + STALE_MAX:
            self._arrivals = [(member.age_s, each) for each, member in self.members.items()]
            heapify(self._arrivals)
        return row

    def head(self) -> PodRow:
        """The member that goes first. The group must not be empty."""
        return self.members[self._first()[1]].row

    def rank(self) -> Rank:
        """The rank of the member that goes first."""
        profile = self.bill.profile
        priority = 0 if self.ignores_priority else profile.priority or 0
        age_s, name = self._first()
        return (-priority, age_s, profile.namespace, name)

    def _first(self) -> tuple[int, str]:
        while True:
            first = age_s, name = self._arrivals[0]
            member = self.members.get(name)
            if member is not None and member.age_s == age_s:
                return first
            heappop(self._arrivals)


NO_RANK: Final[Rank] = (0, 0, "", "")
NOTHING_HELD: Final[frozenset[QuotaKey]] = frozenset()
NOWHERE: Final[Parked] = ()


class Line:
    """The groups of one namespace."""

    __slots__ = ("_untried", "drawn", "groups", "namespace", "number", "parked", "pods", "rank")

    def __init__(self, namespace: str) -> None:
        self.namespace: Final = namespace
        self.groups: Final[dict[Bill, WaitingGroup]] = {}
        self.pods: Final[dict[str, WaitingGroup]] = {}
        """The group of each waiting pod, by name."""
        self.parked: Final[dict[Place, NeedIndex[WaitingGroup]]] = {}
        self.drawn: Final[dict[Place, tuple[WaitingGroup, Rank]]] = {}
        """By place: the last group that was taken from it to be tried, and the group's rank.

        Further groups of the place may fit as well.
        """
        self.number = 0
        """The number of this line's valid entry in the queue; 0 if it has none."""
        self.rank: Rank = NO_RANK
        """The rank of this line's entry in the queue."""
        self._untried: list[tuple[Rank, int, WaitingGroup]] = []
        """A heap. It may hold stale entries of groups that were tried, or are gone."""

    def add(self, rank: Rank, number: int, group: WaitingGroup) -> None:
        """Add a group that is to be tried. The caller passes a greater number each time."""
        heappush(self._untried, (rank, number, group))
        if len(self._untried) > 2 * len(self.groups) + STALE_MAX:
            # No two groups have a rank in common, so one number does for all.
            groups = self.groups.values()
            self._untried = [
                (each.untried_rank, number, each) for each in groups if each.untried_rank
            ]
            heapify(self._untried)

    def first(self) -> WaitingGroup | None:
        """The group to be tried first."""
        while self._untried:
            rank, _, group = self._untried[0]
            if group.untried_rank == rank:
                return group
            heappop(self._untried)
        return None

    def clear(self) -> None:
        """Forget all stale entries and free the tables. Call it only when no group is left."""
        self._untried.clear()
        self.groups.clear()
        self.pods.clear()
