"""VMs under quotas on a real API server with KubeVirt's kinds; the test does KubeVirt's work."""

import json
from collections.abc import Iterator

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.counting.kinds import KUBEVIRTS, MIGRATIONS, VMIS
from bursar.app.install.policies.launcher_protection import (
    NO_STATUS_YET,
    ONLY_KUBEVIRT_CHANGES,
    ONLY_KUBEVIRT_CREATES,
)
from controlplane import ControlPlane
from support.builders.vms import KUBEVIRT_DEFINITIONS, a_launcher, a_vmi
from support.counting.migration_story import MigrationStory
from support.install.printed import printed
from support.processes.command_line import Ran
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import Controllers, administering
from support.until import until_sync

DEFINITIONS = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*KUBEVIRT_DEFINITIONS]})
VIRT = "system:serviceaccount:virt:kubevirt-controller"


def run(plane: ControlPlane, *arguments: str, stdin: str = "") -> str:
    ran = try_kubectl(plane, *arguments, stdin=stdin)
    assert ran.code == 0, ran.err
    return ran.out


def install_kubevirt(plane: ControlPlane) -> None:
    run(plane, "apply", "--server-side", "-f", "-", stdin=DEFINITIONS)
    kinds = [f"crd/{each}" for each in (VMIS, MIGRATIONS, KUBEVIRTS)]
    run(plane, "wait", "--for=condition=Established", "--timeout=120s", *kinds)


def remove_kubevirt(plane: ControlPlane) -> None:
    run(plane, "delete", "--ignore-not-found", "-f", "-", stdin=DEFINITIONS)


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture(scope="module")
def kubevirt(control_plane) -> Iterator[ControlPlane]:
    install_kubevirt(control_plane)
    yield control_plane
    remove_kubevirt(control_plane)


@pytest.mark.parametrize(
    ("mode", "resource", "one"),
    [
        ("DedicatedVirtualResources", "requests.instances/vmi", "1"),
        ("VmiPodUsage", "requests.memory", "9Gi"),
    ],
)
async def test_a_vm_migrates_under_a_quota_of_one_vm(kubevirt, tmp_path, mode, resource, one):
    async with administering(kubevirt) as people:
        namespace = await people.namespace("vms")
        with Controllers(kubevirt, tmp_path, f"--vmi-mode={mode}") as controllers:
            story = MigrationStory(people.client, namespace, resource, people.settle)
            async with story.watched(one):
                await story.live(one)
            logs = controllers.logs()
        assert "Traceback" not in logs, logs


async def test_kubevirt_comes_and_goes(control_plane, tmp_path):
    remove_kubevirt(control_plane)
    async with administering(control_plane) as people:
        namespace = await people.namespace("vms")
        story = MigrationStory(people.client, namespace, "instances/vmi", people.settle)
        options = ("--vmi-mode=DedicatedVirtualResources",)
        with Controllers(control_plane, tmp_path, *options) as controllers:
            async with story.watched("1"):
                await people.settle()
                assert set(story.shown) == {"0"}

                install_kubevirt(control_plane)
                await story.start_vm()
                await story.wait_used("1")

                remove_kubevirt(control_plane)
                await story.wait_used("0")
                await story.delete(PODS, "old")
            logs = controllers.logs()
        assert "Traceback" not in logs, logs


# ------------------------------------------------------------------ tenants


