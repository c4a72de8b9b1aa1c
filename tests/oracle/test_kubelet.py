"""What the kubelet makes of resources: cgroup values, OOM scores; and Go's floats."""

import itertools
import struct
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

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
from bursar.core.model.numbers.binary_float import percent, truncated_int64
from support.builders.random_objects import as_pod, pods

INT64 = st.integers(-(2**63), 2**63 - 1)
SOME_INT64 = INT64 | st.integers(-5, 100_000) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)])


# ------------------------------------------------------------------ floats


def test_percentages_agree(agree):
    pair = st.lists(SOME_INT64, min_size=2, max_size=2)
    agree("percents", pairs=pair, ours=lambda pair: percent(*pair))


def as_bits(x: float) -> int:
    return int.from_bytes(struct.pack(">d", x), "big")


def as_fraction(bits: int) -> Fraction:
    return Fraction(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def test_conversions_between_floats_and_integers_agree(agree):
    def ours(bits: int) -> int:
        return truncated_int64(as_fraction(bits))

    def theirs(answer: dict[str, int]) -> int:
        return answer["int64"]

    numbers = st.floats(-1e300, 1e300) | st.floats(-(2.0**64), 2.0**64) | st.floats(-10, 10)
    agree("floats", bits=numbers.map(as_bits), ours=ours, theirs=theirs)


# ------------------------------------------------------------------ single numbers


def test_cpu_numbers_agree(agree):
    def ours(case: dict[str, int]) -> dict[str, int]:
        milli = case["milli"]
        return {"shares": shares_from_milli(milli), "quota": quota_from_milli(milli)}

    case = st.fixed_dictionaries(
        {"milli": SOME_INT64 | st.integers(0, 300_000), "period": st.just(PERIOD_US)}
    )
    agree("cpu_numbers", cases=case, ours=ours)


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


def test_the_spelling_of_page_sizes_agrees(agree):
    def ours(size: int) -> dict[str, str]:
        try:
            return {"text": page_size_text(size), "error": ""}
        except PageSizeError as error:
            return {"text": "", "error": str(error)}

    size = st.builds(lambda n, shift: n << shift, st.integers(-7, 4096), st.integers(0, 51))
    agree("page_sizes", sizes=size | SOME_INT64, ours=ours, examples=10)


def test_cgroup_paths_agree(agree):
    def ours(name: list[str]) -> dict[str, str]:
        return {"cgroupfs": cgroupfs_path(tuple(name)), "systemd": systemd_path(tuple(name))}

    part = st.text("abpod-0123456789.", min_size=1, max_size=12).filter(
        lambda text: text.strip(".-")
    )
    names = st.lists(part, max_size=4)
    agree("cgroup_names", names=names, ours=ours, batch=(5, 20), examples=10)


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
        "suffix": "podu-1",
        "qos": cgroup.qos.value,
        "cpuShares": cgroup.values.cpu_shares,
        "cpuQuota": cgroup.values.cpu_quota_us,
        "cpuPeriod": cgroup.values.cpu_period_us,
        "memory": cgroup.values.memory_limit,
        "hugePages": {str(k): v for k, v in hugepage_limits(pod_requests(pod, KUBELET)).items()},
        "oomScores": {container.name: container.oom_score_adj for container in cgroup.containers},
    }


def test_the_cgroup_of_a_pod_and_all_oom_scores_agree(agree):
    agree("pod_cgroups", cases=POD_CASES, ours=our_cgroup, batch=(5, 15), examples=60)
