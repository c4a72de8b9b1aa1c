"""`describe node`: kubectl's own text, its column writer and its durations.

Compared is every line and every space, except for what only a live cluster can
know and we therefore leave out: the lease below `Unschedulable:` and everything from
`Events:` on. The examples come with and without a lease and an event, so a line that
moved because of them would show. Ages are compared too: the oracle says between
which two moments it looked at its clock.
"""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from bursar.app.reports.node import node_report
from bursar.cli.output.ages import human_duration
from bursar.cli.output.tabwriter import aligned
from bursar.cli.reports.node_layout import describe_node
from bursar.core.model.quantity import Quantity
from support.builders.random_objects import (
    HOSTILE_AMOUNT,
    HOSTILE_NAME,
    KNOWN,
    WHOLE,
    as_node,
    as_pod,
    pods,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "node-pool.yaml"

# ------------------------------------------------------------------ parts of a node

WORDS = st.text("abcXYZ019-./", min_size=1, max_size=12)
CONTROLS = st.text("ab \t\v\f\n\r\x1b\x00é漢🚀%<&", max_size=24)
TEXTS = WORDS | WORDS | CONTROLS | st.text(max_size=30)
KEYS = WORDS | st.sampled_from(["app", "Zone", "a.b/c", "é"]) | st.text(max_size=8)
LONG = st.builds(
    lambda head, unit, times, tail: head + unit * times + tail,
    st.text("ab", max_size=3),
    st.sampled_from(["a", "é", "漢", "🚀", "ab\t", "漢" * 50 + "\n"]),
    st.integers(30, 145),
    st.sampled_from(["", "\n", "\n\n", "z"]),
)
LABELS = st.dictionaries(
    KEYS
    | st.sampled_from(
        ["node-role.kubernetes.io/", "node-role.kubernetes.io/control-plane", "kubernetes.io/role"]
        + ["node-role.kubernetes.io/worker", "kubernetes.io/hostname"]
    ),
    TEXTS | st.sampled_from(["", "infra", "worker"]),
    max_size=5,
)
ANNOTATIONS = st.dictionaries(
    KEYS | st.just("kubectl.kubernetes.io/last-applied-configuration"),
    TEXTS | LONG | st.integers(120, 145).map("a".__mul__),
    max_size=4,
)
FIRST, LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)
TIMES = st.none() | st.integers(int(FIRST.timestamp()), int(LAST.timestamp())).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat()
)
ZONES = st.sampled_from([0, 7200, -18000, 20700, 3208, -17762, 50400, -43200])
TAINTS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS},
        optional={
            "value": TEXTS | st.just(""),
            "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", ""]),
        },
    ),
    max_size=4,
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "MemoryPressure", "DiskPressure"]) | WORDS},
        optional={
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "reason": TEXTS,
            "message": TEXTS | LONG,
            "lastHeartbeatTime": TIMES,
            "lastTransitionTime": TIMES,
        },
    ),
    max_size=4,
)
ADDRESSES = st.lists(st.fixed_dictionaries({"type": WORDS, "address": TEXTS}), max_size=3)
OFFERED = st.fixed_dictionaries(
    {},
    optional={
        **{name: amounts | HOSTILE_AMOUNT for name, amounts in KNOWN.items()},
        "pods": WHOLE | st.just("110"),
        "attachable-volumes-csi": WHOLE,
    },
) | st.dictionaries(st.sampled_from(list(KNOWN)) | HOSTILE_NAME, HOSTILE_AMOUNT, max_size=6)
ROOMY = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["2", "1800m", "96", "7.5", "3920m"]),
        "memory": st.sampled_from(["7474992Ki", "12Gi", "1.5Gi", "16G", "123456789"]),
        "pods": st.sampled_from(["110", "0", "8"]),
    },
    optional={
        "ephemeral-storage": st.sampled_from(["100Gi", "47093746742", "0"]),
        "hugepages-2Mi": st.sampled_from(["2Gi", "0"]),
        "hugepages-1Gi": st.sampled_from(["4Gi", "0"]),
        "nvidia.com/gpu": WHOLE,
        "example.com/foo": WHOLE,
    },
)
INFO = st.dictionaries(
    st.sampled_from(
        ["machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "operatingSystem"]
        + ["architecture", "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion"]
    ),
    TEXTS,
    max_size=10,
)
NODES = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["node-1", "é漢", "n" * 60])},
            optional={
                "labels": LABELS,
                "annotations": ANNOTATIONS,
                "creationTimestamp": TIMES,
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "taints": TAINTS,
                "unschedulable": st.booleans(),
                "podCIDR": st.sampled_from(["10.0.0.0/24", ""]),
                "podCIDRs": st.lists(st.sampled_from(["10.0.0.0/24", "fd00::/64"]), max_size=2),
                "providerID": WORDS,
            },
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "capacity": ROOMY | OFFERED,
                "allocatable": ROOMY | ROOMY | OFFERED,
                "conditions": CONDITIONS,
                "addresses": ADDRESSES,
                "nodeInfo": INFO | INFO.map(lambda info: {**info, "swap": {"capacity": 1 << 30}}),
            },
        ),
    }
)


# ------------------------------------------------------------------ pods, and what is live

AGES = st.integers(-3, 10**6) | st.integers(0, 3 * 10**8)
"""A creation timestamp so many seconds before the oracle's clock; put in when it is asked."""


