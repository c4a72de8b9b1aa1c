"""A cluster in which quotas are kept, and an auditor who trusts nobody.

The cluster holds objects, and refuses writes to a state that has passed. What happens
in it reaches each leader by one watch per kind. A leader keeps books and sends writes,
whose answers, or the writes themselves, may be lost or late.

The auditor counts again from the objects alone, naively, with `Quantity`: at every write
that makes a pod use more, and whenever the world is quiet.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Order, Quota, QuotaKey
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import ReleaseOutcome
from bursar.core.quota.waiting_pods.turns import HOLD_SECONDS
from support.builders.quota_books import GATED, changed, running
from support.histories.naive_count import (
    ENDED,
    Amounts,
    Needs,
    cost,
    could_never_fit,
    is_in_use,
    is_short,
    is_unreadable_for,
    needs,
    reach,
    used,
)
from support.histories.simulated_leader import Knowledge, Leader, Lift, Resize, charged_of

LANDING_S = 20
"""A write that was sent is carried out within this time, or never."""
HANDOVER_S = 20
"""After a leader was lost, nobody decides for so long; all its writes have landed by then."""
REST_S = 310
"""Longer than any pod rests after a refusal, and than a lift waits for its next try."""
# ------------------------------------------------------------------ the cluster


@dataclass
class World:
    random: Random
    now_s: int = 1_000
    version: int = 0
    pods: dict[PodKey, PodRow] = field(default_factory=dict)
    quotas: dict[QuotaKey, Quota] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    leaders: list[Leader] = field(default_factory=list)
    starts_s: int | None = None
    """When the next leader begins; None while there is one that has not lost."""
    strays: list[Lift] = field(default_factory=list)
    """Writes nobody waits for any more, that may still be carried out."""
    resizes: list[Resize] = field(default_factory=list)
    promised: list[Resize] = field(default_factory=list)
    """What the last leader that is gone had agreed to."""
    record: str = "[]"
    """The promises that the leader has written down for its successor."""
    lag_s: int = 20
    """A watch is never further behind than this."""
    wall_step_s: int = 0
    """How far the wall clock of leaders is from what it should be."""
    has_steps: bool = False
    """The wall clock is set now and then, so that no pod may depend on what it says."""
    refusing: set[str] = field(default_factory=set)
    """Namespaces in which somebody else's webhook refuses writes to pods."""
    unready: set[str] = field(default_factory=set)
    """Uids of pods of which nobody can tell yet what they cost."""
    resized_unready: set[str] = field(default_factory=set)
    """Uids of pods that were resized meanwhile. They may be charged more than they use."""
    bypassed: dict[str, int] = field(default_factory=dict)
    """Uids of pods that use something no leader has agreed to, and since which version."""
    hostile: frozenset[str] = frozenset()
    """Namespaces whose owners do all they can to harm the others."""
    has_slices: bool = False
    """Leaders decide in slices, and hear of events in between."""
    needs: Needs = field(default_factory=Needs)
    met: Counter[str] = field(default_factory=Counter)

    # .............................................................. objects

    def put(self, row: PodRow) -> PodRow:
        """Store a pod in a new state."""
        self.version += 1
        stamp = row.stamp._replace(resource_version=str(self.version))
        row = row._replace(packed_stamp=stamp)
        key = PodKey(row.namespace, row.name)
        self.pods[key] = row
        self.announce("pods", key, row)
        return row

    def remove(self, kind: str, key: Any) -> None:
        self.version += 1
        del getattr(self, kind)[key]
        self.announce(kind, key, None)

    def put_quota(self, quota: Quota) -> None:
        self.quotas[quota.key] = quota
        self.announce("quotas", quota.key, quota)

    def put_namespace(self, namespace: Namespace) -> None:
        self.namespaces[namespace.name] = namespace
        self.announce("namespaces", namespace.name, namespace)

    def announce(self, kind: str, key: Any, thing: Any) -> None:
        for leader in self.leaders:
            leader.news[kind].append((self.now_s, self.version, key, thing))

    # .............................................................. writes

    def lift(self, lift: Lift) -> ReleaseOutcome:
        """Carry out a lift, if the pod is still what it was."""
        row = lift.row
        held = self.pods.get(PodKey(row.namespace, row.name))
        is_refused = row.namespace in self.refusing
        if held is None:
            return ReleaseOutcome.GONE
        if is_refused and self.random.random() < 0.5:
            return ReleaseOutcome.REFUSED  # some webhooks are asked before the state is compared
        if held.stamp != row.stamp:
            return ReleaseOutcome.CHANGED
        if is_refused:
            return ReleaseOutcome.REFUSED
        held = self.put(running(held))
        if lift.is_exempt:
            self.bypassed[held.stamp.uid] = self.version
        else:
            self.check_growth(held, lift.known, {})
        return ReleaseOutcome.LIFTED

    def settle(self, leader: Leader, lift: Lift, answer: ReleaseOutcome) -> None:
        """Tell a leader what became of its lift, as the client would."""
        if answer is ReleaseOutcome.REFUSED and lift.is_uncertain:
            answer = ReleaseOutcome.CHANGED
        if answer is ReleaseOutcome.REFUSED:
            leader.refused.add(lift.row.stamp.uid)
            if lift.row.stamp not in leader.unsure:
                del leader.aloft[lift.row.stamp]
        if answer not in (ReleaseOutcome.LIFTED, ReleaseOutcome.REFUSED):
            leader.unsure.add(lift.row.stamp)
        self.met[answer.value] += 1
        leader.lifts.remove(lift)
        leader.is_audited = False
        leader.books.settle(lift.row, answer, "no")

    def resize(self, resize: Resize) -> None:
        if self.pods.get(PodKey(resize.before.namespace, resize.before.name)) is resize.before:
            self.met["resizes"] += 1
            if resize.before.stamp.uid in self.unready:
                self.resized_unready.add(resize.before.stamp.uid)
            after = self.put(changed(resize.before, profile=resize.after.profile))
            self.check_growth(after, resize.known, cost(resize.before))

    # .............................................................. leaders

    @property
    def leader(self) -> Leader | None:
        """Who decides, be it without knowing that it has lost."""
        return self.leaders[0] if self.leaders else None

    def begin_term(self) -> None:
        """All gates that were being lifted are, or never will be. List, and then lead."""
        self.strays.clear()
        self.starts_s = None
        patience_s = self.random.choice((30, 600, 10**6))
        for leader in self.leaders:
            self.promised = leader.promises
        self.leaders = [Leader(self, patience_s)]

    def end_term(self) -> None:
        """The leader is no more. What it has sent may still be carried out."""
        for leader in self.leaders:
            self.stray(leader.lifts, self.now_s + HANDOVER_S)
        self.promised = [each for leader in self.leaders for each in leader.promises]
        self.leaders = []

    def stray(self, lifts: Iterable[Lift], until_s: int) -> None:
        for lift in lifts:
            lift.until_s = until_s
            self.strays.append(lift)

    def pass_time(self, seconds: int) -> None:
        self.now_s += seconds
        for leader in self.leaders:
            leader.deliver_overdue(self.now_s)
            leader.advance()
            leader.end_overdue_promises()
        self.strays = [lift for lift in self.strays if (lift.until_s or 0) > self.now_s]
        self.resizes = [each for each in self.resizes if each.until_s > self.now_s]
        if self.starts_s is not None and self.starts_s <= self.now_s:
            self.begin_term()

    # .............................................................. the auditor

    def within(self, names: set[str]) -> list[PodRow]:
        return [row for row in self.pods.values() if row.namespace in names]

    def all_used(self) -> dict[QuotaKey, Amounts]:
        return {
            key: used(quota, self.within(reach(quota, self.namespaces)), self.now_s)
            for key, quota in self.quotas.items()
        }

    def quotas_of(self, row: PodRow) -> list[Quota]:
        """The quotas of which a pod needs something."""
        return [
            quota
            for quota in self.quotas.values()
            if self.needs.of(quota, row.profile) and row.namespace in reach(quota, self.namespaces)
        ]

    def check_growth(self, row: PodRow, known: Knowledge, before: Amounts) -> None:
        """No quota is overdrawn by a write that a leader has agreed to.

        Except by what the leader could not know: a limit that has changed, a namespace
        that has come or gone (or both), a pod that bypassed it, each if it had not heard of it.
        """
        for quota in self.quotas_of(row) if is_in_use(row, self.now_s) else ():
            names = reach(quota, self.namespaces)
            if known.quotas.get(quota.key) is not quota or names != reach(quota, known.namespaces):
                continue
            if any(self.namespaces[n].labels is not known.namespaces[n].labels for n in names):
                continue
            self.met["growth checks"] += 1
            rows = self.within(names)
            seen = [row for row in rows if self.bypassed.get(row.stamp.uid, 0) <= known.version]
            total = used(quota, seen, self.now_s)
            for name, amount in needs(quota, row).items():
                if name not in before or amount > before[name]:
                    assert total[name] <= quota.hard[name], f"{quota.key} {name}: {total[name]}"

    def waiting(self) -> list[PodRow]:
        return [
            row
            for row in self.pods.values()
            if row.profile.gates == GATED and row.deletion is None and row.phase not in ENDED
        ]

    def can_be_counted(self, row: PodRow) -> bool:
        """Whether a pod waits for nothing but room."""
        return (
            row.stamp.uid not in self.unready
            and row.namespace in self.namespaces
            and not self.is_in_doubt(row)
        )

    def is_in_doubt(self, row: PodRow) -> bool:
        """Whether a quota that cannot be read may be about a pod."""
        return self.namespaces[row.namespace].is_targeted and any(
            is_unreadable_for(quota, row) and row.namespace in reach(quota, self.namespaces)
            for quota in self.quotas.values()
        )

    def rank(self, leader: Leader, row: PodRow) -> tuple[int, int, str, str]:
        """The place of a pod among those of its namespace."""
        is_fifo = any(quota.order is Order.FIFO for quota in self.quotas_of(row))
        priority = 0 if is_fifo else row.profile.priority or 0
        return (-priority, leader.age_s(row), row.namespace, row.name)

    def may_be_passed(self, leader: Leader, quota: Quota, row: PodRow) -> bool:
        is_patient = leader.waiting_since_s(row) + leader.patience_s > self.now_s
        return quota.order is Order.BACKFILL and is_patient

    def check_quiet(self) -> None:
        """Nothing is under way: the books are right, and nobody waits without a reason."""
        leader = self.leader
        assert leader is not None, "somebody has to lead"
        self.met["quiet checks"] += 1
        assert (leader.books.pending_release_count, leader.books.ledger.reservation_count) == (0, 0)
        totals = self.all_used()
        for quota in self.quotas.values():
            self.check_accounts(leader, quota, totals[quota.key])
        for row in self.waiting():
            namespace = self.namespaces.get(row.namespace)
            assert namespace is None or namespace.is_targeted, f"nothing holds {row}"
            if namespace is not None and self.is_in_doubt(row):
                self.met["waits in doubt"] += 1
                blocked = leader.books._blocked.find(PodKey(row.namespace, row.name))
                assert blocked is not None, f"lost: {row}"
                assert blocked.refusal.reason is Reason.QUOTA_UNREADABLE
        waiting = [row for row in self.waiting() if self.can_be_counted(row)]
        for row in waiting:
            assert leader.books.waiting.group_of(PodKey(row.namespace, row.name)), f"lost: {row}"
            assert row.stamp.uid in leader.told, f"not told: {row}"
            self.check_wait(leader, row, waiting, totals)
        for quota in self.quotas.values():
            self.check_turn(leader, quota, waiting, totals)

    def check_enough(self) -> None:
        """Pods that were resized while they could not be counted are charged enough."""
        leader = self.leader
        assert leader is not None, "somebody has to lead"
        self.met["uncounted resizes"] += 1
        for key, total in self.all_used().items():
            covered = leader.books.coverage.quota(key)
            assert covered is not None, key
            charged = charged_of(covered.accounts)
            lacking = {name for name, amount in total.items() if charged[name] < amount.nanos}
            assert not lacking, (key, lacking)

    def check_accounts(self, leader: Leader, quota: Quota, total: Amounts) -> None:
        covered = leader.books.coverage.quota(quota.key)
        assert covered is not None, quota.key
        names = reach(quota, self.namespaces)
        expected = {name: amount.nanos for name, amount in total.items()}
        accounts = covered.accounts
        assert charged_of(accounts) == expected, quota.key
        assert {name: accounts[name].hard for name in expected} == {
            name: quota.hard[name].nanos for name in expected
        }
        held = [*accounts.values(), *(a for s in covered.shares.values() for a in s.values())]
        assert not any(account.promised for account in held), quota.key
        assert covered.namespaces == names
        assert covered.shares.keys() <= names
        reported, shares = leader.reported[quota.key]
        assert reported == expected, f"the report on {quota.key} is stale"
        assert shares.keys() == names, f"the report on {quota.key} is stale"
        for name in names if quota.selector is not None else ():
            part = {n: a.nanos for n, a in used(quota, self.within({name}), self.now_s).items()}
            assert shares[name].items() <= part.items(), quota.key
            assert sum(shares[name].values()) == sum(part.values()), quota.key

    def check_wait(
        self,
        leader: Leader,
        row: PodRow,
        waiting: list[PodRow],
        totals: dict[QuotaKey, Amounts],
    ) -> None:
        """Whoever fits ranks behind one who does not, and who may not be passed."""
        mine = self.quotas_of(row)
        if any(is_short(quota, row, totals[quota.key]) for quota in mine):
            self.met["waits for room"] += 1
            return
        assert self.is_behind(leader, row, mine, waiting, totals), f"stranded: {row}"
        self.met["waits behind another"] += 1

    def is_behind(
        self,
        leader: Leader,
        row: PodRow,
        quotas: list[Quota],
        waiting: list[PodRow],
        totals: dict[QuotaKey, Amounts],
    ) -> bool:
        """Whether another pod keeps this one from having one of these quotas.

        It ranks before it in its namespace and may not be passed, or another namespace has its
        turn to hold a cluster-wide quota.
        """
        if any(self.holding_namespace(leader, each) not in ("", row.namespace) for each in quotas):
            self.met["waits behind another namespace"] += 1
            return True
        return self.is_behind_own(leader, row, quotas, waiting, totals)

    def is_behind_own(
        self,
        leader: Leader,
        row: PodRow,
        quotas: list[Quota],
        waiting: list[PodRow],
        totals: dict[QuotaKey, Amounts],
    ) -> bool:
        """Whether a pod of its own namespace keeps this one from having one of these quotas."""
        for other in waiting:
            if other.namespace != row.namespace:
                continue
            if self.rank(leader, other) >= self.rank(leader, row):
                continue
            if any(quota in quotas for quota in self.held_by(leader, other, totals)):
                return True
        return False

    def holding_namespace(self, leader: Leader, quota: Quota) -> str:
        turn = leader.books.waiting.turns.holding.get(quota.key)
        return "" if turn is None else turn.namespace

    def held_by(self, leader: Leader, row: PodRow, totals: dict[QuotaKey, Amounts]) -> list[Quota]:
        """The quotas that are short for a pod and in which it may not be passed."""
        mine = self.quotas_of(row)
        if any(could_never_fit(quota, row) for quota in mine):
            return []
        return [
            quota
            for quota in mine
            if is_short(quota, row, totals[quota.key])
            and not self.may_be_passed(leader, quota, row)
        ]

    def check_turn(
        self,
        leader: Leader,
        quota: Quota,
        waiting: list[PodRow],
        totals: dict[QuotaKey, Amounts],
    ) -> None:
        """A namespace holds a quota only with a pod that may not be passed, and not for long."""
        turn = leader.books.waiting.turns.holding.get(quota.key)
        if turn is None:
            return
        self.met["turns to hold"] += 1
        assert quota.selector is not None, "a quota of one namespace is held up against nobody"
        assert self.now_s - turn.since_s < HOLD_SECONDS, f"{quota.key} is held for too long"
        holders = [
            row
            for row in waiting
            if row.namespace == turn.namespace and quota in self.held_by(leader, row, totals)
        ]
        assert holders, f"{quota.key} is held by nobody"
