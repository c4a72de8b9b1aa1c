"""What pods use of a node's disk, and what the kubelet evicts for it."""

from fractions import Fraction
from itertools import permutations

import pytest

from bursar.core.model.numbers.binary_float import binary32
from bursar.core.model.pod import EmptyDir
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.storage.limits import LimitKind, exceeded_limit, limit_states
from bursar.core.storage.pod import EmptyDirVolume, StorageContainer, StoragePod
from bursar.core.storage.pod_facts import storage_pod
from bursar.core.storage.pressure import (
    Filesystem,
    Signal,
    ThresholdError,
    eviction_order,
    parse_thresholds,
    signal_states,
)
from bursar.core.storage.rate import SAMPLES_MAX, WINDOW_MS, Growth, seconds_until
from bursar.core.storage.usage import ContainerUse, Measure, PodUse
from support.builders.pods import a_pod, main, resources, sidecar

GIB = 2**30


def q(text):
    return Quantity.parse(text)


def a_storage_pod(name="web", **fields):
    return StoragePod(namespace="shop", name=name, uid=f"uid-{name}", **fields)


def used(writable=0, logs=0, volumes=(), other=0):
    return PodUse(
        containers={"app": ContainerUse(writable=writable, logs=logs)},
        volumes={name: Measure(used=amount) for name, amount in volumes},
        other=other,
    )


# ------------------------------------------------------------------ the pod


def test_limits_are_those_of_the_kubelet():
    pod = a_pod(
        main("ephemeral-storage=2Gi", "ephemeral-storage=4Gi"),
        main("ephemeral-storage=2Gi", "ephemeral-storage=4Gi"),
        sidecar("", "ephemeral-storage=1Gi"),
        overhead="ephemeral-storage=1Gi",
        empty_dirs=(
            EmptyDir(index=0, name="cache", size_limit=q("1Gi")),
            EmptyDir(index=1, name="shm", medium="Memory", size_limit=ZERO),
        ),
        priority=7,
    )
    found = storage_pod(pod, has_user_namespace=True)
    assert str(found.limit) == "10Gi"
    assert str(found.request) == "5Gi"
    assert [(each.name, str(each.limit)) for each in found.containers] == [
        ("c0", "4Gi"),
        ("c1", "4Gi"),
    ]
    assert found.volumes == (
        EmptyDirVolume(name="cache", size_limit=q("1Gi")),
        EmptyDirVolume(name="shm", is_on_disk=False),
    )
    assert (found.priority, found.is_critical, found.has_user_namespace) == (7, False, True)
    assert found.key == ("default", "web")


def test_overhead_alone_is_no_request():
    assert storage_pod(a_pod(main(), overhead="ephemeral-storage=1Gi")).request == ZERO


def test_a_pod_without_limits_has_none():
    pod = storage_pod(a_pod(main("ephemeral-storage=1Gi", "ephemeral-storage=0")))
    assert pod.containers[0].limit is None
    assert storage_pod(a_pod(main())).limit is None


def test_with_pod_level_resources_the_kubelet_ranks_by_a_request_of_zero():
    requested = main("ephemeral-storage=1Gi")
    assert storage_pod(a_pod(requested, resources=resources("cpu=1"))).request == ZERO
    assert storage_pod(a_pod(requested, resources=resources("", "cpu=1"))).request == ZERO
    assert storage_pod(a_pod(requested, resources=resources())).request == q("1Gi")


def test_a_static_pod_is_never_evicted():
    pod = a_pod(main(), annotations={"kubernetes.io/config.source": "file"}, phase="Running")
    assert storage_pod(pod).is_critical
    assert not storage_pod(pod).is_ended


# ------------------------------------------------------------------ use


def test_use_adds_up_as_in_the_kubelets_summary():
    use = PodUse(
        containers={
            "app": ContainerUse(writable=10, logs=5),
            "silent": ContainerUse(writable=1),
            "starting": ContainerUse(logs=100),
        },
        volumes={"cache": Measure(used=7, age_ms=9), "conf": Measure(used=1)},
        other=3,
    )
    assert use.total == 10 + 5 + 1 + 100 + 7 + 1 + 3
    assert (use.writable, use.logs, use.volume_bytes, use.age_ms) == (11, 105, 8, 9)
    assert not use.is_complete
    assert not PodUse(volumes={"cache": Measure(used=1, is_complete=False)}).is_complete
    assert used(1, 1, [("cache", 1)]).is_complete
    assert PodUse().age_ms == 0


# ------------------------------------------------------------------ limits

LIMITED = a_storage_pod(
    limit=q("10"),
    containers=(StorageContainer(name="app", limit=q("4")), StorageContainer(name="free")),
    volumes=(
        EmptyDirVolume(name="cache", size_limit=q("3")),
        EmptyDirVolume(name="plain"),
        EmptyDirVolume(name="unmounted", size_limit=q("1")),
    ),
)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (used(2, 2, [("cache", 3), ("plain", 3)]), None),
        (used(0, 0, [("cache", 4)]), 'Usage of EmptyDir volume "cache" exceeds the limit "3". '),
        (
            used(9, 0, [("cache", 3)]),
            "Pod ephemeral local storage usage exceeds the total limit of containers 10. ",
        ),
        (used(4, 1), 'Container app exceeded its local ephemeral storage limit "4". '),
        (used(9, 9, [("cache", 4)]), 'Usage of EmptyDir volume "cache" exceeds the limit "3". '),
        (used(0, 0, [("plain", 5)], other=6), "Pod ephemeral local storage usage exceeds"),
    ],
)
def test_the_first_exceeded_limit_decides_and_equality_is_allowed(use, message):
    found = exceeded_limit(limit_states(LIMITED, use, has_image_filesystem=False))
    if message is None:
        assert found is None
    else:
        assert found is not None
        assert found.message.startswith(message)