@st.composite
def placed_pods(draw: st.DrawFn, node_name: str) -> dict[str, Any]:
    raw = draw(pods(hostile=draw(st.sampled_from([False, False, True]))))
    raw["metadata"] = {
        "namespace": draw(st.sampled_from(["default", "a", "a-b", "kube-system"])),
        "name": draw(st.sampled_from(["web", "web-0", "é", "x" * 50]) | WORDS),
        "creationTimestamp": draw(TIMES | AGES | st.just("0001-01-01T00:00:00Z")),
    }
    raw["spec"]["nodeName"] = draw(st.sampled_from([node_name, node_name, node_name, "", "other"]))
    raw.setdefault("status", {})["phase"] = draw(
        st.sampled_from(["Running", "Running", "Pending", "", "Succeeded", "Failed", "Unknown"])
    )
    return without_shared_numbers(raw)


def without_shared_numbers(raw: dict[str, Any]) -> dict[str, Any]:
    """Drop an overhead on top of a pod-level number that upstream holds in arbitrary precision.

    Upstream adds it to the pod itself, so that kubectl, which asks four times, counts it
    more than once. That is a fault of its memory management, and not one to copy.
    """
    resources = raw["spec"].get("resources", {})
    for amounts in resources.values():
        for name, amount in amounts.items():
            if Quantity.parse(amount).big:
                raw["spec"].get("overhead", {}).pop(name, None)
    return raw


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """The arguments of one question: a node, pods on it and elsewhere, and a time zone."""
    node = draw(NODES)
    name = node["metadata"]["name"]
    lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {}}
    event = {"metadata": {"name": "e", "namespace": "default"}, "reason": "Starting", "type": "No"}
    return {
        "node": node,
        "pods": draw(st.lists(placed_pods(name), max_size=5)),
        "zone": draw(ZONES),
        "lease": draw(st.sampled_from([None, lease])),
        "event": draw(st.sampled_from([None, event])),
    }


def without_live_lines(text: str, *, lease: bool) -> list[str]:
    """Remove the lease (one line if there is none, four if there is) and the events."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("Lease:"))
    del lines[start : start + (4 if lease else 1)]
    events = max(i for i, line in enumerate(lines) if line.startswith("Events:"))
    return lines[:events]


def our_lines(question: dict[str, Any], now: str) -> list[str]:
    report = node_report(as_node(question["node"]), [as_pod(raw) for raw in question["pods"]])
    zone = timezone(timedelta(seconds=question["zone"]))
    text = describe_node(report, now=datetime.fromisoformat(now), zone=zone)
    assert text.endswith("\n")
    return text[:-1].split("\n")


def with_ages(question: dict[str, Any], now: datetime) -> dict[str, Any]:
    for pod in question["pods"]:
        created = pod["metadata"]["creationTimestamp"]
        if isinstance(created, int):
            pod["metadata"]["creationTimestamp"] = (now - timedelta(seconds=created)).isoformat()
    return question


def check_node(oracle: Any, question: dict[str, Any]) -> None:
    answer = oracle.ask("describe_node", **question)
    upstream = without_live_lines(answer["text"], lease=question["lease"] is not None)
    ours = our_lines(question, answer["before"])
    if ours != upstream:
        # Upstream's clock may have ticked over to the next second while it worked.
        ours = our_lines(question, answer["after"])
    oracle.assert_same(ours, upstream, about=question)


def test_the_text_of_a_node_agrees(oracle, for_all):
    asked = oracle.ask("describe_node", zone=0, node={"metadata": {"name": "n"}}, pods=[])
    now = datetime.fromisoformat(asked["before"]).replace(microsecond=0)

    for_all(clusters(), lambda question: check_node(oracle, with_ages(question, now)), examples=140)


def test_the_text_of_the_example_agrees(oracle):
    node, *pods_there = yaml.safe_load(EXAMPLE.read_text())["items"]
    question = {"node": node, "pods": pods_there, "zone": 3600, "lease": None, "event": None}

    check_node(oracle, question)


# ------------------------------------------------------------------ columns and durations

CELLS = st.text("ab漢\u0301 ", max_size=6)
TABLES = st.lists(st.lists(CELLS, max_size=5).map("\t".join), max_size=8).map("\n".join)
RAW_TEXTS = TABLES | st.text("ab\t\t\n\v\f\r\x1bé🚀", max_size=40) | st.text(max_size=20)


def test_columns_agree(agree):
    agree("tabwriter", texts=RAW_TEXTS, ours=aligned, batch=(10, 40), examples=60)


MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400
THRESHOLDS = [0, -1, -2, 1, 2 * MINUTE, 10 * MINUTE, 3 * HOUR, 8 * HOUR, 2 * DAY, 8 * DAY]
MICROS = (
    st.builds(
        lambda seconds, off: seconds * 10**6 + off,
        st.sampled_from([*THRESHOLDS, 3 * MINUTE, 5 * HOUR, 3 * DAY, 2 * YEAR, 3 * YEAR, 8 * YEAR]),
        st.integers(-2, 2) | st.integers(-2, 2).map(lambda seconds: seconds * 10**6),
    )
    | st.integers(-3_000_000, 10**9)
    | st.integers(0, 10**15)
    | st.integers(-(10**15), (2**63 - 1) // 1000)
)


def test_durations_agree(agree):
    def ours(micros: int) -> str:
        return human_duration(timedelta(microseconds=micros))

    agree("human_duration", micros=MICROS, ours=ours, examples=60)
