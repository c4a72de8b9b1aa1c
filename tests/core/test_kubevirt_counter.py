"""The counter of VMs: what it waits for, what it counts again, and what forged pods cost."""

import pytest

from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.model.pod_row import NAMES_MAX, TOO_MANY_NAMES
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NotReady
from bursar.core.quota.quota import GATE
from support.builders.pods import listed
from support.builders.quota_books import NOW_S, a_key, a_namespace, a_quota
from support.builders.vms import a_kubevirt, a_launcher, a_migration, a_vmi
from support.counting.vm_scene import VmScene

SOURCE = a_launcher("old", node="n1")
TARGET = a_launcher("new", node="n2", migration="move", created=2)
GONE = "VirtualMachineInstance db with uid vmi-of-db does not exist (yet)"
DEDICATED = "instances/vmi={0} requests.instances/vmi={0} cpu/vmi={1} requests.cpu/vmi={1} "


def dedicated(instances, cpu, memory):
    names = DEDICATED.format(instances, cpu)
    return listed(f"{names} memory/vmi={memory} requests.memory/vmi={memory}")


@pytest.fixture
def scene():
    """A VM of four vCPUs on node n1."""
    scene = VmScene(VmiMode.DEDICATED)
    scene.see(a_vmi(node="n1"), SOURCE)
    return scene


# ------------------------------------------------------------------ what it waits for


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        ("vmi", "the VirtualMachineInstances of the cluster are not listed yet"),
        ("migration", "the VirtualMachineInstanceMigrations are not listed yet"),
        ("kubevirt", "the KubeVirt object is not listed yet"),
    ],
)
def test_a_target_waits_until_everything_is_listed_that_decides_its_cost(state, detail):
    scene = VmScene(VmiMode.GUEST_EFFECTIVE, is_synced=False)
    scene.set_states(KindState.SYNCED)
    set_state = getattr(scene.counter, f"set_{state}_state")
    set_state(KindState.SYNCING)
    scene.see(a_vmi(node="n1"), a_migration(), SOURCE, TARGET)
    assert scene.waits_for("new") == detail

    recounted = {row.name for row in set_state(KindState.SYNCED)}

    assert recounted == {"old", "new"}
    assert scene.cost("new")["pods"] == "0"


def test_the_source_does_not_wait_for_migrations(scene):
    scene.counter.set_migration_state(KindState.SYNCING)

    assert scene.reason("old") == "VM db: 4 vCPUs, 8Gi"


def test_a_launcher_with_very_many_resource_names_waits(scene):
    """Its other names would cost nothing as a VM."""
    names = " ".join(f"example.com/r{number}=1" for number in range(NAMES_MAX + 1))
    scene.see(a_launcher("old", names, node="n1"))

    assert scene.waits_for("old") == TOO_MANY_NAMES


def test_without_kubevirt_pods_are_counted_natively_and_nothing_is_remembered(scene):
    scene.set_states(KindState.ABSENT)
    assert scene.count("old") is None

    scene.set_states(KindState.SYNCED)

    assert scene.waits_for("old") == GONE


def test_a_target_waits_for_its_migration(scene):
    """Natively it would cost nothing of what a quota of VMs lists, and would pass it."""
    scene.see(TARGET)
    unknown = "VirtualMachineInstanceMigration move with uid uid-of-move does not exist (yet)"
    assert scene.waits_for("new") == unknown

    assert scene.see(a_migration()) == ["new", "old"]
    assert scene.cost("new") == dedicated(0, 0, 0)
    assert scene.reason("new") == "VM db, migration target: 0 more than the source"

    assert scene.lose(a_migration()) == ["new", "old"]
    assert scene.waits_for("new") == unknown


def test_a_migration_that_succeeded_counts_until_the_vm_has_its_new_node(scene):
    scene.see(a_migration(phase="Succeeded"), TARGET)

    assert scene.reason("new") == "VM db, migration target: 0 more than the source"


def test_the_launcher_of_a_vm_that_was_replaced_under_its_name_waits(scene):
    scene.see(a_vmi(node="n1", uid="another"))

    assert scene.waits_for("old") == GONE


