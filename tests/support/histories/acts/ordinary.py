"""What tenants do in a history without any bad intent: pods come, change and go."""

from bursar.core.model.pod_row import Deletion
from bursar.core.quota.ledger import PodKey
from support.builders.quota_books import GATED, UNGATED, a_row, changed, with_facts
from support.histories.acts.growth import DEMANDS
from support.histories.acts.machines import MachineActs
from support.histories.acts.quotas import QuotaActs
from support.histories.naive_count import ENDED, is_short

CLASSES = ("", "", "gold", "silver")


class OrdinaryActs(QuotaActs, MachineActs):
    """The part of a history that happens in any cluster."""

    ids = 0

    def next_uid(self) -> str:
        self.ids += 1
        return f"u{self.ids}"

    def create(self) -> None:
        self.create_at(self.random.choice(self.names), f"p{self.random.randrange(8)}")

    def create_at(self, namespace: str, name: str) -> None:
        random, world = self.random, self.world
        if namespace not in world.namespaces or PodKey(namespace, name) in world.pods:
            return
        uid = self.next_uid()
        weights = (20, 3, 1) if world.namespaces[namespace].is_gated else (5, 1, 5)
        gates = random.choices((GATED, ("other", *GATED), UNGATED), weights)[0]
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
                priority_class=random.choice(CLASSES),
                deadline_s=random.choice((None, None, None, 60)),
                crosses_namespaces=random.random() < 0.1,
            )
        )

    def create_running(self) -> None:
        """Pods that run before there is a controller. They are within all limits."""
        world = self.world
        for _ in range(self.random.randint(2, 6)):
            where = f"{self.random.choice(self.all_names)}/p{self.random.randrange(8)}"
            uid, requests = self.next_uid(), self.random.choice(DEMANDS[1:])
            row, used = (
                a_row(where, requests, uid=uid, created_s=0, gates=UNGATED),
                world.all_used(),
            )
            if not any(is_short(each, row, used[each.key]) for each in world.quotas_of(row)):
                world.put(row)

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
