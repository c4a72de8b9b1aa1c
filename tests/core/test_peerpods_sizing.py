"""How large a VM gets. Numbers are those of upstream's worked values; U* are upstream's tests."""

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.settings import Mode, OwnSizes, PeerPodSettings
from support.builders.peer_pods import (
    EFFECTIVE,
    KATA,
    ONE_VM,
    UPSTREAM,
    a_peer_pod,
    init,
    main,
    resources_of,
    rewritten,
    sidecar,
    sized,
    sizes,
)

GPU = "nvidia.com/gpu"
VCPUS = f"{KATA}default_vcpus"

WORKED = {
    "1": (a_peer_pod(main("cpu=2 memory=4Gi", "cpu=3 memory=5Gi")), "3 5120 -"),
    "2": (a_peer_pod(main("cpu=2")), "2 - -"),
    "3": (a_peer_pod(main("memory=4Gi")), "- 4096 -"),
    "4": (a_peer_pod(main(f"{GPU}=1")), "- - 1"),
    "5": (a_peer_pod(main()), "- - -"),
    "6": (a_peer_pod(main("cpu=2 memory=4Gi", "cpu=2 memory=4Gi")), "2 4096 -"),
    "7": (
        a_peer_pod(
            init("cpu=1 memory=2Gi", "cpu=1 memory=2Gi"),
            main("cpu=2 memory=4Gi", "cpu=3 memory=5Gi"),
            main("cpu=1 memory=1Gi", "cpu=1 memory=1Gi"),
            main(f"cpu=1 {GPU}=1", f"cpu=1 {GPU}=1"),
        ),
        "6 8192 1",
    ),
    "8": (a_peer_pod(main("cpu=200m memory=4Gi", "cpu=500m memory=4Gi")), "1 4096 -"),
    "9": (a_peer_pod(main("cpu=200m memory=4Gi", "cpu=1500m memory=4Gi")), "2 4096 -"),
    "10": (
        a_peer_pod(
            init("cpu=200m memory=4Gi", "cpu=0.7 memory=4Gi"),
            main("cpu=200m memory=4Gi", "cpu=0.5 memory=4Gi"),
        ),
        "2 8192 -",
    ),
    "11": (a_peer_pod(main("", "cpu=2 memory=1Gi")), "- - -"),
    "12": (a_peer_pod(main("cpu=2 memory=1Gi", "cpu=2 memory=1Gi")), "2 1024 -"),
    "13": (a_peer_pod(main("cpu=1", "cpu=4"), main("cpu=10")), "11 - -"),
    "14": (a_peer_pod(main("memory=100M")), "- 96 -"),
    "15": (a_peer_pod(main("memory=128974848")), "- 123 -"),
    "16": (a_peer_pod(main("memory=1")), "- 1 -"),
    "16 in thousandths": (a_peer_pod(main("memory=100m")), "- 1 -"),
    "17": (a_peer_pod(main("cpu=1m")), "1 - -"),
    "18": (a_peer_pod(main("cpu=0", "cpu=2")), "- - -"),
    "19": (a_peer_pod(main("cpu=2"), annotations={VCPUS: "8"}), "2 - -"),
    "20": (a_peer_pod(main(), annotations={VCPUS: "8"}), "8 - -"),
    "21": (a_peer_pod(main(f"{GPU}=400"), main(f"{GPU}=600")), "- - 1k"),
    "22": (a_peer_pod(main("memory=4Ei"), main("memory=4Ei")), "- 0 -"),
    "22 at its edge": (a_peer_pod(main("memory=9223372036854775806")), "- 8796093022208 -"),
    "23": (a_peer_pod(main("amd.com/gpu=1 ephemeral-storage=10Gi hugepages-2Mi=2Mi")), "- - -"),
    "a request below zero": (a_peer_pod(main("cpu=-1 memory=-1Mi", "memory=-1Ki")), "0 0 -"),
}


@pytest.mark.parametrize("number", WORKED)
def test_upstream_mode_has_upstreams_worked_values(number):
    raw, expected = WORKED[number]
    outcome = rewritten(raw, UPSTREAM)

    assert sizes(outcome) == expected
    assert resources_of(outcome) == [ONE_VM, *[{}] * (len(resources_of(outcome)) - 1)]
    assert rewritten(outcome.document, UPSTREAM).steps == ()


UPSTREAM_TESTS = {
    "U1 CpuMemReqLimit": ("1", "3 5120 -", "3 5120 -"),
    "U2 CpuReq": ("2", "2 - -", "2 - -"),
    "U3 MemReq": ("3", "- 4096 -", "- 4096 -"),
    "U4 GpuReq": ("4", "- - 1", "- - 1"),
    "U5 NoReq": ("5", "- - -", "- - -"),
    "U6 ReqLimitSame": ("6", "2 4096 -", "2 4096 -"),
    "U7 InitContainers": ("7", "6 8192 1", "5 6144 1"),
    "U9 FractionalCpu": ("8", "1 4096 -", "1 4096 -"),
    "U10 FractionalCpuMoreThanOne": ("9", "2 4096 -", "2 4096 -"),
    "U11 FractionalCpu_MultipleContainers": ("10", "2 8192 -", "1 4096 -"),
}
"""With the size in either mode. They differ where an init container has ended before the others
start. U8, another runtime class, is in test_peerpods_rewriting."""


@pytest.mark.parametrize("name", UPSTREAM_TESTS)
def test_upstreams_own_tests_hold_in_both_modes(name):
    number, as_upstream, effective = UPSTREAM_TESTS[name]
    raw, _ = WORKED[number]

    for settings, expected in ((UPSTREAM, as_upstream), (EFFECTIVE, effective)):
        outcome = rewritten(raw, settings)
        assert sizes(outcome) == expected
        assert resources_of(outcome) == [ONE_VM, *[{}] * (len(resources_of(outcome)) - 1)]