class Tenancy:
    """A gated namespace that the policies protect."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane, self.namespace = plane, namespace

    def kubectl(self, user: str, *arguments: str, stdin: str = "") -> Ran:
        groups = ["system:masters"]  # Permissions are not what is tested here.
        if user == VIRT:
            groups += ["system:serviceaccounts", "system:serviceaccounts:virt"]
        who = [f"--as={user}", *(f"--as-group={group}" for group in groups)]
        return try_kubectl(self.plane, "-n", self.namespace, *who, *arguments, stdin=stdin)

    def launcher(self, name: str = "launcher") -> dict:
        """A launcher of a VM that exists: the garbage collector deletes any other."""
        vmi = try_kubectl(
            self.plane, "get", "virtualmachineinstance", "db", "-n", self.namespace, "-o", "json"
        )
        pod = a_launcher(name, uid=json.loads(vmi.out)["metadata"]["uid"])
        for key in ("uid", "creationTimestamp"):
            del pod["metadata"][key]
        pod["spec"]["schedulerName"] = "nobody"
        return pod

    def create(self, user: str, body: dict, *arguments: str) -> Ran:
        text = json.dumps({**body, "metadata": {**body["metadata"], "namespace": self.namespace}})
        return self.kubectl(user, "create", "-f", "-", *arguments, stdin=text)

    def change(self, user: str, change: dict, *arguments: str) -> Ran:
        patch = ("patch", "pod", "launcher", "--type=merge", "-p", json.dumps(change))
        return self.kubectl(user, *patch, *arguments)


@pytest.fixture
async def tenancy(kubevirt):
    install_kubevirt(kubevirt)
    policies = printed("kubevirt", "--kubevirt-namespace=virt")
    async with administering(kubevirt) as people:
        tenancy = Tenancy(kubevirt, await people.namespace("tenant"))
        assert tenancy.create("eve", a_vmi("db")).code == 0
        run(kubevirt, "apply", "-f", "-", stdin=policies)
        try:
            until_sync(lambda: is_protected(tenancy), "the policies are in force")
            yield tenancy
        finally:
            run(kubevirt, "delete", "--ignore-not-found", "-f", "-", stdin=policies)


def with_status() -> dict:
    status = {"memory": {"guestRequested": "1Mi"}, "currentCPUTopology": {"cores": 1}}
    return {**a_vmi("cheap"), "status": status}


def is_protected(tenancy: Tenancy) -> bool:
    trial = "--dry-run=server"
    forged = tenancy.create("eve", tenancy.launcher("probe"), trial)
    vmi = tenancy.create("eve", with_status(), trial)
    return ONLY_KUBEVIRT_CREATES in forged.err and NO_STATUS_YET in vmi.err


def test_only_kubevirt_makes_launchers_and_changes_what_makes_them(tenancy):
    assert tenancy.create(VIRT, tenancy.launcher()).code == 0
    assert ONLY_KUBEVIRT_CREATES in tenancy.create("eve", tenancy.launcher("forged")).err
    # A service account of that name in a namespace of the tenant's is not KubeVirt.
    other = "system:serviceaccount:eve:kubevirt-controller"
    assert ONLY_KUBEVIRT_CREATES in tenancy.create(other, tenancy.launcher("forged")).err

    trial = "--dry-run=server"
    changes = [
        {"labels": {"kubevirt.io": None}},
        {"labels": {"kubevirt.io/migrationJobUID": "m"}},
        {"annotations": {"kubevirt.io/migrationJobName": "m"}},
        {"ownerReferences": []},
    ]

    def is_kept() -> bool:
        """The policy on updates may come into force later than the one on creation."""
        return all(
            ONLY_KUBEVIRT_CHANGES in tenancy.change("eve", {"metadata": change}, trial, *part).err
            for change in changes
            for part in ((), ("--subresource=status",))
            # The status subresource leaves owners as they are.
            if not (part and "ownerReferences" in change)
        )

    until_sync(is_kept, "all changes by the tenant are denied")
    assert tenancy.change("eve", {"metadata": {"labels": {"mine": "1"}}}).code == 0
    assert tenancy.change(VIRT, {"metadata": changes[1]}).code == 0


def test_an_ordinary_pod_cannot_become_a_launcher(tenancy):
    pod = tenancy.launcher()
    owners = pod["metadata"].pop("ownerReferences")
    assert tenancy.create("eve", pod).code == 0

    def is_denied() -> bool:
        change = {"metadata": {"ownerReferences": owners}}
        return ONLY_KUBEVIRT_CHANGES in tenancy.change("eve", change, "--dry-run=server").err

    until_sync(is_denied, "the pod stays an ordinary pod")


def test_a_new_vm_has_no_status_of_its_author(tenancy):
    assert NO_STATUS_YET in tenancy.create("eve", with_status()).err
    assert tenancy.create("eve", a_vmi("plain")).code == 0
    assert tenancy.create(VIRT, with_status()).code == 0
