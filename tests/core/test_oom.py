"""OOM scores: upstream's own cases, and who counts as critical."""

import pytest

from bursar.core.model.cgroup.oom import class_on_node, is_critical, is_node_critical, oom_score_adj
from bursar.core.model.pod import Pod
from bursar.core.model.qos import QosClass
from support.builders.pods import a_pod, init, main, resources, sidecar

FOUR_G = 4_000_000_000
EIGHT_G = 8_000_000_000
SMALL = main("memory=1000000000", "memory=1000001000")
INIT = init("memory=1000000000", "memory=1000001000")
POD_LEVEL = resources("cpu=5m memory=2000000000", "cpu=5m memory=2000001000")
GUARANTEED_POD_LEVEL = resources("cpu=5m memory=2G", "cpu=5m memory=2G")

SCORES = {
    "cpu limit only": (a_pod(main("", "cpu=10")), FOUR_G, {"c0": 999}),
    "a cpu request of zero": (a_pod(main("cpu=0", "memory=10G")), EIGHT_G, {"c0": 999}),
    "a memory limit of zero": (a_pod(main("", "memory=0")), 7_230_457_451, {"c0": 1000}),
    "nothing": (a_pod(main()), FOUR_G, {"c0": 1000}),
    "guaranteed": (
        a_pod(main("memory=10G cpu=5m", "memory=10G cpu=5m")),
        123_456_789,
        {"c0": -997},
    ),
    "half of the node": (a_pod(main("memory=4G cpu=5m", "memory=10G")), EIGHT_G, {"c0": 500}),
    "nearly all of the node": (a_pod(main("memory=7999999999 cpu=5m")), EIGHT_G, {"c0": 3}),
    "cluster critical": (
        a_pod(main(), priority=2_000_000_000, priority_class="system-cluster-critical"),
        FOUR_G,
        {"c0": 1000},
    ),
    "node critical": (
        a_pod(main(), priority=2_000_001_000, priority_class="system-node-critical"),
        FOUR_G,
        {"c0": -997},
    ),
    "an eighth of the node": (a_pod(SMALL), EIGHT_G, {"c0": 875}),
    "an init container": (a_pod(INIT, SMALL), EIGHT_G, {"i0": 875, "c0": 875}),
    "a sidecar like the rest": (
        a_pod(INIT, sidecar("memory=1000000000"), SMALL),
        EIGHT_G,
        {"i0": 875, "i1": 875, "c0": 875},
    ),
    "a small sidecar is spared as long as the smallest container": (
        a_pod(sidecar("memory=400M"), SMALL, main("memory=2G")),
        EIGHT_G,
        {"i0": 875, "c0": 875, "c1": 750},
    ),
    "a big sidecar is spared longer": (
        a_pod(sidecar("memory=4G"), SMALL),
        EIGHT_G,
        {"i0": 500, "c0": 875},
    ),
    "a sidecar in a pod without containers": (a_pod(sidecar("cpu=1")), EIGHT_G, {"i0": 999}),
}

POD_LEVEL_SCORES = {
    "guaranteed by the pod alone": (
        a_pod(main(), main(), resources=GUARANTEED_POD_LEVEL),
        {"c0": -997, "c1": -997},
    ),
    "guaranteed whatever the containers say": (
        a_pod(main("memory=1G", "memory=2G"), main(), resources=GUARANTEED_POD_LEVEL),
        {"c0": -997, "c1": -997},
    ),
    "containers share what the pod requests": (
        a_pod(main(), main(), resources=POD_LEVEL),
        {"c0": 750, "c1": 750},
    ),
    "nothing is left to share": (
        a_pod(main("memory=1G"), main("memory=1G"), resources=POD_LEVEL),
        {"c0": 750, "c1": 750},
    ),
    "one container shares the rest with the other": (
        a_pod(main("memory=1G"), main(), resources=POD_LEVEL),
        {"c0": 625, "c1": 875},
    ),
    "a sidecar shares too": (
        a_pod(main(), sidecar(), resources=POD_LEVEL),
        {"c0": 750, "i0": 750},
    ),
    "a sidecar with requests": (
        a_pod(main("memory=1G"), sidecar("memory=1G"), resources=POD_LEVEL),
        {"c0": 750, "i0": 750},
    ),
    "a small sidecar among unequal containers": (
        a_pod(main("memory=1G"), main("memory=500M"), sidecar("memory=200M"), resources=POD_LEVEL),
        {"c0": 725, "c1": 850, "i0": 850},
    ),
    "pod-level cpu alone adds nothing": (
        a_pod(main("memory=1G"), main(), resources=resources("cpu=1")),
        {"c0": 750, "c1": 999},
    ),
}


def scores(pod: Pod, capacity: int | None) -> dict[str, int | None]:
    containers = (*pod.init_containers, *pod.containers)
    return {c.name: oom_score_adj(pod, c, capacity) for c in containers}


@pytest.mark.parametrize(("pod", "capacity", "expected"), SCORES.values(), ids=SCORES)
def test_scores(pod: Pod, capacity: int, expected: dict[str, int]):
    assert scores(pod, capacity) == expected


@pytest.mark.parametrize(("pod", "expected"), POD_LEVEL_SCORES.values(), ids=POD_LEVEL_SCORES)
def test_scores_with_pod_level_resources(pod: Pod, expected: dict[str, int]):
    assert scores(pod, FOUR_G) == expected


def test_only_a_burstable_score_needs_to_know_the_node():
    assert scores(a_pod(main("cpu=1")), None) == {"c0": None}
    assert scores(a_pod(main("cpu=1")), 0) == {"c0": None}
    assert scores(a_pod(main()), None) == {"c0": 1000}
    assert scores(a_pod(main("cpu=1 memory=1", "cpu=1 memory=1")), None) == {"c0": -997}


def test_the_kubelet_acts_on_the_stored_class_even_if_it_is_stale():
    pod = a_pod(main())
    assert class_on_node(pod) is QosClass.BEST_EFFORT
    assert class_on_node(a_pod(main(), reported_qos="Guaranteed")) is QosClass.GUARANTEED
    assert class_on_node(a_pod(main(), reported_qos="Unheard")) is QosClass.BEST_EFFORT
    assert scores(a_pod(main(), reported_qos="Guaranteed"), FOUR_G) == {"c0": -997}


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 2_000_000_000},
        {"annotations": {"kubernetes.io/config.source": "file"}},
        {"annotations": {"kubernetes.io/config.mirror": "hash"}},
    ],
)
def test_system_priority_or_a_source_other_than_the_api_makes_critical(fields: dict[str, object]):
    assert is_critical(a_pod(main(), **fields))


@pytest.mark.parametrize(
    "fields",
    [{}, {"priority": 1_999_999_999}, {"annotations": {"kubernetes.io/config.source": "api"}}],
)
def test_ordinary_pods_are_not_critical(fields: dict[str, object]):
    assert not is_critical(a_pod(main(), **fields))


def test_the_class_name_alone_makes_no_pod_node_critical():
    assert not is_node_critical(a_pod(main(), priority_class="system-node-critical"))