def test_a_pod_of_an_earlier_vm_of_that_name_does_not_take_the_place_of_the_source(scene):
    late = a_launcher("late", node="n1", created=2)
    new = a_launcher("next", uid="another", node="n1", created=1)
    scene.see(a_vmi(node="n1", uid="another"), new, late)

    assert scene.reason("next") == "VM db: 4 vCPUs, 8Gi"


def test_a_vm_that_is_gone_leaves_its_launcher_waiting(scene):
    assert scene.lose(a_vmi()) == ["old"]

    assert scene.waits_for("old") == GONE
    assert scene.lose(SOURCE) == []
    assert scene.counter._vms == {}


def test_a_finished_launcher_is_not_counted_here(scene):
    assert scene.see({**SOURCE, "status": {"phase": "Succeeded"}}) == []

    assert scene.count("old") is None
    scene.lose(SOURCE)
    scene.lose(a_vmi())
    assert scene.counter._vms == {}


# ------------------------------------------------------------------ what is counted again


def test_changes_of_other_vms_concern_nobody_else(scene):
    scene.see(a_launcher("web-1", vmi="web", node="n1"))

    assert scene.see(a_vmi("web", node="n1")) == ["web-1"]
    assert scene.see(a_vmi("web", node="n1")) == []
    assert scene.see(a_vmi("web", node="n1", cores=8)) == ["web-1"]
    assert scene.see(a_migration("other", "web")) == ["web-1"]
    assert scene.see(a_migration("other", "web")) == []
    assert scene.see(SOURCE) == []


def test_the_pod_of_an_earlier_migration_is_counted_again_when_that_migration_goes(scene):
    scene.see(a_migration(), a_migration("later", created=2), TARGET)
    assert scene.count("new") is None

    assert scene.lose(a_migration()) == ["new", "old"]
    assert "migration" in scene.waits_for("new").lower()
    assert scene.see(a_migration()) == ["new", "old"]


def test_pods_without_a_role_are_not_counted_again():
    """Else each of a thousand forged pods would make every change a thousand times as dear."""
    scene = VmScene(VmiMode.POD_USAGE)
    scene.see(a_vmi(node="n1"), SOURCE)
    strangers = [a_launcher(f"stranger-{n}", node="n9") for n in range(20)]

    assert scene.see(*strangers) == []
    assert scene.see(a_vmi(node="n1", cores=8)) == ["old"]
    assert scene.see(a_migration(), TARGET) == ["old"]
    assert [scene.lose(each) for each in strangers[:2]] == [[], []]
    assert scene.lose(SOURCE) != []


def test_pods_of_another_vm_of_that_name_are_not_counted_again():
    """Else a tenant with a thousand of them need only delete and create a VM all the time."""
    scene = VmScene(VmiMode.POD_USAGE)
    strangers = [a_launcher(f"stranger-{n}", uid="none", node="n1") for n in range(20)]
    scene.see(*strangers, SOURCE)
    waiting = scene.waits_for("stranger-3")

    assert scene.see(a_vmi(node="n1")) == ["old"]
    assert scene.waits_for("stranger-3") == waiting
    assert scene.see(a_vmi(node="n1", uid="another")) == ["old"]
    assert scene.waits_for("stranger-3") == waiting
    assert scene.lose(a_vmi(node="n1", uid="another")) == []
    assert scene.see(a_vmi(node="n1")) == scene.lose(a_vmi(node="n1")) == ["old"]


def test_a_target_is_counted_again_when_its_source_changes():
    scene = VmScene(VmiMode.POD_USAGE)
    scene.see(a_vmi(node="n1"), a_migration(), SOURCE, TARGET)

    assert scene.see(a_launcher("old", "cpu=100m memory=9Gi", node="n1")) == ["new"]
    assert scene.cost("new")["cpu"] == "300m"
    assert scene.reason("new") == "VM db, migration target: cpu 300m more than the source"


def test_a_target_is_counted_again_when_only_the_container_of_its_source_changes():
    """A large init container hides the change of the container from what the pod requests."""
    scene = VmScene(VmiMode.GUEST_EFFECTIVE)
    init = {"name": "init", "image": "i", "resources": {"requests": listed("cpu=8 memory=9Gi")}}

    def source(requests):
        pod = a_launcher("old", requests, node="n1")
        pod["spec"]["initContainers"] = [init]
        return pod

    scene.see(a_vmi(node="n1"), a_migration(), source("cpu=400m memory=9Gi"), TARGET)

    assert scene.see(source("cpu=100m memory=9Gi")) == ["new"]
    assert scene.cost("new")["cpu"] == "300m"


