"""What the kubelet makes of resources: cgroup values, OOM scores; and Go's floats."""

import itertools
import struct
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from bursar.core.model.binary_float import percent, truncated_int64
from bursar.core.model.cgroup.pod import cgroupfs_path, pod_cgroup, systemd_path
from bursar.core.model.cgroup.values import (
    PERIOD_US,
    PageSizeError,
    hugepage_limits,
    page_size_text,
    quota_from_milli,
    shares_from_milli,
    weight_quadratic,
)
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.demand import KUBELET, pod_requests
from support.builders.random_objects import as_pod, pods

INT64 = st.integers(-(2**63), 2**63 - 1)
SOME_INT64 = INT64 | st.integers(-5, 100_000) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)])


# ------------------------------------------------------------------ floats


def test_percentages_agree(oracle, for_all):
    def check(pairs: list[list[int]]) -> None:
        answers = oracle.ask("percents", pairs=pairs)
        for (part, whole), answer in zip(pairs, answers, strict=True):
            oracle.assert_same(percent(part, whole), answer, about=(part, whole))

    pair = st.lists(SOME_INT64, min_size=2, max_size=2)
    for_all(st.lists(pair, min_size=20, max_size=60), check, examples=40)


def as_bits(x: float) -> int:
    return int.from_bytes(struct.pack(">d", x), "big")


def test_conversions_between_floats_and_integers_agree(oracle, for_all):
    def check(numbers: list[float]) -> None:
        answers = oracle.ask("floats", bits=[as_bits(x) for x in numbers])
        for number, answer in zip(numbers, answers, strict=True):
            ours = truncated_int64(Fraction(number))
            oracle.assert_same(ours, answer["int64"], about=number)

    numbers = st.floats(-1e300, 1e300) | st.floats(-(2.0**64), 2.0**64) | st.floats(-10, 10)
    for_all(st.lists(numbers, min_size=20, max_size=60), check, examples=40)


# ------------------------------------------------------------------ single numbers


def test_cpu_numbers_agree(oracle, for_all):
    def check(cases: list[dict[str, int]]) -> None:
        for case, answer in zip(cases, oracle.ask("cpu_numbers", cases=cases), strict=True):
            ours = {
                "shares": shares_from_milli(case["milli"]),
                "quota": quota_from_milli(case["milli"]),
            }
            oracle.assert_same(ours, answer, about=case)

    case = st.fixed_dictionaries(
        {"milli": SOME_INT64 | st.integers(0, 300_000), "period": st.just(PERIOD_US)}
    )
    for_all(st.lists(case, min_size=20, max_size=60), check, examples=40)


def test_the_weight_of_every_number_of_shares_agrees(oracle):
    """Both rules never fall, so agreeing at both ends of a run of equal weights is enough."""
    upstream = oracle.ask("cpu_weights", below=300_001)
    first = 0
    for weight, run in itertools.groupby(upstream):
        last = first + len(list(run)) - 1
        ours = (weight_quadratic(first), weight_quadratic(last))
        oracle.assert_same(ours, (weight, weight), about=(first, last))
        first = last + 1

    assert first == 300_001
    assert upstream == sorted(upstream)


def test_the_spelling_of_page_sizes_agrees(oracle, for_all):
    def check(sizes: list[int]) -> None:
        for size, answer in zip(sizes, oracle.ask("page_sizes", sizes=sizes), strict=True):
            try:
                ours = {"text": page_size_text(size), "error": ""}
            except PageSizeError as error:
                ours = {"text": "", "error": str(error)}
            oracle.assert_same(ours, answer, about=size)

    size = st.builds(lambda n, shift: n << shift, st.integers(-7, 4096), st.integers(0, 51))
    for_all(st.lists(size | SOME_INT64, min_size=20, max_size=60), check, examples=10)


def test_cgroup_paths_agree(oracle, for_all):
    def check(names: list[list[str]]) -> None:
        for name, answer in zip(names, oracle.ask("cgroup_names", names=names), strict=True):
            ours = {"cgroupfs": cgroupfs_path(tuple(name)), "systemd": systemd_path(tuple(name))}
            oracle.assert_same(ours, answer, about=name)

    part = st.text("abpod-0123456789.", min_size=1, max_size=12).filter(
        lambda text: text.strip(".-")
    )
    for_all(st.lists(st.lists(part, max_size=4), min_size=5, max_size=20), check, examples=10)


# ------------------------------------------------------------------ pods


@st.composite
def pods_of_all_ranks(draw: st.DrawFn) -> dict[str, Any]:
    """A pod, perhaps critical, static, mirrored, or with a stored class that may be stale."""
    raw = draw(pods(hostile=draw(st.booleans()), resized=False))
    if draw(st.booleans()):
        names = ["system-node-critical", "system-cluster-critical", "mine"]
        raw["spec"]["priorityClassName"] = draw(st.sampled_from(names))
        raw["spec"]["priority"] = draw(st.sampled_from([0, 2_000_000_000, 2_000_001_000]))
    raw["metadata"]["annotations"] = draw(
        st.sampled_from(
            [{}, {}, {}]
            + [{"kubernetes.io/config.source": source} for source in ("api", "file")]
            + [{"kubernetes.io/config.mirror": "hash"}]
        )
    )
    if draw(st.booleans()):
        classes = ["", "Guaranteed", "Burstable", "BestEffort"]
        raw["status"] = {"qosClass": draw(st.sampled_from(classes))}
    return raw


POD_CASES = st.fixed_dictionaries(
    {
        "pod": pods_of_all_ranks(),
        "cfsQuota": st.just(True),
        "period": st.just(PERIOD_US),
        "memoryCapacity": st.sampled_from([8 << 30, 4_000_000_000, 2**62, 1]),
    }
)


def our_cgroup(case: dict[str, Any]) -> dict[str, Any]:
    pod = with_defaults(as_pod(case["pod"]))
    cgroup = pod_cgroup(pod, case["memoryCapacity"])
    return {
        "qos": cgroup.qos.value,
        "cpuShares": cgroup.values.cpu_shares,
        "cpuQuota": cgroup.values.cpu_quota_us,
        "cpuPeriod": cgroup.values.cpu_period_us,
        "memory": cgroup.values.memory_limit,
        "hugePages": {str(k): v for k, v in hugepage_limits(pod_requests(pod, KUBELET)).items()},
        "oomScores": {container.name: container.oom_score_adj for container in cgroup.containers},
    }


def test_the_cgroup_of_a_pod_and_all_oom_scores_agree(oracle, for_all):
    def check(cases: list[dict[str, Any]]) -> None:
        for case, answer in zip(cases, oracle.ask("pod_cgroups", cases=cases), strict=True):
            assert answer.pop("suffix") == "podu-1"
            oracle.assert_same(our_cgroup(case), answer, about=case)

    for_all(st.lists(POD_CASES, min_size=5, max_size=15), check, examples=60)
