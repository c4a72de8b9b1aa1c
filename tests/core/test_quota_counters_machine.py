"""The books with counters that change their mind, go away and come back.

Three ways of counting add up: a table that may be down, groups of which the first pod pays for
all, and Kubernetes' own for the other pods. A naive model counts beside the books.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bursar.core.counting.counter import Counted, Pending
from bursar.core.counting.counters import Counters
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import Books
from bursar.core.quota.growth.promises import POD_PROMISES_MAX, UNKNOWN_POD, version_of
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import BACKOFF_SECONDS_MAX, RETRY_SECONDS, ReleaseOutcome
from bursar.wire.quota.resize_promises import decode_promises, encode_promises
from support.builders.pods import parsed
from support.builders.quota_books import (
    GATED,
    NOW_S,
    UNGATED,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    changed,
    running,
    with_facts,
)
from support.counting.table_counter import TableCounter
from support.quota.naive_books import (
    CPU,
    INSTANCES,
    LIMITED,
    NOTHING,
    Amounts,
    Flight,
    Model,
    Promise,
    amounts_of,
)

NEVER_S = 10**9
BOUND_S = RETRY_SECONDS
"""How long the API server may take to store a resize."""
NAMES = ("first", "second", "third", "g-1", "g-2", "g-3")
"""Those that begin with `g-` are a group."""
PRICE = 2
"""What the first pod of the group pays, in CPUs."""


class FallibleTable(TableCounter):
    """A table of answers. While it is down, it cannot tell what is in the table."""

    is_down = False

    def count(self, row: PodRow) -> Counted | Pending | None:
        answer = super().count(row)
        return Pending("the table is down") if self.is_down and answer is not None else answer


class GroupCounter:
    """The first pod of the group pays, by name; the others are free while it lives."""

    name = "groups"

    def __init__(self) -> None:
        self.members: dict[str, PodRow] = {}

    def derive_facts(self, body: bytes) -> None: ...

    def see_pod(self, row: PodRow) -> list[PodRow]:
        if not row.name.startswith("g-"):
            return []
        self.members.pop(row.name, None)
        others = list(self.members.values())
        if not row.is_terminated:
            self.members[row.name] = row
        return others

    def lose_pod(self, pod: PodKey) -> list[PodRow]:
        is_member = self.members.pop(pod.name, None) is not None
        return list(self.members.values()) if is_member else []

    def count(self, row: PodRow) -> Counted | None:
        if not row.name.startswith("g-"):
            return None
        is_payer = row.name == min(self.members, default=row.name)
        return Counted(parsed(f"{CPU}={PRICE}" if is_payer else ""), "the group")

    def may_charge(self, resource: str) -> bool:
        return resource == CPU


class ChangingMinds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.groups = FallibleTable("table"), GroupCounter()
        self.model = Model()
        self.now_s, self.ids = NOW_S, 0
        self.wall_step_s = 0
        """How far the wall clock is from what it should be."""
        self.open()

    def open(self) -> None:
        """The books of a new leader."""
        self.groups.members.clear()
        counters = Counters((self.table, self.groups))
        self.books = Books(counters.count, related=counters, patience_s=NEVER_S)
        self.advance()
        self.books.see_namespace(a_namespace("a"))

    def advance(self) -> None:
        self.books.advance(self.now_s + self.wall_step_s, self.now_s)

    @initialize(order=st.sampled_from(("backfill", "strict")))
    def open_books(self, order: str) -> None:
        for quota in LIMITED:
            self.limit(quota, order, 4, 2)

    # .............................................................. counting

    def counted(self, row: PodRow, *, is_sum: bool = False) -> Amounts | None:
        """What the pod costs; None while it cannot be told. `is_sum`: as far as it can."""
        answer = self.table.table.get(row.name)
        is_pending = isinstance(answer, Pending) or (answer is not None and self.table.is_down)
        if is_pending and not is_sum:
            return None
        parts = [] if is_pending or answer is None else [amounts_of(answer)]
        if row.name.startswith("g-"):
            alive = [name for name, each in self.model.pods.items() if not each.is_terminated]
            is_payer = row.name == min(name for name in alive if name.startswith("g-"))
            parts.append({CPU: PRICE if is_payer else 0, INSTANCES: 0})
        native = {CPU: int(str(row.demand.quota_requests["cpu"])), INSTANCES: 0}
        if not parts and not is_pending:
            return native
        total = {name: sum(part[name] for part in parts) for name in NOTHING}
        if is_pending:
            return {name: max(total[name], native[name]) for name in NOTHING}
        return total

    def recount(self, names: set[str]) -> None:
        """A counter's feed tells the books which pods to count again."""
        for name in sorted(names & self.model.pods.keys()):
            self.books.recount_pod(self.model.pods[name])

    def count_anew(self) -> None:
        """What the naive model holds after anything has changed."""
        model = self.model
        for name, row in model.pods.items():
            if not row.profile.gates and not row.is_terminated:
                provisional = self.counted(row, is_sum=True)
                model.charged[name] = self.counted(row) or model.charged.get(name) or provisional
            for promise in model.promises.get(name, ()):
                if promise.row is not None:
                    promise.held = self.counted(promise.row) or promise.held
            if name in model.flights:
                flight = model.flights[name]
                flight.held = self.counted(flight.row) or flight.held

    # .............................................................. pods

    def see(self, row: PodRow) -> None:
        model = self.model
        model.pods[row.name] = row
        if not row.profile.gates:
            flight = model.flights.pop(row.name, None)
            if flight is not None:
                model.charged[row.name] = flight.held
            model.refused.discard(row.name)
            for promise in reversed(model.promises.get(row.name, ())):
                if promise.is_for(row):
                    model.charged[row.name] = promise.held
        if row.is_terminated:
            model.charged.pop(row.name, None)
        version = version_of(row)
        model.keep_promises(
            lambda name, each: (
                name != row.name or (each.version >= version and not row.is_terminated)
            )
        )
        self.books.see_pod(row)
        self.count_anew()

    @rule(name=st.sampled_from(NAMES), cpu=st.integers(1, 3), is_gated=st.integers(0, 2))
    def create(self, name: str, cpu: int, is_gated: int) -> None:
        if name in self.model.pods:
            return
        self.ids += 1
        gates = GATED if is_gated else UNGATED
        self.see(
            a_row(f"a/{name}", f"cpu={cpu}", uid=f"u{self.ids}", created_s=self.now_s, gates=gates)
        )

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        model = self.model
        if name not in model.pods:
            return
        row = model.pods.pop(name)
        for held in (model.charged, model.flights, model.promises):
            held.pop(name, None)
        model.refused.discard(name)
        self.books.lose_pod("a", name, row.stamp.uid)
        self.count_anew()

    @rule(name=st.sampled_from(NAMES))
    def end(self, name: str) -> None:
        row = self.model.pods.get(name)
        if row is not None and not row.profile.gates and not row.is_terminated:
            self.see(changed(row, phase="Succeeded"))

    @rule(name=st.sampled_from(NAMES))
    def touch(self, name: str) -> None:
        """A label changes. The patch of a release that is in flight now fails."""
        model, row = self.model, self.model.pods.get(name)
        if row is None or row.is_terminated:
            return
        flight = model.flights.get(name)
        if row.profile.gates and flight is not None and flight.is_unconfirmed:
            del model.flights[name]
        self.see(changed(row))

    @precondition(lambda self: self.model.charged)
    @rule(which=st.integers(0, 5), cpu=st.integers(1, 5))
    def resize(self, which: int, cpu: int) -> None:
        model = self.model
        name = sorted(model.charged)[which % len(model.charged)]
        row = model.pods[name]
        after = row._replace(profile=with_facts(row.profile, requests=f"cpu={cpu}"))
        wanted, deadline_s = self.counted(after), self.now_s + BOUND_S
        growth = None
        if wanted is not None:
            charged, promised = model.charged[name], model.promised(name)
            growth = {
                each: max(0, wanted[each] - charged[each] - promised[each]) for each in NOTHING
            }
        held = model.promises.get(name, [])
        same = [each for each in held if each.row is not None and each.row.demand == after.demand]
        is_busy = not same and len(held) >= POD_PROMISES_MAX
        refusals = self.books.resize(after, row, until_s=deadline_s)

        assert bool(refusals) == (growth is None or not model.fits(growth) or is_busy)
        if wanted is None or refusals:
            return
        if same:
            same[0].deadline_s = deadline_s
        else:
            made = Promise(after, wanted, deadline_s, version_of(row))
            model.promises.setdefault(name, []).append(made)

    @rule(name=st.sampled_from(NAMES), cpu=st.integers(1, 5), is_recreated=st.booleans())
    def forge_resize(self, name: str, cpu: int, *, is_recreated: bool) -> None:
        """Somebody makes a question up. The invariants see to it that it changes nothing."""
        row = self.model.pods.get(name)
        forged = a_row(f"a/{name}", f"cpu={cpu}", uid="made up", gates=UNGATED, version=10**9)
        if row is None or is_recreated:
            refusals = self.books.resize(forged, row, until_s=self.now_s + BOUND_S)
            assert refusals == (UNKNOWN_POD,)

    @precondition(lambda self: self.model.promises)
    @rule(which=st.integers(0, 5))
    def write_resize(self, which: int) -> None:
        name = sorted(self.model.promises)[which % len(self.model.promises)]
        promises = [each for each in self.model.promises[name] if each.row is not None]
        if promises:
            row = self.model.pods[name]
            demand = promises[-1].row.demand
            cpu = str(demand.quota_requests["cpu"])
            self.see(changed(row, profile=with_facts(row.profile, requests=f"cpu={cpu}")))

    @rule()
    def end_overdue_promises(self) -> None:
        """The watch has shown everything that was stored until now."""
        for promise in self.books.growth.overdue(self.now_s):
            self.books.growth.end(promise)
        self.model.keep_promises(lambda _, each: each.deadline_s > self.now_s)

    @rule()
    def change_leader(self) -> None:
        """The next leader lists everything and reads the record of promises."""
        model = self.model
        recorded = decode_promises(encode_promises(self.books.growth.recorded()))
        model.keep_promises(lambda _, each: any(each.held.values()))
        assert len(recorded) == sum(map(len, model.promises.values()))
        self.open()
        for quota, hard in model.hard.items():
            self.limit(quota, model.order[quota], hard[CPU], hard[INSTANCES])
        model.flights.clear()
        model.refused.clear()
        model.charged.clear()
        for name, promises in model.promises.items():
            for promise in promises:
                promise.row, promise.deadline_s = None, self.now_s + BOUND_S
                promise.before = model.pods[name].demand
        known, model.pods = model.pods, {}
        for row in known.values():
            # A pod that cannot be counted yet is charged by what is known when it is seen.
            model.pods[row.name] = row
            self.books.see_pod(row)
            self.count_anew()
        for each in recorded:
            pod = model.pods.get(each.pod.name)
            self.books.growth.restore(each, pod, until_s=self.now_s + BOUND_S)
        self.count_anew()

    # .............................................................. minds

    @rule(
        name=st.sampled_from(NAMES),
        answer=st.sampled_from(
            (f"{CPU}=1", f"{CPU}=3", f"{CPU}=2 {INSTANCES}=1", f"{INSTANCES}=2", "")
            + (Pending("no price"), None)
        ),
    )
    def change_mind(self, name: str, answer: str | Pending | None) -> None:
        self.table.table.pop(name, None)
        if answer is not None:
            self.table.table[name] = answer
        self.recount({name})
        self.count_anew()

    @rule()
    def go_away_or_come_back(self) -> None:
        self.table.is_down = not self.table.is_down
        self.recount(set(self.table.table))
        self.count_anew()

    # .............................................................. quotas

    @rule(
        quota=st.sampled_from(tuple(LIMITED)),
        order=st.sampled_from(("backfill", "strict")),
        cpu=st.integers(0, 6),
        instances=st.integers(0, 3),
    )
    def limit(self, quota: str, order: str, cpu: int, instances: int) -> None:
        hard = {CPU: cpu, INSTANCES: instances}
        named = " ".join(f"{name}={hard[name]}" for name in LIMITED[quota])
        self.model.hard[quota], self.model.order[quota] = hard, order
        self.books.see_quota(a_quota(quota, named, order=order))

    # .............................................................. releases

    @rule()
    def decide(self) -> None:
        model = self.model
        for release in self.books.decide().releases:
            name = release.row.name
            if name in model.flights:
                assert model.flights[name].is_unconfirmed, "a release is retried only if open"
                continue
            cost = self.counted(release.row)

            assert cost is not None, f"{name} was released and nobody knows what it costs"
            assert model.fits(cost), f"{name} was released and does not fit"
            model.flights[name] = Flight(release.row, cost)
        self.check_waiting()

    def check_waiting(self) -> None:
        """No pod waits that could be released."""
        model = self.model
        reasons = {wait.row.name: wait.refusals[0].reason for wait in self.books.blocked()}
        waiting = [
            row
            for name, row in model.pods.items()
            if row.profile.gates and name not in model.flights and name not in model.refused
        ]
        costs = {row.name: self.counted(row) for row in waiting}
        for row in waiting:
            cost = costs[row.name]
            if cost is None:
                assert reasons[row.name] is Reason.NOT_COUNTED
                continue
            assert row.name not in reasons
            if model.fits(cost):
                assert any(
                    self.is_held_up(row, cost, other, costs[other.name])
                    for other in waiting
                    if other is not row
                ), f"{row.name} is stranded"

    def is_held_up(
        self, row: PodRow, cost: Amounts, other: PodRow, other_cost: Amounts | None
    ) -> bool:
        """Whether another pod goes first: it does not fit and strict order lets nobody pass."""
        if other_cost is None or self.model.is_hopeless(other_cost):
            return False
        needed = {quota for quota, names in LIMITED.items() if any(cost[name] for name in names)}
        strict = {quota for quota in LIMITED if self.model.order[quota] == "strict"}
        is_ahead = (other.stamp.created_s, other.name) < (row.stamp.created_s, row.name)
        return is_ahead and bool(self.model.short(other_cost) & needed & strict)

    def fenced(self, name: str) -> Flight | None:
        """The release in flight of a pod that has not changed since."""
        flight = self.model.flights.get(name)
        is_same = flight is not None and self.model.pods[name].stamp == flight.row.stamp
        return flight if is_same else None

    @precondition(lambda self: self.model.flights)
    @rule(name=st.sampled_from(NAMES), is_told=st.booleans())
    def lift(self, name: str, *, is_told: bool) -> None:
        flight = self.fenced(name)
        if flight is None:
            return
        if is_told:
            self.books.settle(flight.row, ReleaseOutcome.LIFTED)
        self.see(running(flight.row))

    @precondition(lambda self: self.model.flights)
    @rule(name=st.sampled_from(NAMES))
    def lose_the_answer(self, name: str) -> None:
        """The outcome is unknown, or the pod has changed."""
        flight = self.model.flights.get(name)
        if flight is None:
            return
        if self.fenced(name) is None:
            del self.model.flights[name]
        flight.is_unconfirmed = True
        self.books.settle(flight.row, ReleaseOutcome.CHANGED)

    @precondition(lambda self: self.model.flights)
    @rule(name=st.sampled_from(NAMES))
    def refuse(self, name: str) -> None:
        flight = self.fenced(name)
        if flight is None:
            return
        if not flight.is_unconfirmed:
            del self.model.flights[name]
            self.model.refused.add(name)
        self.books.settle(flight.row, ReleaseOutcome.REFUSED, "not today")

    @rule(seconds=st.sampled_from((1, RETRY_SECONDS + 1, BACKOFF_SECONDS_MAX + 1)))
    def wait(self, seconds: int) -> None:
        self.now_s += seconds
        self.advance()
        if seconds > BACKOFF_SECONDS_MAX:
            self.model.refused.clear()

    @rule(seconds=st.sampled_from((-86_400, -3600, 0, 3600, 86_400)))
    def set_wall_clock(self, seconds: int) -> None:
        self.wall_step_s = seconds
        self.advance()

    # .............................................................. what always holds

    @invariant()
    def the_ledger_equals_a_recount(self) -> None:
        model = self.model
        for quota, names in LIMITED.items():
            covered = self.books.coverage.quota(a_key(quota))
            if covered is None:
                return  # nothing has happened yet
            for name in names:
                account = covered.accounts[name]
                charged = sum(each[name] for each in model.charged.values())
                assert account.charged == charged * 10**9, (quota, name)
                assert account.free == model.free(quota, name) * 10**9, (quota, name)

    @invariant()
    def reservations_end(self) -> None:
        model = self.model
        promises = sum(map(len, model.promises.values()))
        assert self.books.pending_release_count == len(model.flights)
        assert self.books.ledger.reservation_count == len(model.flights) + promises


TestChangingMinds = ChangingMinds.TestCase
TestChangingMinds.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_new_leader_charges_a_pod_by_what_is_known_when_it_is_seen():
    """A sequence that was once found."""
    state = ChangingMinds()
    state.open_books(order="backfill")
    state.go_away_or_come_back()
    state.change_mind(answer=f"{CPU}=1", name="g-2")
    state.create(cpu=1, is_gated=0, name="g-2")
    state.create(cpu=1, is_gated=0, name="g-1")
    state.change_leader()
    state.the_ledger_equals_a_recount()
    state.teardown()
