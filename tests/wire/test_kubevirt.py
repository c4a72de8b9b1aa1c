"""Decoding of KubeVirt's objects, and what a pod says about the VM that owns it."""

import pytest

from bursar.core.kubevirt.vmi import CpuTopology, Guest, KubeVirt, KubeVirtSettings, Migration, Vmi
from bursar.core.model.quantity import Quantity
from bursar.wire.kubevirt import (
    decode_kubevirt,
    decode_migration,
    decode_vmi,
)
from bursar.wire.launcher_pods import derive_launcher_facts
from bursar.wire.structs.fields import FieldError
from support.builders.pods import listed, parsed, texts
from support.builders.vms import a_kubevirt, a_launcher, a_migration, a_vmi, encoded


def test_an_empty_vmi_states_nothing():
    body = encoded({"metadata": {"name": "db"}})

    assert decode_vmi(body) == Vmi(namespace="", name="db", uid="", guest=Guest())


def test_everything_that_decides_the_cost_of_a_vm_is_decoded():
    domain = {
        "resources": {
            "requests": {"memory": "1Gi", "cpu": 2, "example.com/gpu": "1"},
            "limits": {"cpu": "3"},
        },
        "memory": {"guest": "4Gi", "hugepages": {"pageSize": "2Mi"}},
        "cpu": {"cores": 2, "sockets": 3, "dedicatedCpuPlacement": True, "model": "host"},
        "devices": {
            "autoattachGraphicsDevice": False,
            "tpm": {},
            "gpus": [{"name": "g"}],
            "interfaces": [{"name": "a", "binding": {"name": "passt"}}, {"name": "b"}]
            + [{"name": "c", "binding": {"name": "passt"}}],
        },
        "launchSecurity": {"sev": {}},
    }
    body = encoded(
        {
            "metadata": {"name": "db", "namespace": "team", "uid": "u"},
            "spec": {
                "domain": domain,
                "architecture": "arm64",
                "volumes": [{"name": "v"}, {"name": "m", "downwardMetrics": {}}],
                "livenessProbe": {"exec": {"command": ["true"]}},
                "readinessProbe": {"httpGet": {"port": 80}},
            },
            "status": {
                "nodeName": "n1",
                "memory": {"guestRequested": "2Gi", "guestCurrent": "1Gi"},
                "currentCPUTopology": {"cores": 1, "sockets": 1, "threads": 1},
                "migrationState": {"sourcePod": "old", "targetPod": "new"},
            },
        }
    )

    assert decode_vmi(body) == Vmi(
        namespace="team",
        name="db",
        uid="u",
        guest=Guest(
            requests=parsed("memory=1Gi cpu=2"),
            limits=parsed("cpu=3"),
            memory=Quantity.parse("4Gi"),
            cpu=CpuTopology(cores=2, sockets=3),
            has_dedicated_cpus=True,
            architecture="arm64",
            has_graphics=False,
            has_tpm=True,
            has_vfio=True,
            has_downward_metrics=True,
            has_encrypted_memory=True,
            exec_probes=1,
            binding_plugins=("passt",),
        ),
        node_name="n1",
        requested_memory=Quantity.parse("2Gi"),
        current_cpu=CpuTopology(cores=1, sockets=1, threads=1),
        migration_pods=("old", "new"),
    )


@pytest.mark.parametrize(
    ("devices", "has_vfio", "has_tpm"),
    [
        ({"hostDevices": [{"name": "h"}]}, True, False),
        ({"interfaces": [{"name": "a", "sriov": {}}]}, True, False),
        ({"gpus": [], "hostDevices": [], "tpm": {"enabled": False}}, False, False),
        ({"tpm": {"enabled": True}}, False, True),
    ],
    ids=["host device", "SR-IOV", "none", "TPM"],
)
def test_devices_that_need_memory(devices, has_vfio, has_tpm):
    vmi = a_vmi()
    vmi["spec"]["domain"]["devices"] = devices

    guest = decode_vmi(encoded(vmi)).guest
    assert (guest.has_vfio, guest.has_tpm, guest.has_graphics) == (has_vfio, has_tpm, True)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cpu": {"cores": -1}}, "spec.domain.cpu"),
        ({"cpu": {"threads": 2**32}}, "spec.domain.cpu"),
        ({"cpu": {"cores": "two"}}, "spec.domain.cpu.cores"),
        ({"memory": {"guest": "much"}}, "spec.domain.memory.guest"),
        ({"resources": {"limits": {"cpu": "x"}}}, "spec.domain.resources.limits[cpu]"),
    ],
    ids=["negative", "more than a uint32", "text", "no amount", "no limit"],
)
def test_a_vmi_that_kubevirt_would_not_accept_is_refused_with_the_field(change, field):
    vmi = a_vmi()
    vmi["spec"]["domain"] = change

    with pytest.raises(FieldError) as error:
        decode_vmi(encoded(vmi))

    assert error.value.field == field


