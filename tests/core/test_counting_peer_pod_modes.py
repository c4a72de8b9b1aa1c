"""Modes of counting peer pods, the reasons of their charges, and pods that are not peer pods."""

import pytest

from bursar.core.counting.peer_pods import (
    PeerPodCounting,
    PeerPodMode,
)
from bursar.core.peerpods.instances import InstanceType
from support.builders.peer_pods import (
    KATA,
    RECORD,
    VM,
    a_peer_pod,
    main,
    rewritten,
)
from support.counting.peer_pods import (
    CATALOGUE,
    FORGED,
    GPU,
    OVERHEAD,
    a_counter,
    annotated,
    charged,
    counted,
    cpus,
    row_of,
)


def test_the_reason_tells_the_size_and_where_it_was_found():
    raw = a_peer_pod(main(f"cpu=96 {GPU}=8", f"{GPU}=8"), annotations={f"{KATA}machine_type": "xl"})
    catalogue = (InstanceType(name="xl", vcpus=96, memory_mib=1 << 20, gpus=8),)

    assert counted(rewritten(raw).document, a_counter(catalogue=catalogue)).reason == (
        "VM of 96 CPUs, 1Ti of memory, 8 GPUs; the greatest of containers, record, size "
        "annotations, instance type 'xl'"
    )
    assert counted(a_peer_pod(main("cpu=2"))).reason == (
        "VM of 2 CPUs, unknown memory; the greatest of containers"
    )


def test_the_reason_names_the_default_type_and_the_overhead():
    raw = a_peer_pod(main(f"{VM}=1", f"{VM}=1"), overhead=OVERHEAD)
    counter = a_counter(catalogue=CATALOGUE, default_type="small")

    assert counted(raw, counter).reason == (
        "VM of 2 CPUs, 4Gi of memory; the greatest of containers, default type 'small'; "
        "plus overhead: cpu 250m, memory 120Mi"
    )
    assert counted(raw).reason == (
        "VM of unknown size: the pod tells none, and there is no --peerpod-default-type; "
        "plus overhead: cpu 250m, memory 120Mi"
    )
    assert counted(annotated(default_gpus="1")).reason == (
        "VM of unknown CPUs, unknown memory, 1 GPUs; the greatest of containers, size annotations"
    )


# ------------------------------------------------------------------ modes and other pods


def test_dedicated_names_hold_the_vm_and_native_names_what_the_worker_provides():
    raw = a_peer_pod(
        main(f"cpu=3500m memory=8Gi {GPU}=2 example.com/licence=1", f"{GPU}=2"), overhead=OVERHEAD
    )

    amounts = charged(rewritten(raw).document, a_counter(PeerPodMode.DEDICATED))

    vm = {"cpu": "4", "memory": "8Gi", "gpus": "2", "instances": "1"}
    assert amounts == {
        **{f"{name}/peerpod": amount for name, amount in vm.items()},
        **{f"requests.{name}/peerpod": amount for name, amount in vm.items()},
        "requests.example.com/licence": "1",
        f"requests.{VM}": "1",
        **dict.fromkeys(("cpu", "requests.cpu"), "250m"),
        **dict.fromkeys(("memory", "requests.memory"), "120Mi"),
    }


def test_dedicated_names_do_not_hide_limits_that_the_rewrite_removed():
    """Nor the overhead on top of what it removed."""
    raw = a_peer_pod(
        main("cpu=1 ephemeral-storage=3Gi", "cpu=1 ephemeral-storage=50Gi"),
        overhead={"ephemeral-storage": "1Gi"},
    )

    amounts = charged(rewritten(raw).document, a_counter(PeerPodMode.DEDICATED))

    assert amounts["requests.ephemeral-storage"] == "4Gi"
    assert amounts["limits.ephemeral-storage"] == "51Gi"
    assert not {"cpu", "requests.cpu", "limits.cpu"} & set(amounts)


def test_a_quota_can_list_dedicated_names_only_if_they_are_charged():
    dedicated = a_counter(PeerPodMode.DEDICATED)
    names = ("cpu/peerpod", "requests.instances/peerpod")

    assert all(map(dedicated.may_charge, names))
    assert not any(map(a_counter().may_charge, names))
    assert not dedicated.may_charge("cpu/vmi")


def test_other_pods_are_none_of_this_counters():
    raw = a_peer_pod(main("cpu=1"), annotations={RECORD: FORGED, f"{KATA}default_vcpus": "96"})
    for name in (None, "", "kata", "kata-remote-cc"):
        raw["spec"]["runtimeClassName"] = name
        assert counted(raw) is None
        assert row_of(raw, a_counter()).facts is None
    del raw["spec"]["runtimeClassName"]
    assert row_of(raw, a_counter()).facts is None

    raw["spec"]["runtimeClassName"] = "kata-remote-cc"
    assert cpus(raw, a_counter(runtime_classes=frozenset({"kata-remote-cc"}))) == ("96", "96")


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        ({"default_type": "small"}, "default type 'small' is not in the catalogue"),
        ({"gpu_resources": ("cpu",)}, "'cpu' is not the name of an extended resource"),
        ({"runtime_classes": frozenset()}, "at least one is needed"),
        ({"runtime_classes": frozenset({"a", ""})}, "none may be empty"),
    ],
)
def test_contradictions_in_settings_are_refused(chosen, complaint):
    with pytest.raises(ValueError, match=complaint):
        PeerPodCounting(**chosen)
