"""What tenants, administrators and machines do in a history without any bad intent."""

from dataclasses import replace

from bursar.core.model.pod_row import Deletion, PodRow
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Order, Quota
from bursar.core.quota.releases import ReleaseOutcome
from support.builders.quota_books import (
    GATED,
    UNGATED,
    a_namespace,
    a_quota,
    a_row,
    changed,
    with_facts,
)
from support.histories.growth_acts import DEMANDS, GrowthActs
from support.histories.naive_count import ENDED
from support.histories.simulated_cluster import HANDOVER_S, LANDING_S
from support.histories.simulated_leader import KINDS, Leader, Lift

LABELS = ("", "team=red", "team=blue", "team=red tier=gold")
SELECTORS = ("", "team", "team=red", "tier=gold")
HARD = {
    "pods": ("0", "1", "2", "3", "5"),
    "cpu": ("100m", "300m", "700m", "1", "1500m", "2"),
    "requests.cpu": ("500m", "900m", "2"),
    "limits.cpu": ("1", "2"),
    "memory": ("64Mi", "138Mi", "264Mi", "1Gi"),
    "services": ("1",),
}
SCOPES = (
    *("",) * 8,
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "NotTerminating NotBestEffort",
)


class OrdinaryActs(GrowthActs):
    """The part of a history that happens in any cluster."""

    names: tuple[str, ...]
    """Namespaces of tenants who mean no harm."""
    all_names: tuple[str, ...]
    is_about_growth: bool
    ids = 0

    def next_uid(self) -> str:
        self.ids += 1
        return f"u{self.ids}"

    # .............................................................. pods

    def create(self) -> None:
        self.create_at(self.random.choice(self.names), f"p{self.random.randrange(8)}")

    def create_at(self, namespace: str, name: str) -> None:
        random, world = self.random, self.world
        if namespace not in world.namespaces or PodKey(namespace, name) in world.pods:
            return
        uid = self.next_uid()
        gates = random.choices((GATED, ("other", *GATED), UNGATED), (20, 3, 1))[0]
        if random.random() < 0.05:
            world.unready.add(uid)
        if not gates:
            world.bypassed[uid] = world.version + 1
        world.put(
            a_row(
                f"{namespace}/{name}",
                random.choice(DEMANDS),
                random.choice(("", "", "cpu=1")),
                uid=uid,
                created_s=world.now_s,
                gates=gates,
                priority=random.choice((None, None, 0, 5)),
                priority_class=random.choice(("", "", "gold")),
                deadline_s=random.choice((None, None, None, 60)),
                crosses_namespaces=random.random() < 0.1,
            )
        )

    def delete(self) -> None:
        row = self.some_pod()
        if row is not None:
            self.world.remove("pods", PodKey(row.namespace, row.name))

    def recreate(self) -> None:
        row = self.some_pod()
        if row is not None:
            self.world.remove("pods", PodKey(row.namespace, row.name))
            self.create_at(row.namespace, row.name)

    def begin_deletion(self) -> None:
        row = self.some_pod()
        if row is not None and row.deletion is None:
            # Kubernetes judges by the wall clock how long a pod that is being deleted counts.
            grace_s = None if self.world.has_steps else self.random.choice((None, 0, 30))
            due_s = self.world.now_s + (grace_s or 0)
            self.world.put(changed(row, deletion=Deletion(due_s, grace_s)))

    def finish(self) -> None:
        row = self.some_pod()
        if row is not None and not row.profile.gates and row.phase not in ENDED:
            self.world.put(changed(row, phase=self.random.choice(("Running", *ENDED))))

    def touch(self) -> None:
        row = self.some_pod()
        if row is None:
            return
        if len(row.profile.gates) > 1:
            self.world.put(changed(row, profile=with_facts(row.profile, gates=GATED)))
        else:
            self.world.put(changed(row))

    def set_deadline(self) -> None:
        """Moves a pod from one scope to another, and nobody is asked."""
        row = self.some_pod()
        if row is not None and row.profile.deadline_s is None:
            if not row.profile.gates:
                self.world.bypassed[row.stamp.uid] = self.world.version + 1
            self.world.put(changed(row, profile=with_facts(row.profile, deadline_s=60)))

    def count_otherwise(self) -> None:
        """What a pod costs can be told now, or cannot any more."""
        row = self.some_pod()
        if row is not None:
            self.world.unready ^= {row.stamp.uid}
            self.recount(row)

    def recount(self, row: PodRow) -> None:
        for leader in self.world.leaders:
            seen = leader.view["pods"].get(PodKey(row.namespace, row.name))
            if seen is not None:
                leader.is_audited = False
                leader.books.recount_pod(seen)

    def count_all(self) -> None:
        """A promise is handed over for the names that were limited, so a count is needed again."""
        self.world.unready.clear()
        for row in self.world.pods.values():
            self.recount(row)

    # .............................................................. quotas and namespaces

    def write_quota(self) -> None:
        random = self.random
        where = random.choice(("a/q", "a/r", "b/q", "c/q", "x", "y"))
        hard = " ".join(
            f"{name}={random.choice(amounts)}"
            for name, amounts in HARD.items()
            if random.random() < 0.4
        )
        self.world.put_quota(
            a_quota(
                where,
                hard,
                order=random.choice(("backfill", "strict", "fifo")),
                scopes=random.choice(SCOPES),
                selector=random.choice(SELECTORS),
            )
        )

    def change_limits(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            hard = dict(quota.hard)
            for name in hard:
                if name in HARD and self.random.random() < 0.5:
                    some = a_quota("x", f"{name}={self.random.choice(HARD[name])}").hard
                    hard[name] = some[name]
            self.world.put_quota(replace(quota, hard=hard))

    def change_order(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            self.world.put_quota(replace(quota, order=self.random.choice(list(Order))))

    def change_scopes(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            scopes = a_quota("x", "", scopes=self.random.choice(SCOPES)).scopes
            self.world.put_quota(replace(quota, scopes=scopes))

    def delete_quota(self) -> None:
        quota = self.some_quota()
        if quota is not None:
            self.world.remove("quotas", quota.key)

    def some_quota(self) -> Quota | None:
        quotas = self.world.quotas
        return self.random.choice(list(quotas.values())) if quotas else None

    def relabel(self) -> None:
        name = self.random.choice(self.all_names)
        before = self.world.namespaces.get(name)
        is_targeted = before is None or before.is_targeted
        labels = self.random.choice(LABELS)
        self.world.put_namespace(a_namespace(name, labels, is_targeted=is_targeted))

    def retarget(self) -> None:
        """Let a namespace leave those where pods are held back, or come in again."""
        namespace = self.world.namespaces.get(self.random.choice(self.all_names))
        if namespace is not None:
            self.world.put_namespace(replace(namespace, is_targeted=not namespace.is_targeted))

    def delete_namespace(self) -> None:
        name, world = self.random.choice(self.all_names), self.world
        if name in world.namespaces:
            for pod in [pod for pod in world.pods if pod.namespace == name]:
                world.remove("pods", pod)
            world.remove("namespaces", name)

    # .............................................................. the line and the machines

    def deliver(self) -> None:
        for leader in self.world.leaders:
            leader.deliver(self.random.choice(KINDS), self.random.randint(1, 6))

    def catch_up(self) -> None:
        for leader in self.world.leaders:
            for kind in self.random.sample(KINDS, len(KINDS)):
                leader.deliver(kind)

    def relist(self) -> None:
        for leader in self.world.leaders:
            leader.relist(self.random.choice(KINDS))

    def send_lift(self) -> None:
        leader = self.world.leader
        if leader is not None and leader.lifts:
            self.send(leader, self.random.choice(leader.lifts))

    def send(self, leader: Leader, lift: Lift) -> None:
        """One try. Some are turned away, some get lost, and some answers do."""
        world, luck = self.world, self.random.random()
        if luck < 0.1:
            world.met["turned away"] += 1  # too many requests: it has not been looked at
        elif luck < 0.2:
            lift.is_uncertain = True
            stray = Lift(lift.row, lift.is_exempt, lift.known)
            until_s = world.now_s + LANDING_S
            world.stray([stray], until_s if leader.ends_s is None else leader.ends_s)
        elif luck < 0.3:
            lift.is_uncertain = True
            world.lift(lift)
            world.met["answers lost"] += 1
        elif luck < 0.5 and lift.is_uncertain:
            world.settle(leader, lift, ReleaseOutcome.UNANSWERED)  # it has given up
        else:
            world.settle(leader, lift, world.lift(lift))

    def land_stray(self) -> None:
        strays = self.world.strays
        if strays:
            stray = strays.pop(self.random.randrange(len(strays)))
            self.world.met[f"late write {self.world.lift(stray).value}"] += 1

    def refuse(self) -> None:
        self.world.refusing ^= {self.random.choice(self.all_names)}

    def wait(self) -> None:
        longest = 4 if self.is_about_growth else 6
        self.world.pass_time(self.random.choice((1, 1, 3, 12, 35, 130)[:longest]))

    def crash(self) -> None:
        world = self.world
        if world.starts_s is None:
            world.met["crashes"] += 1
            world.end_term()
            world.starts_s = world.now_s + HANDOVER_S
            if self.is_about_growth:
                world.pass_time(HANDOVER_S)

    def lose_lease(self) -> None:
        """The leader goes on for a while, and so do its writes."""
        world, leader = self.world, self.world.leader
        if leader is not None and world.starts_s is None:
            world.met["leases lost"] += 1
            leader.ends_s = world.starts_s = world.now_s + HANDOVER_S
