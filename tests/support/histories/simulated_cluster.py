"""A cluster in which quotas are kept.

The cluster holds objects, and refuses writes to a state that has passed. What happens
in it reaches each leader by one watch per kind. A leader keeps books and sends writes,
whose answers, or the writes themselves, may be lost or late. etcd may be restored from a backup.

At every write that makes a pod use more, all pods are counted again from the objects alone,
naively, with `Quantity`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import UNLIMITED
from bursar.core.quota.coverage import OWN_LIMITS_MAX, Namespace
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Quota, QuotaKey
from bursar.core.quota.releases import ReleaseOutcome
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE
from support.builders.quota_books import GATED, changed, running
from support.histories.naive_count import (
    ENDED,
    Amounts,
    Needs,
    cost,
    is_in_use,
    is_unreadable_for,
    needs,
    reach,
    used,
)
from support.histories.simulated_leader import Leader
from support.histories.writes import Knowledge, Lift, Resize

LANDING_S = 20
"""A write that was sent is carried out within this time, or never."""
HANDOVER_S = 20
"""After a leader was lost, nobody decides for so long; all its writes have landed by then."""
REST_S = 310
"""Longer than any pod rests after a refusal, and than a lift waits for its next try."""


@dataclass(frozen=True)
class Backup:
    """The objects of an earlier time."""

    pods: dict[PodKey, PodRow]
    quotas: dict[QuotaKey, Quota]
    namespaces: dict[str, Namespace]


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
    steps_max: tuple[int, ...] = (UNLIMITED,)
    """Of how many steps the slices are in which a leader decides: it has one of these numbers. It
    hears of events in between."""
    steps_at_once: int = STEPS_AT_ONCE
    """For how many pods a leader enters a change at once."""
    limits_max: int = OWN_LIMITS_MAX
    """How many limits the quotas of a namespace may have."""
    is_watchful: bool = False
    """The numbers of all other namespaces are compared before and after each event of one."""
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
        self.met[answer.value] += 1
        leader.settle(lift, answer)

    def resize(self, resize: Resize) -> None:
        if self.pods.get(PodKey(resize.before.namespace, resize.before.name)) is resize.before:
            self.met["resizes"] += 1
            if resize.before.stamp.uid in self.unready:
                self.resized_unready.add(resize.before.stamp.uid)
            after = self.put(changed(resize.before, profile=resize.after.profile))
            known = resize.known.quotas
            if any(known.get(each.key) is not each for each in self.quotas_of(after)):
                # It was agreed to before there was this quota: perhaps nothing is held for it.
                self.bypassed[after.stamp.uid] = self.version
            self.check_growth(after, resize.known, cost(resize.before))

    # .............................................................. backups

    def backup(self) -> Backup:
        return Backup(dict(self.pods), dict(self.quotas), dict(self.namespaces))

    def restore(self, backup: Backup) -> None:
        """Restore etcd from a backup: nothing that was written since has ever happened.

        Versions go on where they were. All connections break, and each leader lists everything
        again before it hears of anything else.
        """
        self.version += 1
        before = self.pods
        self.pods = dict(backup.pods)
        self.quotas, self.namespaces = dict(backup.quotas), dict(backup.namespaces)
        for key, row in self.pods.items():
            if before.get(key) is not row and not row.profile.gates:
                self.bypassed[row.stamp.uid] = self.version  # No leader knows it any more.
        self.strays.clear()
        self.resizes.clear()
        for leader in self.leaders:
            leader.lose_connections()

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

    # .............................................................. counting

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

    def can_be_counted(self, leader: Leader, row: PodRow) -> bool:
        """Whether a pod waits for nothing but room."""
        namespace = self.namespaces.get(row.namespace)
        return (
            row.stamp.uid not in self.unready
            and namespace is not None
            and (namespace.is_targeted or not namespace.dispute)
            and not self.is_in_doubt(leader, row)
        )

    def is_in_doubt(self, leader: Leader, row: PodRow) -> bool:
        """Whether a quota that cannot be read may be about a pod, or one that is left out."""
        if not self.namespaces[row.namespace].is_targeted:
            return False
        return leader.has_left_out(row.namespace) or any(
            is_unreadable_for(quota, row) and row.namespace in reach(quota, self.namespaces)
            for quota in self.quotas.values()
        )
