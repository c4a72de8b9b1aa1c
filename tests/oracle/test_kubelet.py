"""What the kubelet makes of resources: cgroup values, OOM scores, allocatable; and Go's floats."""

import itertools
import struct
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from bursar.core.model.allocatable import (
    DEFAULT_EVICTION_HARD,
    KubeletConfigError,
    Machine,
    _go_struct,
    allocatable,
    machine_capacity,
    parse_thresholds,
)
from bursar.core.model.binary_float import binary32, percent, sqrt64, truncated_int64
from bursar.core.model.cgroup.pod import (
    CgroupOptions,
    cgroupfs_path,
    pod_cgroup,
    systemd_path,
)
from bursar.core.model.cgroup.values import (
    PageSizeError,
    hugepage_limits,
    milli_from_quota,
    milli_from_shares,
    page_size_text,
    quota_from_milli,
    shares_from_milli,
    shares_from_weight,
    weight_quadratic,
)
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.demand import KUBELET, pod_requests
from bursar.core.model.quantity import ZERO, Quantity
from support.raw_objects import CPU, EPHEMERAL, HUGEPAGES, MEMORY, WHOLE, as_pod, pods

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


def as_fraction(bits: int, size: int) -> Fraction:
    kind = {4: ">f", 8: ">d"}[size]
    return Fraction(struct.unpack(kind, bits.to_bytes(size, "big"))[0])


def test_conversions_between_floats_and_integers_agree(oracle, for_all):
    def check(numbers: list[float]) -> None:
        answers = oracle.ask("floats", bits=[as_bits(x) for x in numbers])
        for number, answer in zip(numbers, answers, strict=True):
            exact = Fraction(number)
            ours = (truncated_int64(exact), binary32(exact), sqrt64(abs(exact)))
            single, root = as_fraction(answer["single"], 4), as_fraction(answer["root"], 8)
            oracle.assert_same(ours, (answer["int64"], single, root), about=number)

    numbers = st.floats(-1e38, 1e38) | st.floats(-(2.0**64), 2.0**64) | st.floats(-10, 10)
    for_all(st.lists(numbers, min_size=20, max_size=60), check, examples=40)


# ------------------------------------------------------------------ single numbers


def test_cpu_numbers_agree(oracle, for_all):
    def check(cases: list[dict[str, int]]) -> None:
        for case, answer in zip(cases, oracle.ask("cpu_numbers", cases=cases), strict=True):
            ours = {
                "shares": shares_from_milli(case["milli"]),
                "quota": quota_from_milli(case["milli"], case["period"]),
                "milliFromShares": milli_from_shares(case["shares"]),
                "milliFromQuota": milli_from_quota(case["quota"], case["period"]),
            }
            oracle.assert_same(ours, answer, about=case)

    case = st.fixed_dictionaries(
        {
            "milli": SOME_INT64 | st.integers(0, 300_000),
            "period": st.sampled_from([100_000, 1000, 5000, 1_000_000, 12_345, 7, 2**62, -3]),
            "shares": SOME_INT64 | st.integers(0, 262_145),
            "quota": SOME_INT64,
        }
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


def test_weights_read_back_as_shares_agree(oracle):
    weights = [1, 2, 3, 4, 39, 100, 245, *range(7, 10_000, 97), 10_000]
    answers = oracle.ask("shares_from_weights", weights=weights)
    for weight, shares in zip(weights, answers, strict=True):
        oracle.assert_same(shares_from_weight(weight), shares, about=weight)


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
        "cfsQuota": st.booleans(),
        "period": st.sampled_from([100_000, 100_000, 5000, 1_000_000]),
        "memoryCapacity": st.sampled_from([8 << 30, 4_000_000_000, 2**62, 1]),
    }
)


def our_cgroup(case: dict[str, Any]) -> dict[str, Any]:
    pod = with_defaults(as_pod(case["pod"]))
    options = CgroupOptions(
        cpu_cfs_quota=case["cfsQuota"],
        period_us=case["period"],
        memory_capacity=case["memoryCapacity"],
    )
    cgroup = pod_cgroup(pod, options)
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


# ------------------------------------------------------------------ nodes

PERCENTAGES = st.builds(
    lambda sign, number, exponent: f"{sign}{number}{exponent}%",
    st.sampled_from(["", "", "", "+", "-"]),
    st.decimals(0, 120, places=3).map(str)
    | st.integers(0, 110).map(str)
    | st.sampled_from(["", ".", "5.", ".5", "0.1", "16.666667", "99.99999999"]),
    st.sampled_from(["", "", "", "e0", "E-2", "e+1", "e400", "e-400", "e99999", "%", "e", "x"]),
)
THRESHOLDS = PERCENTAGES | MEMORY | st.sampled_from(["", "x", "-1", "0%", "100%", "0", "1e400"])
CAPACITIES = st.integers(0, 2**63 - 1).map(str) | MEMORY
SIGNALS = st.sampled_from([*DEFAULT_EVICTION_HARD, "pid.available", "cpu.available"])


def our_threshold(case: dict[str, str]) -> dict[str, str]:
    try:
        thresholds = parse_thresholds({case["signal"]: case["text"]})
    except KubeletConfigError as error:
        return {"text": "", "error": str(error)}
    for threshold in thresholds.values():
        return {"text": str(threshold.amount(Quantity.parse(case["capacity"]))), "error": ""}
    return {"text": "off", "error": ""}