def test_with_an_image_filesystem_a_containers_limit_counts_logs_alone():
    states = limit_states(LIMITED, used(9, 1), has_image_filesystem=True)
    container = next(each for each in states if each.kind is LimitKind.CONTAINER)
    assert (container.used, container.is_complete, container.bytes_left) == (1, True, 3)


def test_a_limit_of_an_unmeasured_container_is_marked():
    states = limit_states(LIMITED, PodUse(), has_image_filesystem=False)
    assert [each.is_complete for each in states if each.kind is LimitKind.CONTAINER] == [False]
    logs_only = PodUse(containers={"app": ContainerUse(logs=1)})
    states = limit_states(LIMITED, logs_only, has_image_filesystem=False)
    assert [each.is_complete for each in states if each.kind is LimitKind.CONTAINER] == [False]


def test_a_pod_without_limits_has_no_limit_to_exceed():
    assert limit_states(a_storage_pod(), used(GIB), has_image_filesystem=False) == ()


def test_a_fraction_of_a_byte_in_a_limit_is_not_room():
    (state,) = limit_states(a_storage_pod(limit=q("1500m")), used(1), has_image_filesystem=False)
    assert (state.is_exceeded, state.bytes_left) == (False, 0)
    (state,) = limit_states(a_storage_pod(limit=q("1500m")), used(2), has_image_filesystem=False)
    assert (state.is_exceeded, state.bytes_left) == (True, -1)


# ------------------------------------------------------------------ rates


def test_growth_is_the_rate_over_the_window():
    growth = Growth()
    assert growth.bytes_per_second is None
    growth.add(0, 0)
    assert growth.bytes_per_second is None
    growth.add(10_000, 1000)
    assert growth.bytes_per_second == 100
    growth.add(10_000 + WINDOW_MS, 1000)
    assert growth.bytes_per_second == 0
    growth.add(20_000 + WINDOW_MS, 0)
    assert growth.bytes_per_second == -100


def test_a_history_is_bounded():
    growth = Growth()
    for at in range(10 * SAMPLES_MAX):
        growth.add(at, at)
    assert len(growth._samples) == SAMPLES_MAX


def test_the_time_left_is_when_the_limit_is_exceeded_not_reached():
    assert seconds_until(99, 100) == 1
    assert seconds_until(100, 100) == 2
    assert seconds_until(-1, None) == 0
    assert seconds_until(5, None) is seconds_until(5, 0) is seconds_until(5, -3) is None


# ------------------------------------------------------------------ pressure


def test_a_percentage_is_rounded_as_the_kubelets_float():
    (threshold,) = parse_thresholds("nodefs.available<10%")
    assert str(threshold.least(100 * GIB).whole_units) == "10737418400"
    assert binary32(Fraction(0)) == 0


def test_thresholds_are_read_as_the_kubelets_option():
    text = "nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"
    found = parse_thresholds(f"{text}, memory.available<100Mi,")
    assert [each.signal for each in found] == list(Signal)
    assert parse_thresholds("nodefs.available<0%,imagefs.available<100%") == ()
    (amount,) = parse_thresholds("nodefs.available<1Gi")
    assert amount.least(5) == q("1Gi")


@pytest.mark.parametrize(
    "text",
    ["nodefs.available", "nodefs.available<", "<1", "nodefs.available<x", "nodefs.available<0"]
    + ["nodefs.available<-1Gi", "nodefs.available<101%", "nodefs.available<-1%"]
    + ["nodefs.available<1e99%"],
)
def test_other_texts_are_refused(text):
    with pytest.raises(ThresholdError, match=r"expected|quantit"):
        parse_thresholds(text)


def test_a_threshold_is_met_below_it_and_not_at_it():
    thresholds = parse_thresholds("nodefs.available<10,nodefs.inodesFree<5,imagefs.available<1")
    nodefs = Filesystem(capacity=100, available=10, inodes=50, inodes_free=4)
    states = signal_states(thresholds, nodefs, None)
    assert [(each.signal, each.is_met, each.left) for each in states] == [
        (Signal.NODEFS, False, 0),
        (Signal.NODEFS_INODES, True, -1),
    ]
    without_inodes = Filesystem(capacity=100, available=9)
    states = signal_states(thresholds, without_inodes, Filesystem(capacity=5, available=5))
    assert [(each.signal, each.is_met) for each in states] == [
        (Signal.NODEFS, True),
        (Signal.IMAGEFS, False),
    ]


def test_pods_above_their_request_go_first_then_by_priority_then_by_excess():
    small = a_storage_pod("small"), used(5)
    large = a_storage_pod("large"), used(50)
    modest = a_storage_pod("modest", request=q("100")), used(60)
    dear = a_storage_pod("dear", priority=9), used(500)
    critical = a_storage_pod("critical", is_critical=True), used(999)
    ended = a_storage_pod("ended", is_ended=True), used(999)
    pods = [small, large, modest, dear, critical, ended]
    for shuffled in permutations(pods):
        order = eviction_order(shuffled, has_image_filesystem=False)
        assert [pod.name for pod in order] == ["large", "small", "dear", "modest"]


def test_with_an_image_filesystem_writable_layers_do_not_count_for_the_order():
    layer = a_storage_pod("layer"), used(writable=500)
    logs = a_storage_pod("logs"), used(logs=5)
    assert [pod.name for pod in eviction_order([layer, logs], has_image_filesystem=True)] == [
        "logs",
        "layer",
    ]