def test_a_pod_that_changes_its_owner_leaves_the_first_vm(scene):
    scene.see(a_vmi("web", node="n1"), a_migration(), TARGET)

    assert scene.see(a_launcher("old", vmi="web", node="n1")) == ["new"]
    assert scene.reason("old") == "VM web: 4 vCPUs, 8Gi"
    assert scene.reason("new") == "VM db: 4 vCPUs, 8Gi"

    plain = a_launcher("old", node="n1")
    del plain["metadata"]["ownerReferences"]
    assert scene.see(plain) == []
    assert scene.count("old") is None


@pytest.mark.parametrize("mode", [VmiMode.POD_USAGE, VmiMode.GUEST_EFFECTIVE])
def test_settings_of_kubevirt_matter_in_one_mode_only(mode):
    scene = VmScene(mode)
    scene.see(a_vmi(node="n1"), SOURCE)
    matters = mode is VmiMode.GUEST_EFFECTIVE
    leaving = a_kubevirt("a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert scene.see(leaving) == []
    assert scene.see(a_kubevirt("b")) == (["old"] if matters else [])
    assert scene.see(a_kubevirt("b")) == scene.see(a_kubevirt("c")) == []
    assert scene.see(a_kubevirt("b", additionalGuestMemoryOverheadRatio="2")) == (
        ["old"] if matters else []
    )
    assert scene.lose(a_kubevirt("b")) == (["old"] if matters else [])


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids=str)
def test_of_several_kubevirt_objects_the_first_by_name_counts(names):
    """The order in which a watch shows them must not change a charge."""
    scene = VmScene(VmiMode.GUEST_EFFECTIVE)
    scene.see(a_vmi(node="n1"), SOURCE)
    ratios = {"a": "1", "b": "2"}
    for each in names:
        scene.see(a_kubevirt(each, additionalGuestMemoryOverheadRatio=ratios[each]))

    assert scene.reason("old") == "VM db: container compute without 292Mi of memory overhead"


# ------------------------------------------------------------------ growth and names


def test_a_hotplug_that_does_not_fit_is_charged_at_the_target(scene):
    small = {"memory": {"guestRequested": "8Gi"}, "currentCPUTopology": {"cores": 4}}
    scene.see(a_migration(), TARGET, a_vmi(node="n1", cores=6, guest_memory="9Gi", **small))

    assert scene.cost("old") == dedicated(1, 4, "8Gi")
    assert scene.cost("new") == dedicated(0, 2, "1Gi")
    grown = "cpu/vmi 2, memory/vmi 1Gi more than the source"
    assert scene.reason("new") == f"VM db, migration target: {grown}"


@pytest.mark.parametrize("mode", [VmiMode.POD_USAGE, VmiMode.GUEST_EFFECTIVE])
def test_9_1_10_a_hotplug_is_charged_where_pods_are_counted(mode):
    scene = VmScene(mode)
    grown = a_launcher("new", "cpu=600m memory=10Gi", node="n2", migration="move")
    scene.see(a_vmi(node="n1"), a_migration(), SOURCE, grown)

    assert scene.cost("new") == listed(
        "pods=0 count/pods=0 cpu=200m requests.cpu=200m memory=1Gi requests.memory=1Gi"
    )


def test_only_dedicated_mode_has_names_of_its_own(scene):
    names = ["cpu/vmi", "requests.cpu/vmi", "requests.instances/vmi", "memory/vmi"]

    assert all(map(scene.counter.may_charge, names))
    assert not scene.counter.may_charge("limits.cpu/vmi")
    assert not VmScene(VmiMode.VIRTUAL).counter.may_charge("cpu/vmi")


def test_one_vcpu_is_not_plural():
    scene = VmScene(VmiMode.VIRTUAL)
    scene.see(a_vmi(node="n1", cores=1), SOURCE)

    assert scene.reason("old") == "VM db: 1 vCPU, 8Gi"
    assert VmScene(VmiMode.POD_USAGE).counter.name == "kubevirt"


