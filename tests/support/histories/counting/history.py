"""One history of pods of VMs, pods that sidecars count, and other pods, under two quotas.

VMs start, move and end; sidecars fail, answer late and go away; pods are created, released, changed
and deleted; leaders change. After each step the books hold what the counters say now, and the
counter of VMs says what one says that begins now.
"""

from collections import Counter
from random import Random
from typing import Any

from bursar.core.counting.counter import Pending
from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.kubevirt.counter import VmCounter
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import Charge
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NotReady
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from bursar.core.quota.releases import RETRY_SECONDS, ReleaseOutcome
from bursar.wire.kubevirt import decode_migration, decode_vmi
from bursar.wire.launcher_pods import derive_launcher_facts
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.builders.quota_books import a_namespace, a_quota
from support.builders.vms import a_launcher, a_migration, a_vmi, encoded
from support.histories.audit import entries
from support.histories.counting.sidecars import GROUP, SEATS, Sidecars, said

TEAM, OTHER = "team", "other"
VMS = ("db", "web")
NODES = ("", "n1", "n2")
MOVES = ("move", "again")
PHASES = ("", "Running", "Failed", "Succeeded")
UNKNOWN = "waiting for answers about running pods of the namespace"
REQUESTS = ("cpu=400m memory=1Gi", "cpu=1 memory=2Gi", "cpu=2 memory=1Gi")
NEVER_S = 10**9
MODES = (VmiMode.POD_USAGE, VmiMode.VIRTUAL, VmiMode.DEDICATED, VmiMode.GUEST_EFFECTIVE)
ACTIONS = {
    "put_pod": 30,
    "put_launcher": 25,
    "delete_pod": 10,
    "end_pod": 3,
    "put_vmi": 15,
    "delete_vmi": 5,
    "put_migration": 15,
    "delete_migration": 10,
    "change_state": 3,
    "ask": 60,
    "answer": 70,
    "fail": 6,
    "disconnect": 3,
    "connect": 6,
    "lift": 25,
    "wait": 8,
    "limit": 4,
    "change_leader": 2,
}


def some_uid(random: Random, known: dict[str, Any] | None, name: str) -> str:
    """The uid of a VM: mostly that of the one there is, at times of one before or after it."""
    if known is not None and random.random() < 0.85:
        uid: str = known["metadata"]["uid"]
        return uid
    return f"{name}-{random.choice('12')}"