# ------------------------------------------------------------------ what is needed

SMALL = "cpu=1 memory=1Gi"
RULES = {
    "W2: an init container counts only where it is the most": (
        a_peer_pod(init("memory=4Gi", "memory=4Gi"), main("memory=4Gi", "memory=4Gi")),
        "- 4096 -",
    ),
    "W2: the largest init container decides if it is more than the rest": (
        a_peer_pod(init("cpu=2"), init("cpu=8"), main("cpu=1"), main("cpu=2")),
        "8 - -",
    ),
    "W3: a sidecar runs beside the containers": (
        a_peer_pod(sidecar(SMALL), main(SMALL)),
        "2 2048 -",
    ),
    "W3: an init container runs beside the sidecars before it": (
        a_peer_pod(sidecar("cpu=1"), init("cpu=3"), sidecar("cpu=1"), main("cpu=1")),
        "4 - -",
    ),
    "W4: the greater of request and limit, for each container": (
        a_peer_pod(main("cpu=1", "cpu=4"), main("cpu=10")),
        "14 - -",
    ),
    "W4: a request of zero does not hide the limit": (a_peer_pod(main("cpu=0", "cpu=2")), "2 - -"),
    "W5: a limit of the pod decides": (
        a_peer_pod(
            main("cpu=1 memory=1Gi", "cpu=4 memory=4Gi"),
            main(),
            resources=sized("cpu=1 memory=1Gi", "cpu=4 memory=6Gi"),
        ),
        "4 6144 -",
    ),
    "W5: a request of the pod counts if it is more": (
        a_peer_pod(main("cpu=1", "cpu=3"), main("cpu=1", "cpu=3"), resources=sized("cpu=7")),
        "7 - -",
    ),
    "W5: a request of the pod does not hold its containers": (
        a_peer_pod(main("cpu=1", "cpu=3"), main("cpu=1", "cpu=3"), resources=sized("cpu=2")),
        "6 - -",
    ),
    "W8: GPUs are written as a whole number": (
        a_peer_pod(main(f"{GPU}=1000", f"{GPU}=1000")),
        "- - 1000",
    ),
    "limits alone count, as if the API server had copied them": (
        a_peer_pod(main("", "cpu=2 memory=1Gi")),
        "2 1024 -",
    ),
    "rounded up once, after adding up": (a_peer_pod(main("cpu=600m"), main("cpu=600m")), "2 - -"),
    "overhead is spent on the worker": (
        a_peer_pod(main("cpu=1"), overhead={"cpu": "250m", "memory": "120Mi"}),
        "1 - -",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_effective_mode_sizes_for_what_is_needed_at_one_time(rule):
    raw, expected = RULES[rule]

    assert sizes(rewritten(raw)) == expected


def test_w5_resources_of_the_pod_are_removed_but_not_in_upstream_mode():
    raw = a_peer_pod(main("cpu=1"), resources=sized("cpu=1", "cpu=2"))

    assert "resources" not in rewritten(raw).document["spec"]
    assert rewritten(raw, UPSTREAM).document["spec"]["resources"] == raw["spec"]["resources"]


def test_w8_gpus_of_several_names_are_counted_together():
    settings = PeerPodSettings(gpu_resources=(GPU, "amd.com/gpu"))
    raw = a_peer_pod(main(f"{GPU}=1", f"{GPU}=1"), init("amd.com/gpu=2", "amd.com/gpu=2"))
    outcome = rewritten(raw, settings)

    assert sizes(outcome) == "- - 3"
    assert outcome.warnings == ()


ROOMY = PeerPodSettings(
    headroom_cpu=Quantity.parse("200m"),
    headroom_memory=Quantity.parse("256Mi"),
    floor_vcpus=2,
    floor_memory=Quantity.parse("1Gi"),
)
ROOM = {
    "added to what is asked for, before rounding": ("cpu=3 memory=1Gi", "4 1280 -"),
    "below the floor": ("cpu=500m memory=64Mi", "2 1024 -"),
    "nothing is asked for": ("", "- - -"),
    "W7: only CPU is asked for, so memory is at its floor": ("cpu=4", "5 1024 -"),
    "W7: only memory": ("memory=4Gi", "2 4352 -"),
    "only GPUs": (f"{GPU}=1", "2 1024 1"),
}


@pytest.mark.parametrize("case", ROOM)
def test_w6_headroom_and_floor(case):
    amounts, expected = ROOM[case]

    assert sizes(rewritten(a_peer_pod(main(amounts, amounts)), ROOMY)) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"runtime_classes": frozenset()},
        {"runtime_classes": frozenset({""})},
        {"vm_resource": "cpu"},
        {"floor_vcpus": -1},
        {"headroom_memory": Quantity.parse("-1")},
        {"kept": frozenset({"cpu"})},
        {"kept": frozenset({GPU})},
        {"kept": frozenset({"hugepages-2Mi"})},
    ],
)
def test_settings_that_make_no_sense_are_refused(fields):
    with pytest.raises(ValueError, match=r"runtime class|extended|negative|kept"):
        PeerPodSettings(**fields)


def test_the_defaults_are_upstreams_names():
    assert EFFECTIVE.mode is Mode.EFFECTIVE
    assert EFFECTIVE.own_sizes is OwnSizes.AT_LEAST
    assert EFFECTIVE.runtime_classes == {"kata-remote"}
    assert EFFECTIVE.vm_resource == "kata.peerpods.io/vm"
    assert EFFECTIVE.gpu_resources == ("nvidia.com/gpu",)