# ------------------------------------------------------------------ tenants


def test_a_pod_that_only_looks_like_a_launcher_is_counted_natively(scene):
    scene.see(a_launcher("forged", "cpu=96", node="n3"))

    assert scene.count("forged") is None
    assert scene.reason("old") == "VM db: 4 vCPUs, 8Gi"


def test_a_forged_leftover_pays_for_what_it_has_more_than_the_vm():
    scene = VmScene(VmiMode.POD_USAGE)
    state = {"migrationState": {"sourcePod": "forged", "targetPod": "old"}}
    scene.see(a_vmi(node="n1", **state), SOURCE, a_launcher("forged", "cpu=96", node="n3"))

    assert scene.cost("forged") == {"cpu": "95600m", "requests.cpu": "95600m"}
    left = "left over from a migration: cpu 95600m more than the source"
    assert scene.reason("forged") == f"VM db, {left}"


@pytest.mark.parametrize("phase", ["", "Failed"], ids=["target", "leftover"])
def test_many_pods_that_claim_one_migration_pay_for_themselves(phase):
    """Each would cost only what it requests more than the VM, which is nothing."""
    scene = VmScene(VmiMode.POD_USAGE)
    scene.see(a_vmi(node="n1"), a_migration(phase=phase), SOURCE, TARGET)
    forged = [f"new-{number}" for number in range(20)]
    scene.see(*(a_launcher(name, node="n9", migration="move") for name in forged))

    assert [scene.count(name) for name in forged] == [None] * 20
    assert scene.see(a_launcher("new-3", node="n8", migration="move")) == []


GATED = {"schedulingGates": [{"name": GATE}]}


def gated(pod):
    return {**pod, "spec": {**pod["spec"], **GATED}}


@pytest.mark.parametrize("phase", ["", "Failed"], ids=["target", "leftover"])
def test_a_vm_whose_pod_is_gated_pays_for_no_other_pod(phase):
    """Else a VM that fits no quota would make a pod of its size free of charge."""
    scene = VmScene(VmiMode.POD_USAGE)
    large = a_launcher("large", "cpu=96", created=2)
    forged = a_launcher("forged", "cpu=96", migration="move", created=1)
    scene.see(a_vmi(), a_migration(phase=phase), gated(large), forged)
    assert scene.waits_for("forged") == "pod large, which is to run the VM, is still gated"

    assert scene.see(large) == ["forged"]

    assert scene.cost("forged").get("cpu", "0") == "0"


ABSURD_CPU = {"cores": 2**32 - 1, "sockets": 2**32 - 1, "threads": 2**32 - 1}


@pytest.mark.parametrize(
    "absurd",
    [{"cpu": ABSURD_CPU}, {"memory": {"guest": "-1Gi"}}],
    ids=["too many vCPUs", "negative memory"],
)
def test_absurd_amounts_of_a_vm_hold_its_pod_and_charge_nobody(absurd):
    scene = VmScene(VmiMode.DEDICATED)
    vmi = a_vmi(node="n1")
    vmi["spec"]["domain"] |= absurd
    scene.see(vmi, SOURCE)

    answer = Counters([scene.counter]).count(scene.rows["old"])

    assert isinstance(answer, NotReady)
    assert "which no pod can cost" in answer.detail


def test_a_launcher_keeps_its_charge_while_its_vm_is_deleted_first():
    scene = VmScene(VmiMode.DEDICATED)
    scene.see(a_vmi(node="n1"), SOURCE)
    counters = Counters([scene.counter])
    books = Books(counters.count, related=counters)
    books.advance(NOW_S)
    books.see_namespace(a_namespace("team"))
    books.see_quota(a_quota("team/q", "instances/vmi=1"))
    books.see_pod(scene.rows["old"])
    account = books.coverage.quota(a_key("team/q")).accounts["instances/vmi"]
    assert str(account.used) == "1"

    scene.lose(a_vmi())
    books.recount_pod(scene.rows["old"])
    assert str(account.used) == "1"

    scene.see({**SOURCE, "status": {"phase": "Succeeded"}})
    books.see_pod(scene.rows["old"])
    assert str(account.used) == "0"