def test_a_migration_is_decoded():
    assert decode_migration(encoded(a_migration(phase="Failed"))) == Migration(
        namespace="team",
        name="move",
        uid="uid-of-move",
        vmi_name="db",
        created_s=1_767_225_660,
        is_failed=True,
    )
    assert decode_migration(encoded({"metadata": {"name": "m"}})) == Migration(
        namespace="", name="m", uid="", vmi_name="", created_s=0
    )


def test_settings_of_kubevirt_are_decoded():
    overhead = {"requests": {"memory": "500Mi", "cpu": "1"}}
    binding = {
        "passt": {"computeResourceOverhead": overhead},
        "slirp": {"computeResourceOverhead": {"limits": {"memory": "1Gi"}}},
        "tap": {},
        "none": None,
    }
    body = encoded(
        a_kubevirt(additionalGuestMemoryOverheadRatio="1.5", network={"binding": binding})
    )

    assert decode_kubevirt(body) == KubeVirt(
        namespace="kubevirt",
        name="kubevirt",
        settings=KubeVirtSettings(overhead_ratio="1.5", plugin_memory=parsed("passt=500Mi")),
    )


def test_a_kubevirt_object_that_is_being_deleted_has_no_settings():
    leaving = a_kubevirt()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plain = encoded({"metadata": {"name": "k"}})

    assert decode_kubevirt(encoded(leaving)).settings is None
    assert decode_kubevirt(plain).settings == KubeVirtSettings()


# ------------------------------------------------------------------ launcher pods


def test_a_launcher_names_its_vm_its_migration_and_the_compute_container():
    pod = a_launcher("p", "cpu=1 memory=1Gi", migration="move")
    pod["spec"] |= {
        "containers": [
            {"name": "hook", "resources": {"requests": {"cpu": "7"}}},
            *pod["spec"]["containers"],
        ],
        "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "9"}}}],
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"cpu": "7"}},
    }

    facts = derive_launcher_facts(encoded(pod))

    assert (facts.vmi_name, facts.vmi_uid) == ("db", "vmi-of-db")
    assert (facts.migration_name, facts.migration_uid) == ("move", "uid-of-move")
    assert texts(facts.compute.quota_requests) == listed("cpu=1 memory=1Gi")


def test_a_migration_that_no_object_can_be_is_not_kept():
    for name in ("m" * 1000, "a\nb", None):
        pod = a_launcher("p", migration="move")
        pod["metadata"]["annotations"] = {"kubevirt.io/migrationJobName": name}

        assert derive_launcher_facts(encoded(pod)).migration_name == ""


def test_a_migration_uid_that_no_object_can_have_is_not_kept():
    pod = a_launcher("p")
    assert derive_launcher_facts(encoded(pod)).migration_uid == ""
    pod["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = "u" * 1000

    assert derive_launcher_facts(encoded(pod)).migration_uid == ""


def labelled(**labels):
    pod = a_launcher("p")
    pod["metadata"]["labels"] = labels
    return pod


def owned_by(**owner):
    pod = a_launcher("p")
    pod["metadata"]["ownerReferences"][0] |= owner
    return pod


def owned_second() -> dict:
    """Another object is the first owner, and a VM the second."""
    pod = a_launcher("p")
    first = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    pod["metadata"]["ownerReferences"].insert(0, first)
    return pod


@pytest.mark.parametrize(
    "pod",
    [
        labelled(),
        labelled(app="virt-launcher"),
        owned_second(),
        owned_by(kind="VirtualMachine"),
        owned_by(apiVersion="example.com/v1"),
        owned_by(apiVersion=None),
        owned_by(name="db\x1b[2J"),
        owned_by(name="d" * 254),
        owned_by(uid=""),
        owned_by(uid="u" * 1000),
        {"metadata": {"annotations": {"mentions": "VirtualMachineInstance"}}},
        {"metadata": {"name": ["VirtualMachineInstance"]}},
        {"metadata": {"labels": {"kubevirt.io": "virt-launcher"}}},
    ],
    ids=[
        *(
            "no label",
            "another label",
            "the second owner",
            "another kind",
            "another group",
            "no group",
            "control characters",
            "a long name",
        ),
        *("no uid", "a long uid", "only mentioned", "unreadable", "no owner"),
    ],
)
def test_other_pods_have_no_such_facts(pod):
    assert derive_launcher_facts(encoded(pod)) is None