class CountingHistory:
    def __init__(self, seed: int, steps: int) -> None:
        self.random = random = Random(seed)  # noqa: S311 - a script, not a secret
        self.mode = random.choice(MODES)
        self.sidecar_count = random.randrange(3)
        self.met: Counter[str] = Counter()
        self.now_s, self.version, self.ids = 1_000, 0, 0
        self.pods: dict[PodKey, dict[str, Any]] = {}
        self.vmis: dict[str, dict[str, Any]] = {}
        self.migrations: dict[str, dict[str, Any]] = {}
        self.state = KindState.SYNCED
        self.limits = {"team/q": self.some_limits(), "wide": self.some_limits()}
        self.begin_term()
        self.actions = random.choices(list(ACTIONS), list(ACTIONS.values()), k=steps)

    def begin_term(self) -> None:
        """A new leader lists everything."""
        self.vms = VmCounter(self.mode, derive_launcher_facts)
        self.sidecars = Sidecars(self.random, self.sidecar_count)
        parts = (self.vms, self.sidecars.counter)
        self.counters = Counters(parts if self.sidecar_count else parts[:1])
        self.decode = PodRowDecoder(self.counters.derive_facts).decode
        self.books = Books(self.counters.count, related=self.counters, patience_s=NEVER_S)
        self.books.advance(self.now_s)
        self.rows: dict[PodKey, PodRow] = {}
        self.pending: dict[PodKey, PodRow] = {}
        self.fill(self.vms)
        for name in (TEAM, OTHER):
            self.books.see_namespace(a_namespace(name))
        for where, hard in self.limits.items():
            self.books.see_quota(a_quota(where, hard))
        for key in list(self.pods):
            self.see(key)

    def fill(self, counter: VmCounter) -> None:
        """Tell a counter of all objects but pods."""
        counter.set_kubevirt_state(KindState.SYNCED)
        counter.set_migration_state(KindState.SYNCED)
        counter.set_vmi_state(self.state)
        for each in self.vmis.values() if self.state is KindState.SYNCED else ():
            counter.see_vmi(decode_vmi(encoded(each)))
        for each in self.migrations.values():
            counter.see_migration(decode_migration(encoded(each)))

    def run(self) -> Counter[str]:
        for action in self.actions:
            self.met[action] += 1
            self.met["steps"] += 1
            getattr(self, action)()
            self.audit()
            self.decide()
            self.audit()
        self.become_quiet()
        self.remove_everything()
        return self.met

    # .............................................................. what happens to pods

    def put(self, manifest: dict[str, Any], *, is_gated: bool) -> None:
        """Create a pod, or change one; it keeps its gate, or the lack of one."""
        metadata = manifest["metadata"]
        key = PodKey(metadata["namespace"], metadata["name"])
        held = self.pods.get(key)
        self.version += 1
        if held is None:
            self.ids += 1
            metadata["uid"] = f"u{self.ids}"
        else:
            metadata["uid"] = held["metadata"]["uid"]
            is_gated = "schedulingGates" in held["spec"]
            manifest.setdefault("status", held.get("status", {}))
        manifest["spec"].pop("schedulingGates", None)
        if is_gated:
            manifest["spec"]["schedulingGates"] = [{"name": GATE}]
        metadata["resourceVersion"] = str(self.version)
        self.pods[key] = manifest
        self.see(key)

    def see(self, key: PodKey) -> None:
        row = self.rows[key] = self.decode(encoded(self.pods[key]))
        if not row.profile.gates:
            self.pending.pop(key, None)
        self.books.see_pod(row)

    def put_pod(self) -> None:
        random = self.random
        notes = {}
        if random.random() < 0.4:
            notes["seats"] = random.choice("123")
        if random.random() < 0.4:
            notes["group"] = random.choice("12")
        where = f"{random.choice((TEAM, TEAM, OTHER))}/p{random.randrange(4)}"
        pod = pod_manifest(where, requests=random.choice(REQUESTS))
        pod["metadata"]["annotations"] = notes
        self.put(pod, is_gated=random.random() < 0.8)

    def put_launcher(self) -> None:
        random, vm = self.random, self.random.choice(VMS)
        uid = some_uid(random, self.vmis.get(vm), vm)
        pod = a_launcher(
            f"{vm}-{random.randrange(3)}",
            random.choice(REQUESTS),
            vmi=vm,
            uid=uid,
            node=random.choice(NODES),
            migration=random.choice(("", "", *MOVES)),
            created=random.randrange(3),
        )
        self.put(pod, is_gated=random.random() < 0.7)

    def some_pod(self) -> PodKey | None:
        return self.random.choice(list(self.pods)) if self.pods else None

    def delete_pod(self) -> None:
        key = self.some_pod()
        if key is not None:
            self.lose(key)

    def lose(self, key: PodKey) -> None:
        del self.pods[key]
        self.pending.pop(key, None)
        self.books.lose_pod(*key, self.rows.pop(key).stamp.uid)

    def end_pod(self) -> None:
        key = self.some_pod()
        if key is not None and "schedulingGates" not in self.pods[key]["spec"]:
            self.put({**self.pods[key], "status": {"phase": "Succeeded"}}, is_gated=False)

    # .............................................................. what happens to VMs

    def put_vmi(self) -> None:
        random, name = self.random, self.random.choice(VMS)
        uid = some_uid(random, self.vmis.get(name), name)
        launchers = [key.name for key in self.pods if key.name.startswith(f"{name}-")]
        status = {}
        if launchers and random.random() < 0.4:
            source, target = random.choice(launchers), random.choice(launchers)
            status["migrationState"] = {"sourcePod": source, "targetPod": target}
        vmi = a_vmi(name, cores=random.randint(1, 3), guest_memory="1Gi", uid=uid, **status)
        node = random.choice(NODES)
        if node:
            vmi["status"]["nodeName"] = node
        self.vmis[name] = vmi
        if self.state is KindState.SYNCED:
            self.recount(self.vms.see_vmi(decode_vmi(encoded(vmi))))

    def delete_vmi(self) -> None:
        vmi = self.vmis.pop(self.random.choice(VMS), None)
        if vmi is not None and self.state is KindState.SYNCED:
            self.recount(self.vms.lose_vmi(decode_vmi(encoded(vmi))))

    def put_migration(self) -> None:
        random = self.random
        migration = a_migration(
            random.choice(MOVES),
            random.choice(VMS),
            phase=random.choice(PHASES),
            created=random.randrange(3),
        )
        self.migrations[migration["metadata"]["name"]] = migration
        self.recount(self.vms.see_migration(decode_migration(encoded(migration))))

    def delete_migration(self) -> None:
        migration = self.migrations.pop(self.random.choice(MOVES), None)
        if migration is not None:
            self.recount(self.vms.lose_migration(decode_migration(encoded(migration))))

    def change_state(self) -> None:
        """The kind of VMs is not served any more, is being listed, or is back."""
        self.set_state(self.random.choice((*KindState, KindState.SYNCED)))

    def set_state(self, state: KindState) -> None:
        if state is self.state:
            return
        self.state = state
        if state is KindState.SYNCED:
            for each in self.vmis.values():
                self.vms.see_vmi(decode_vmi(encoded(each)))
        self.recount(self.vms.set_vmi_state(state))

    # .............................................................. what counters say

    def recount(self, rows: list[PodRow]) -> None:
        self.recount_pods([PodKey(row.namespace, row.name) for row in rows])

    def recount_pods(self, keys: list[PodKey]) -> None:
        for key in keys:
            if key in self.rows:
                self.books.recount_pod(self.rows[key])

    def ask(self) -> None:
        self.sidecars.ask(self.now_s * 1_000)

    def answer(self) -> None:
        self.recount_pods(self.sidecars.answer(self.now_s * 1_000))

    def fail(self) -> None:
        self.recount_pods(self.sidecars.answer(self.now_s * 1_000, fails=True))

    def disconnect(self) -> None:
        self.recount_pods(self.sidecars.disconnect())

    def connect(self) -> None:
        self.recount_pods(self.sidecars.connect())

    # .............................................................. leaders, quotas and releases

    def change_leader(self) -> None:
        self.begin_term()

    def some_limits(self) -> str:
        random = self.random
        hard = {
            "pods": random.randint(1, 5),
            "requests.cpu": random.randint(1, 6),
            "requests.instances/vmi": random.randint(0, 2),
            "requests.cpu/vmi": random.randint(1, 6),
            SEATS: random.randint(0, 4),
            GROUP: random.randint(0, 3),
        }
        return " ".join(f"{name}={n}" for name, n in hard.items() if random.random() < 0.6)

    def limit(self) -> None:
        where = self.random.choice(list(self.limits))
        self.limits[where] = self.some_limits()
        self.books.see_quota(a_quota(where, self.limits[where]))

    def decide(self) -> None:
        for release in self.books.decide().releases:
            key = PodKey(release.row.namespace, release.row.name)
            if key not in self.pending:
                charge = self.counters.count(release.row)
                limited = self.books.coverage.limits(release.row.profile)
                assert not limited or self.may_be_counted(charge), f"nobody counts {key}"
                for covered in self.books.coverage.covering(key.namespace):
                    needed = {} if isinstance(charge, NotReady) else charge.amounts
                    for name, account in covered.accounts.items():
                        assert not needed.get(name, (0,))[0] or account.free >= 0, (key, name)
                self.met["releases"] += 1
            self.pending[key] = release.row

    def lift(self) -> None:
        """A gate is lifted, or the pod has changed meanwhile."""
        if not self.pending:
            return
        key = self.random.choice(list(self.pending))
        row = self.pending[key]
        if self.rows[key].stamp != row.stamp:
            self.pending.pop(key)
            self.books.settle(row, ReleaseOutcome.CHANGED)
            return
        if self.random.random() < 0.7:
            self.books.settle(row, ReleaseOutcome.LIFTED)
        pod = {**self.pods[key], "metadata": {**self.pods[key]["metadata"]}}
        pod["spec"] = {n: each for n, each in pod["spec"].items() if n != "schedulingGates"}
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.pods[key] = pod
        self.see(key)

    def wait(self) -> None:
        self.now_s += self.random.choice((1, 6, RETRY_SECONDS + 1))
        self.books.advance(self.now_s)

    # .............................................................. auditing

    def audit(self) -> None:
        """The books hold what the counters say now."""
        self.met["audits"] += 1
        self.check_vms()
        for key, row in self.rows.items():
            counted = None if row.is_terminated else self.counters.count(row)
            if row.profile.gates:
                self.check_gated(key, row, counted)
            elif counted is not None and not isinstance(counted, NotReady):
                bill = self.books.ledger.bill_of(key)
                assert bill is not None, f"{key} is not charged"
                assert bill.charge.amounts == counted.amounts, f"{key} was not counted again"
                self.met["charges"] += 1

    def check_gated(self, key: PodKey, row: PodRow, counted: object) -> None:
        released = self.pending.get(key)
        if released is not None and released.stamp == row.stamp and isinstance(counted, Charge):
            for reservation in self.books.ledger.reservations_of(key):
                held = reservation.bill.charge.amounts
                assert held == counted.amounts, f"the release of {key} was not counted again"
                self.met["reservations"] += 1
        if row.is_terminated or released is not None:
            return
        blocked = self.books._blocked.find(key)
        if isinstance(counted, NotReady):
            self.met["not counted"] += 1
            if self.books.coverage.limits(row.profile) and not self.may_be_counted(counted):
                assert blocked is not None, f"{key} waits for room, and nobody counts it"
        elif blocked is not None:
            raise AssertionError(f"{key} was not counted again: {blocked.refusal}")

    def may_be_counted(self, counted: Charge | NotReady) -> bool:
        """Whether a gated pod is counted, or was before a pod came that never had a gate."""
        return not isinstance(counted, NotReady) or counted.detail == f"sidecars: {UNKNOWN}"

    def check_vms(self) -> None:
        """The counter has missed nothing."""
        fresh = VmCounter(self.mode, derive_launcher_facts)
        self.fill(fresh)
        for row in self.rows.values():
            fresh.see_pod(row)
        for key, row in self.rows.items():
            if not row.is_terminated:
                found, expected = self.vms.count(row), fresh.count(row)
                assert found == expected, f"{key} counts {found}, not {expected}"
                if expected is not None and not isinstance(expected, Pending):
                    self.met["VMs"] += 1

    def become_quiet(self) -> None:
        """All faults stop. Each pod is counted, unless its VM does not exist."""
        self.set_state(KindState.SYNCED)
        self.connect()
        for _ in range(2_000):
            is_busy = self.sidecars.ask(self.now_s * 1_000)
            while self.sidecars.asked:
                self.answer()
            self.decide()
            is_busy = is_busy or bool(self.pending)
            while self.pending:
                self.lift()
            self.audit()
            if not is_busy and self.sidecars.is_idle:
                break
            if not is_busy:
                self.wait()
        else:
            raise AssertionError("sidecars are asked for ever")
        self.check_quiet()

    def check_quiet(self) -> None:
        self.met["quiet checks"] += 1
        assert self.books.pending_release_count == 0
        for slot in self.sidecars.counter.slots:
            for key, row in self.rows.items():
                space = self.sidecars.counter._namespaces[key.namespace]
                answer = space.questions[key.name].answers.get(slot.index)
                pods = ((name, each.body) for name, each in space.questions.items())
                if not row.is_terminated:
                    assert answer is not None, f"{key} was not asked for"
                    assert answer.amounts == said(slot, key.name, pods), key
        for key, row in self.rows.items():
            group, counted = self.books.waiting.group_of(key), self.counters.count(row)
            if isinstance(counted, NotReady):
                is_own = counted.detail.startswith("kubevirt: ")
                assert row.is_terminated or is_own, f"{key}: {counted.detail}"
            elif row.profile.gates:
                assert group is not None, f"lost: {key}"
                assert not group.bill.fits(), f"stranded: {key}"
                self.met["waits for room"] += 1

    def remove_everything(self) -> None:
        """Nothing is left of objects that are gone."""
        random = self.random
        gone = [*((self.lose, key) for key in self.pods)]
        random.shuffle(gone)
        for act, key in gone:
            act(key)
            random.choice((self.delete_vmi, self.delete_migration))()
            self.audit()
        while self.vmis:
            self.delete_vmi()
        while self.migrations:
            self.delete_migration()
        assert (self.vms._vms, self.vms._vm_of_pod, self.vms._vm_of_migration) == ({}, {}, {})
        counter = self.sidecars.counter
        assert (counter._namespaces, counter._unswept) == ({}, {})
        left = entries(self.books)
        assert not left["books.ledger._pods"] + left["books.ledger._reservations"]


def run_counting_history(seed: int, *, steps: int | None = None) -> Counter[str]:
    """Run one history. A failure names it."""
    count = steps or Random(seed).choice((20, 60, 150))  # noqa: S311 - a script, not a secret
    try:
        return CountingHistory(seed, count).run()
    except BaseException as error:
        error.add_note(f"history {seed} of counters, of {count} steps")
        raise