def test_eviction_thresholds_agree(oracle, for_all):
    def check(cases: list[dict[str, str]]) -> None:
        answers = oracle.ask("eviction_thresholds", cases=cases)
        for case, answer in zip(cases, answers, strict=True):
            oracle.assert_same(our_threshold(case), answer, about=case)

    case = st.fixed_dictionaries({"signal": SIGNALS, "text": THRESHOLDS, "capacity": CAPACITIES})
    for_all(st.lists(case, min_size=20, max_size=60), check, examples=40)


def test_the_default_thresholds_agree(oracle):
    upstream = oracle.ask("default_eviction_hard")
    oracle.assert_same(dict(DEFAULT_EVICTION_HARD), upstream, about="defaults on Linux")


RESERVED = st.fixed_dictionaries(
    {}, optional={"cpu": CPU, "memory": MEMORY, "ephemeral-storage": EPHEMERAL, "pid": WHOLE}
)
DEVICES = st.fixed_dictionaries(
    {},
    optional={"example.com/foo": WHOLE, "nvidia.com/gpu": WHOLE, "memory": MEMORY, "cpu": CPU},
)
NODE_CASES = st.fixed_dictionaries(
    {
        "machine": st.fixed_dictionaries(
            {
                "cores": st.integers(0, 512),
                "memory": st.integers(0, 2**45) | st.integers(0, 64).map(lambda gib: gib << 30),
                "hugePages": st.dictionaries(
                    st.sampled_from([2 << 20, 1 << 30, 64 << 10, 3 << 10]), st.integers(0, 5000)
                ),
                "ephemeral": st.none() | st.integers(0, 2**45),
                "maxPods": st.sampled_from([110, 250, 0]),
                "podsPerCore": st.sampled_from([0, 0, 10, -1]),
            }
        ),
        "kubeReserved": RESERVED,
        "systemReserved": RESERVED,
        "evictionHard": st.fixed_dictionaries(
            {},
            optional={
                "memory.available": st.sampled_from(["100Mi", "5%", "33.3%", "1", "0%"]),
                "nodefs.available": st.sampled_from(["10%", "1Gi", "7.7%", "100.0%", "1G"]),
            },
        ),
        "advertised": st.fixed_dictionaries(
            {}, optional={"example.com/dongle": WHOLE, "hugepages-32Mi": HUGEPAGES}
        ),
        "before": st.fixed_dictionaries(
            {}, optional={"example.com/gone": WHOLE, "hugepages-16Mi": HUGEPAGES, "cpu": CPU}
        ),
        "deviceCapacity": DEVICES,
        "deviceAllocatable": DEVICES,
        "removedDevices": st.lists(st.just("example.com/removed"), max_size=1),
    }
)


def parsed(texts: dict[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in texts.items()}


def our_node(case: dict[str, Any]) -> dict[str, Any]:
    machine = case["machine"]
    capacity = parsed(case["advertised"]) | machine_capacity(
        Machine(
            cores=machine["cores"],
            memory_bytes=machine["memory"],
            hugepages=machine["hugePages"],
            ephemeral_bytes=machine["ephemeral"],
            max_pods=machine["maxPods"],
            pods_per_core=machine["podsPerCore"],
        )
    )
    capacity |= parsed(case["deviceCapacity"]) | dict.fromkeys(case["removedDevices"], ZERO)
    left = allocatable(
        capacity,
        kube_reserved=parsed(case["kubeReserved"]),
        system_reserved=parsed(case["systemReserved"]),
        eviction_hard=parse_thresholds(case["evictionHard"]),
        devices=parsed(case["deviceAllocatable"]),
        before=parsed(case["before"]),
    )
    return {"capacity": shown(capacity), "allocatable": shown(left)}


def shown(amounts: dict[str, Quantity]) -> dict[str, str]:
    """Text and format; a zero has no format, since upstream leaves that to the order of a map."""
    return {
        name: "0" if amount.is_zero else f"{amount} {amount.format.value}"
        for name, amount in amounts.items()
    }


def upstream_shown(amounts: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {
        name: "0" if amount["sign"] == 0 else f"{amount['text']} {amount['format']}"
        for name, amount in amounts.items()
    }


def test_capacity_and_allocatable_agree(oracle, for_all):
    def check(cases: list[dict[str, Any]]) -> None:
        for case, answer in zip(cases, oracle.ask("node_status", cases=cases), strict=True):
            upstream = {name: upstream_shown(amounts) for name, amounts in answer.items()}
            oracle.assert_same(our_node(case), upstream, about=case)

    for_all(st.lists(NODE_CASES, min_size=5, max_size=15), check, examples=60)


def test_quantities_printed_by_mistake_agree(oracle, for_all):
    def check(texts: list[str]) -> None:
        for text, answer in zip(texts, oracle.ask("quantity_structs", texts=texts), strict=True):
            quantity = Quantity.parse(text)
            if not quantity.big:  # upstream prints an address then
                oracle.assert_same(_go_struct(quantity), answer, about=text)

    for_all(st.lists(CPU | MEMORY | EPHEMERAL, min_size=10, max_size=30), check, examples=10)
