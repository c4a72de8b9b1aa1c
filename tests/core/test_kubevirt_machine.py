"""Random lives of VMs: a pod that is not named to be counted again costs what it cost before.

The books ask again only about the pods that the counter names, so a pod that is missing there
would keep a wrong charge. A counter that is told of everything anew must give the same answers.
"""

from copy import deepcopy
from random import Random

import pytest

from bursar.core.counting.counter import Counted
from bursar.core.counting.kind_state import KindState
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.quota.quota import GATE
from support.builders.vms import a_kubevirt, a_launcher, a_migration, a_vmi
from support.counting.vm_scene import VmScene
from support.seeds import one_quick

STEPS = 120
VMS, PODS, MOVES, NODES = (
    ("db", "db", "db", "web"),
    ("p1", "p2", "p3", "p4"),
    ("m1", "m2", "m3"),
    ("n1", "n2"),
)
MODES = [each for each in VmiMode if each is not VmiMode.IGNORE]


class Life:
    """A scene, and the answers that the books would have by now."""

    def __init__(self, seed: int) -> None:
        self.luck = Random(seed)  # noqa: S311 - repeatable
        self.mode = self.luck.choice(MODES)
        self.scene = VmScene(self.mode)
        self.answers: dict[str, object] = {}
        self.present: dict[str, dict] = {}
        self.met: set[str] = set()

    def step(self) -> None:
        luck = self.luck
        changes = [
            self.pod,
            self.pod,
            self.vmi,
            self.vmi,
            self.move,
            self.settings,
            self.changed_pod,
        ]
        action = luck.choice(changes)
        if luck.random() < 0.25 and self.present:
            self.note(self.scene.lose(self.present.pop(luck.choice(sorted(self.present)))))
        elif luck.random() < 0.05:
            self.state()
        else:
            manifest = action()
            key = f"{manifest['kind']}/{manifest['metadata']['name']}"
            named = self.scene.see(manifest)
            self.present[key] = manifest
            own = [manifest["metadata"]["name"]] if manifest["kind"] == "Pod" else []
            self.note([*named, *own])

    def note(self, named: list[str]) -> None:
        """Ask about the named pods, and check that all others cost what they did."""
        for name in named:
            self.answers[name] = self.scene.count(name)
        self.answers = {name: self.answers[name] for name in self.scene.rows}
        assert self.answers == {name: self.scene.count(name) for name in self.scene.rows}
        counted = [each for each in self.answers.values() if isinstance(each, Counted)]
        self.met |= {each.reason.partition(":")[0].partition(", ")[2] for each in counted}

    def check_anew(self) -> None:
        """A counter that is told only of what is present gives the same answers."""
        scene = VmScene(self.mode)
        scene.see(*self.present.values())
        assert self.answers == {name: scene.count(name) for name in scene.rows}

    # ------------------------------------------------------------------ what happens

    def pod(self) -> dict:
        luck = self.luck
        vm = luck.choice(VMS)
        pod = a_launcher(
            luck.choice(PODS),
            luck.choice(["cpu=1 memory=9Gi", "cpu=2 memory=9Gi"]),
            vmi=vm,
            uid=luck.choice([f"{vm}-1", f"{vm}-1", f"{vm}-2"]),
            node=luck.choice(["", *NODES]),
            migration=luck.choice(["", *MOVES]),
            created=luck.randrange(4),
            status={"phase": luck.choice(["Pending", "Running", "Running", "Succeeded"])},
        )
        if luck.random() < 0.1:
            del pod["metadata"]["labels"]["kubevirt.io"]
        return pod

    def changed_pod(self) -> dict:
        """A known pod, with one thing changed: its gates, its owner or its compute container."""
        known = [each for each in self.present.values() if each["kind"] == "Pod"]
        pod = deepcopy(self.luck.choice(known or [self.pod()]))
        match self.luck.randrange(3):
            case 0:
                gates = [] if pod["spec"].get("schedulingGates") else [{"name": GATE}]
                pod["spec"]["schedulingGates"] = gates
            case 1:
                [owner] = pod["metadata"]["ownerReferences"]
                owner["uid"] = self.luck.choice([f"{owner['name']}-1", f"{owner['name']}-2"])
            case _:
                for container in pod["spec"]["containers"]:
                    container["name"] = {"compute": "other"}.get(container["name"], "compute")
        return pod

    def vmi(self) -> dict:
        luck = self.luck
        name = luck.choice(VMS)
        pods = {"sourcePod": luck.choice(PODS), "targetPod": luck.choice(PODS)}
        return a_vmi(
            name,
            cores=luck.choice([2, 4]),
            uid=luck.choice([f"{name}-1"] * 5 + [f"{name}-2"]),
            node=luck.choice(["", *NODES, *NODES]),
            migrationState=luck.choice([{}, pods]),
            currentCPUTopology={"cores": luck.choice([2, 4])},
        )

    def move(self) -> dict:
        luck = self.luck
        number = luck.randrange(len(MOVES))
        phase = luck.choice(["", "Succeeded", "Failed"])
        return a_migration(MOVES[number], luck.choice(VMS), phase=phase, created=number)

    def settings(self) -> dict:
        ratio = self.luck.choice(["", "2"])
        return a_kubevirt(additionalGuestMemoryOverheadRatio=ratio)

    def state(self) -> None:
        """A kind goes and comes back: the counter forgets its objects and is told again."""
        counter = self.scene.counter
        kind, set_state = self.luck.choice(
            [
                ("VirtualMachineInstance/", counter.set_vmi_state),
                ("VirtualMachineInstanceMigration/", counter.set_migration_state),
                ("KubeVirt/", counter.set_kubevirt_state),
            ]
        )
        gone = self.luck.choice([KindState.ABSENT, KindState.SYNCING])
        self.note([row.name for row in set_state(gone)])
        for key in [each for each in self.present if each.startswith(kind)]:
            if self.luck.random() < 0.3:
                del self.present[key]
            else:
                self.note(self.scene.see(self.present[key]))
        self.note([row.name for row in set_state(KindState.SYNCED)])


@pytest.mark.parametrize("batch", one_quick(range(4)))
def test_a_pod_that_is_not_named_costs_what_it_cost_before(batch):
    met: set[str] = set()
    for seed in range(batch * 15, batch * 15 + 15):
        life = Life(seed)
        for step in range(STEPS):
            life.step()
            if step % 4 == 0:
                life.check_anew()
        met |= life.met

    assert met == {"", "migration target", "left over from a migration"}


def test_nothing_is_remembered_of_what_is_gone():
    life = Life(1)
    for _ in range(STEPS):
        life.step()
    for key in sorted(life.present):
        life.scene.lose(life.present.pop(key))

    assert life.scene.counter._vms == {}
    assert life.scene.counter._vm_of_pod == {}
    assert life.scene.counter._vm_of_migration == {}
