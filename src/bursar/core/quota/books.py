"""The books: one door for everything that happens, and the only place that decides.

What happened goes in as plain calls: a pod, quota or namespace was seen or is gone, time
has passed, a gate was lifted or could not be. What to do comes out of `decide`: which
gates to lift, each with its room reserved already, and which pods to tell why they wait.
There is no clock, cluster or task in here, so that a test can try every order of events.

A gate that is being lifted is a *flight*. Its reservation is kept until the watch shows
what became of the pod, because an answer that is lost, late or doubled must not free
room that the pod may already use.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from typing import Final, NamedTuple, assert_never

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Account, Bill, Charge
from bursar.core.quota.counting import Counter, NotReady
from bursar.core.quota.coverage import Coverage, CoveredQuota, Namespace
from bursar.core.quota.ledger import Ledger, PodKey, Reservation
from bursar.core.quota.quota import GATE, Order, Quota, QuotaKey
from bursar.core.quota.refusal import Reason, Refusal
from bursar.core.quota.usage import is_counted
from bursar.core.quota.waiting import Party, Rank, WaitingRoom

PATIENCE_SECONDS: Final = 600
"""After this long a pod that does not fit may no longer be passed by smaller ones."""
REST_SECONDS: Final = 2
REST_SECONDS_MAX: Final = 300
"""How long a pod rests whose gate could not be lifted: doubling from the first to the second."""


AGAIN_SECONDS: Final = 30
"""When a lift is tried again whose outcome the watch has still not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Lift the gate of this very pod, in this very state."""

    row: PodRow
    is_free: bool = False
    """No quota is asked: its namespace is not one where pods are held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Tell a pod why it waits."""

    row: PodRow
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    releases: list[Release]
    waits: list[Wait]


class _Flight:
    """A gate on its way to being lifted."""

    __slots__ = ("id", "is_answered", "is_free", "row", "seen", "uid")

    def __init__(self, row: PodRow, *, is_free: bool) -> None:
        self.row: Final = row
        self.is_free: Final = is_free
        self.uid: Final = row.stamp.uid
        self.id: Final = f"release/{self.uid}"
        """Of its reservation."""
        self.seen = row
        """The latest state of the pod; another than `row` means that the lift must fail."""
        self.is_answered = False
        """The API server has said that the pod was not in the state we thought."""


class _Rest(NamedTuple):
    until_s: int
    seconds: int
    detail: str


class _Aside(NamedTuple):
    """A pod that would wait, if something else did not come first."""

    row: PodRow
    refusal: Refusal


class Answer(Enum):
    """What became of a try to lift a gate."""

    LIFTED = "lifted"
    CHANGED = "changed"
    """The pod is not in the state we thought, or we cannot tell: the watch will show."""
    GONE = "gone"
    REFUSED = "refused"

    @property
    def is_success(self) -> bool:
        return self is Answer.LIFTED


class Books:
    """One set of books. To be used by one task."""

    def __init__(self, counter: Counter, *, patience_s: int = PATIENCE_SECONDS) -> None:
        self._counter = counter
        self._patience_s = patience_s
        self._now_s = 0
        self._resting: dict[PodKey, _Rest] = {}
        self._flights: dict[PodKey, _Flight] = {}
        self._asides: dict[str, dict[str, _Aside]] = {}
        self._fading: dict[PodKey, int] = {}
        self._alarms: list[tuple[int, str, str]] = []
        self._alarm_of: dict[PodKey, int] = {}
        self._again: list[Release] = []
        self._news: list[Wait] = []
        self.ledger: Final = Ledger()
        self.coverage: Final = Coverage()
        self.room: Final = WaitingRoom()

    @property
    def flight_count(self) -> int:
        """Gates on their way to being lifted."""
        return len(self._flights)

    def asides(self) -> Iterator[Wait]:
        """Pods that wait for something else than room in a quota."""
        for asides in self._asides.values():
            for row, refusal in asides.values():
                yield Wait(row=row, refusals=(refusal,))

    # ------------------------------------------------------------------ pods

    def see_pod(self, row: PodRow) -> None:
        """A pod is new or has changed."""
        pod = PodKey(row.namespace, row.name)
        if row.profile.gates:
            self._see_gated(pod, row)
        else:
            self._see_running(pod, row)

    def _see_gated(self, pod: PodKey, row: PodRow) -> None:
        self.ledger.discharge(pod)
        flight = self._flights.get(pod)
        if flight is not None and flight.uid == row.stamp.uid:
            flight.seen = row
            if not flight.is_answered or row.stamp == flight.row.stamp:
                return
        self._end_flight(pod)
        self._line_up(pod, row)

    def _line_up(self, pod: PodKey, row: PodRow) -> None:
        """Let a pod wait for room, unless something else comes first."""
        if row.profile.gates != (GATE,) or row.is_terminated or row.deletion is not None:
            self._step_out(pod)
            return
        counted = self._counter(row)
        refusal = self._impediment(pod, counted)
        if refusal is not None:
            self._put_aside(pod, row, refusal)
            return
        self._take_back(pod)
        bill = self.coverage.bill(row.profile, _charge(counted))
        self.room.join(row, bill, ignores_priority=self._ignores_priority(bill))

    def _impediment(self, pod: PodKey, counted: Charge | NotReady) -> Refusal | None:
        namespace = self.coverage.namespace(pod.namespace)
        if namespace is None:
            return Refusal(reason=Reason.NAMESPACE_UNKNOWN)
        rest = self._resting.get(pod)
        if rest is not None and rest.until_s > self._now_s:
            self._set_alarm(rest.until_s, pod)
            return Refusal(reason=Reason.RELEASE_REFUSED, detail=rest.detail)
        if isinstance(counted, NotReady) and namespace.is_targeted:
            return Refusal(reason=Reason.NOT_COUNTED, detail=counted.detail)
        return None

    def _put_aside(self, pod: PodKey, row: PodRow, refusal: Refusal) -> None:
        self.room.leave(pod)
        before = self._take_back(pod)
        self._asides.setdefault(pod.namespace, {})[pod.name] = _Aside(row, refusal)
        if before is None or before.refusal != refusal:
            self._news.append(Wait(row=row, refusals=(refusal,)))

    def _take_back(self, pod: PodKey) -> _Aside | None:
        asides = self._asides.get(pod.namespace)
        if asides is None:
            return None
        aside = asides.pop(pod.name, None)
        if not asides:
            del self._asides[pod.namespace]
        return aside

    def _ignores_priority(self, bill: Bill) -> bool:
        return any(self._order(key) is Order.FIFO for key in bill.quotas)

    def _order(self, key: QuotaKey) -> Order:
        covered = self.coverage.quota(key)
        return Order.BACKFILL if covered is None else covered.quota.order

    def _step_out(self, pod: PodKey) -> None:
        self.room.leave(pod)
        self._take_back(pod)

    def _see_running(self, pod: PodKey, row: PodRow) -> None:
        self._step_out(pod)
        self._resting.pop(pod, None)
        if row.deletion is not None and row.deletion.grace_s is not None:
            self._fading[pod] = row.deletion.due_s + row.deletion.grace_s
            self._set_alarm(self._fading[pod] + 1, pod)
        else:
            self._fading.pop(pod, None)
        # The promise becomes a fact. Room that shows in between is given to nobody.
        self._end_flight(pod)
        if is_counted(row, self._now_s):
            self.ledger.charge(pod, self._running_bill(row))
        else:
            self.ledger.discharge(pod)

    def _running_bill(self, row: PodRow) -> Bill:
        return self.coverage.bill(row.profile, _charge(self._counter(row)))

    def lose_pod(self, namespace: str, name: str, uid: str = "") -> None:
        """A pod is gone. Another of the same name, known by its uid, keeps what it was promised."""
        pod = PodKey(namespace, name)
        self._step_out(pod)
        self._resting.pop(pod, None)
        self._fading.pop(pod, None)
        self.ledger.discharge(pod)
        self._end_flight(pod)
        for reservation in self.ledger.reservations_of(pod):
            if uid in ("", reservation.uid):
                self.ledger.cancel(reservation.id)

    # ------------------------------------------------------------------ quotas and namespaces

    def see_quota(self, quota: Quota) -> None:
        """A quota is new or has changed."""
        known = self.coverage.quota(quota.key)
        if known is not None and known.quota == quota:
            return
        for name in self.coverage.put_quota(quota):
            self._bill_anew(name)
        self.ledger.touched.add(quota.key)
        covered = self.coverage.quota(quota.key)
        assert covered is not None, "it was just put there"
        # There may be room now; and whoever could never fit may hold others up, or no longer.
        for name in covered.namespaces:
            self._reconsider(name)

    def lose_quota(self, key: QuotaKey) -> None:
        for name in self.coverage.drop_quota(key):
            self._bill_anew(name)

    def see_namespace(self, namespace: Namespace) -> None:
        before = self.coverage.namespace(namespace.name)
        covering = self.coverage.covering(namespace.name)
        if self.coverage.put_namespace(namespace):
            self._bill_anew(namespace.name, covering)
        if before is None or before.is_targeted != namespace.is_targeted:
            self._reconsider_pods(namespace.name)

    def lose_namespace(self, name: str) -> None:
        covering = self.coverage.covering(name)
        if self.coverage.drop_namespace(name):
            self._bill_anew(name, covering)
        # What is not known is not let go, be it on its way out.
        self._reconsider_pods(name)

    def _reconsider_pods(self, namespace: str) -> None:
        for name in list(self._asides.get(namespace, {})):
            self.reconsider_pod(namespace, name)
        for party in self.room.parties_in(namespace):
            for name in list(party.members):
                self.reconsider_pod(namespace, name)

    def _bill_anew(self, namespace: str, left: tuple[CoveredQuota, ...] = ()) -> None:
        coverage = self.coverage
        self.ledger.rebill(namespace, lambda bill: coverage.bill(bill.profile, bill.charge))
        for party in self.room.parties_in(namespace):
            for row in list(party.members.values()):
                pod = PodKey(namespace, row.name)
                self.room.leave(pod)
                self._line_up(pod, row)
        for covered in (*left, *coverage.covering(namespace)):
            self.ledger.touched.add(covered.quota.key)

    def _reconsider(self, namespace: str) -> None:
        for party in self.room.parties_in(namespace):
            self.room.restless[party] = None

    # ------------------------------------------------------------------ time

    def advance(self, now_s: int) -> None:
        """Time has passed. It never goes back."""
        self._now_s = max(now_s, self._now_s)
        self.ledger.expire(self._now_s)
        while self._alarms and self._alarms[0][0] <= self._now_s:
            due_s, namespace, name = heappop(self._alarms)
            pod = PodKey(namespace, name)
            if self._alarm_of.get(pod) == due_s:
                del self._alarm_of[pod]
                self._ring(pod)

    def _ring(self, pod: PodKey) -> None:
        fades_s = self._fading.get(pod)
        if fades_s is not None:
            if fades_s < self._now_s:
                del self._fading[pod]
                self.ledger.discharge(pod)
            else:
                self._set_alarm(fades_s + 1, pod)
        self.reconsider_pod(pod.namespace, pod.name)
        flight = self._flights.get(pod)
        if flight is not None and flight.is_answered:
            # Fenced, so harmless; the room stays reserved, because the pod may have it already.
            self._again.append(Release(row=flight.row, is_free=flight.is_free))
            self._set_alarm(self._now_s + AGAIN_SECONDS, pod)

    def reconsider_pod(self, namespace: str, name: str) -> None:
        """Something outside these books has changed for a pod, such as what it costs."""
        pod = PodKey(namespace, name)
        aside = self._asides.get(namespace, {}).get(name)
        party = self.room.party_of(pod)
        if aside is not None:
            self._line_up(pod, aside.row)
        elif party is not None:
            self.room.restless[party] = None
            self._line_up(pod, party.members[name])

    def _set_alarm(self, due_s: int, pod: PodKey) -> None:
        """One alarm is enough for a pod: when it rings, the next can be set."""
        if self._alarm_of.get(pod, due_s + 1) > due_s:
            self._alarm_of[pod] = due_s
            heappush(self._alarms, (due_s, *pod))

    @property
    def next_due_s(self) -> int | None:
        """When `advance` will have something to do, if nothing happens before."""
        dues = [self.ledger.next_deadline_s, self._alarms[0][0] if self._alarms else None]
        return min((due for due in dues if due is not None), default=None)

    # ------------------------------------------------------------------ promises to others

    def reserve(
        self, id: str, pod: PodKey, bill: Bill, *, uid: str = "", deadline_s: int
    ) -> tuple[Refusal, ...]:
        """Promise a pod what it is about to use, in all. Empty refusals mean yes."""
        return self.ledger.reserve(
            Reservation(id=id, bill=bill, pod=pod, uid=uid, deadline_s=deadline_s)
        )

    def resize(
        self, id: str, row: PodRow, *, deadline_s: int, is_dry_run: bool = False
    ) -> tuple[Refusal, ...]:
        """Promise a pod that runs what it will use after a resize. Empty refusals mean yes.

        A pod that is still gated is not charged, so that it may become what it likes: it
        is judged by what it is when its turn comes.
        """
        pod = PodKey(row.namespace, row.name)
        if row.profile.gates or not is_counted(row, self._now_s):
            return ()
        refusals = self.reserve(
            id, pod, self._running_bill(row), uid=row.stamp.uid, deadline_s=deadline_s
        )
        if is_dry_run and not refusals:
            self.ledger.cancel(id)
        return refusals

    # ------------------------------------------------------------------ deciding

    def decide(self) -> Decisions:
        """Give away the room there is, in order. Each pod is decided upon once per change."""
        decisions = Decisions(releases=self._again, waits=self._news)
        self._again, self._news = [], []
        heap: list[tuple[Rank, int, Party]] = []
        pushes = 0
        while True:
            self._wake_freed()
            while self.room.restless:
                party, _ = self.room.restless.popitem()
                pushes += 1
                heappush(heap, (party.rank(), pushes, party))
            if not heap:
                return decisions
            rank, _, party = heappop(heap)
            if party.members and party.rank() == rank:
                self._try(party, rank, decisions)

    def _wake_freed(self) -> None:
        freed = self.ledger.freed
        while freed:
            account, _ = freed.popitem()
            self.room.wake(account)

    def _try(self, party: Party, rank: Rank, decisions: Decisions) -> None:
        """Let the first of a party go, or park the party."""
        row = party.head()
        namespace = self.coverage.namespace(row.namespace)
        if namespace is not None and not namespace.is_targeted:
            self._take_off(party, row, decisions, is_free=True)
            return
        short = party.bill.short_items()
        if short:
            self.room.park(party, ((item.account, item.nanos) for item in short))
            self._hold(party, row, [item.account for item in short])
            self._tell(party, party.bill.refusals(), decisions)
            return
        ahead = self.room.holder_before(party, rank)
        if ahead is not None:
            key, holder = ahead
            self.room.hold(party, ())
            self.room.park_behind(party, key)
            behind = f"{holder.namespace}/{holder.head().name}"
            refusal = Refusal(reason=Reason.BEHIND_ANOTHER, quota=key, detail=behind)
            self._tell(party, (refusal,), decisions)
            return
        self._take_off(party, row, decisions)

    def _take_off(
        self, party: Party, row: PodRow, decisions: Decisions, *, is_free: bool = False
    ) -> None:
        pod = PodKey(row.namespace, row.name)
        flight = self._flights[pod] = _Flight(row, is_free=is_free)
        if not is_free:
            refused = self.ledger.reserve(
                Reservation(id=flight.id, bill=party.bill, pod=pod, uid=flight.uid)
            )
            assert not refused, "there was room a moment ago"
        self.room.leave(pod)
        decisions.releases.append(Release(row=row, is_free=is_free))

    def _hold(self, party: Party, row: PodRow, short: list[Account]) -> None:
        """Keep others from passing: at once where nobody passes, else when patience ends."""
        items = {item.account: item.nanos for item in party.bill.items}
        if any(items[account] > account.hard for account in short):
            # It can never fit, and so must not stand in the way of those who can.
            self.room.hold(party, ())
            return
        patient_until_s = row.stamp.created_s + self._patience_s
        is_patient = patient_until_s > self._now_s
        quotas = {account.quota for account in short}
        if is_patient:
            quotas = {key for key in quotas if self._order(key) is not Order.BACKFILL}
            self._set_alarm(patient_until_s, PodKey(row.namespace, row.name))
        self.room.hold(party, quotas)

    def _tell(self, party: Party, refusals: tuple[Refusal, ...], decisions: Decisions) -> None:
        while party.untold:
            name, _ = party.untold.popitem()
            decisions.waits.append(Wait(row=party.members[name], refusals=refusals))

    # ------------------------------------------------------------------ answers

    def settle(self, row: PodRow, answer: Answer, detail: str = "") -> None:
        """Take the answer to a release. One that is no longer awaited changes nothing."""
        pod = PodKey(row.namespace, row.name)
        flight = self._flights.get(pod)
        if flight is None or flight.row is not row:
            return
        match answer:
            case Answer.LIFTED:
                return
            case Answer.GONE:
                self._end_flight(pod)
            case Answer.CHANGED:
                flight.is_answered = True
                self._set_alarm(self._now_s + AGAIN_SECONDS, pod)
                if flight.seen.stamp != row.stamp:
                    self._end_flight(pod)
                    self._line_up(pod, flight.seen)
            case Answer.REFUSED if flight.is_answered:
                return  # This try was refused; an earlier one may have come through.
            case Answer.REFUSED:
                self._rest(pod, detail)
                self._end_flight(pod)
                self._line_up(pod, flight.seen)
            case _:
                assert_never(answer)

    def _rest(self, pod: PodKey, detail: str) -> None:
        before = self._resting.get(pod)
        seconds = REST_SECONDS if before is None else min(before.seconds * 2, REST_SECONDS_MAX)
        self._resting[pod] = _Rest(self._now_s + seconds, seconds, detail)

    def _end_flight(self, pod: PodKey) -> None:
        flight = self._flights.pop(pod, None)
        if flight is not None:
            self.ledger.cancel(flight.id)


def _charge(counted: Charge | NotReady) -> Charge:
    return counted.provisional if isinstance(counted, NotReady) else counted
