"""The text of `describe node`, line by line where kubectl has its habits."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from bursar.app.reports.node import NodeReport, node_report
from bursar.cli.reports.node_layout import describe_node, still_fits, waiting_pods
from support.builders.random_objects import as_node, as_pod

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "node-pool.yaml"
GOLDEN = ROOT / "tests" / "golden" / "describe-node-pool.txt"
NOW = datetime(2017, 6, 6, 10, 20, 40, tzinfo=UTC)


def example_report() -> NodeReport:
    node, *pods = yaml.safe_load(EXAMPLE.read_text())["items"]
    return node_report(as_node(node), [as_pod(pod) for pod in pods])


def lines_of(raw: dict[str, Any], *pods: dict[str, Any], zone=UTC) -> list[str]:
    report = node_report(as_node(raw), [as_pod(pod) for pod in pods])
    return describe_node(report, now=NOW, zone=zone).splitlines()


def head_of(**metadata: Any) -> list[str]:
    """The lines down to `Unschedulable:`."""
    lines = lines_of({"metadata": {"name": "n", **metadata}})
    return lines[: lines.index("Addresses:")]


def below(title: str, lines: list[str]) -> list[str]:
    """The indented lines below a title."""
    start = lines.index(title) + 1
    ends = [i for i, line in enumerate(lines[start:], start) if not line.startswith(" ")]
    return lines[start : ends[0] if ends else None]


def test_the_example_is_described_as_kubectl_does():
    assert describe_node(example_report(), now=NOW, zone=UTC) == GOLDEN.read_text()


def test_what_still_fits_is_a_section_of_its_own():
    assert still_fits(example_report()) == (
        "Still fits:\n  Resource  Free\n  cpu       1120m\n  memory    6532912Ki\n  pods      105\n"
    )


def test_waiting_pods_are_told_whether_they_fit_and_what_they_lack():
    node, *_ = yaml.safe_load(EXAMPLE.read_text())["items"]
    containers = [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "8Gi"}}}]
    late = [
        {"metadata": {"name": "large", "namespace": "d"}, "spec": {"containers": containers}},
        {"metadata": {"name": "small", "namespace": "d"}},
    ]

    assert waiting_pods(node_report(as_node(node), [as_pod(pod) for pod in late])) == (
        "Waiting pods:\n"
        "  Namespace  Name   Fits\n"
        "  d          large  no: Insufficient cpu (wants 2, 1800m free),"
        " Insufficient memory (wants 8Gi, 7474992Ki free)\n"
        "  d          small  yes\n"
    )


def test_a_bare_node_still_has_every_line_it_must_have():
    assert lines_of({"metadata": {"name": "n"}}) == [
        "Name:               n",
        "Roles:              <none>",
        "Labels:             <none>",
        "Annotations:        <none>",
        "CreationTimestamp:  Mon, 01 Jan 0001 00:00:00 +0000",
        "Taints:             <none>",
        "Unschedulable:      false",
        "Addresses:",
        "System Info:",
        "  Machine ID:                 ",
        "  System UUID:                ",
        "  Boot ID:                    ",
        "  Kernel Version:             ",
        "  OS Image:                   ",
        "  Operating System:           ",
        "  Architecture:               ",
        "  Container Runtime Version:  ",
        "  Kubelet Version:            ",
        "Non-terminated Pods:          (0 in total)",
        (
            "  Namespace                   Name    CPU Requests  CPU Limits  Memory Requests"
            "  Memory Limits  Age"
        ),
        (
            "  ---------                   ----    ------------  ----------  ---------------"
            "  -------------  ---"
        ),
        "Allocated resources:",
        "  (Total limits may be over 100 percent, i.e., overcommitted.)",
        "  Resource           Requests  Limits",
        "  --------           --------  ------",
        "  cpu                0 (0%)    0 (0%)",
        "  memory             0 (0%)    0 (0%)",
        "  ephemeral-storage  0 (0%)    0 (0%)",
    ]


def test_hugepages_have_percentages_and_other_resources_have_none():
    room = {"cpu": "4", "memory": "12Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "2Gi"}
    container = {
        "name": "c",
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "512Mi", "a.io/x": "2"},
            "limits": {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "512Mi", "a.io/x": "2"},
        },
    }
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [container]}}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {**room, "a.io/x": "8"}}}

    assert below("Allocated resources:", lines_of(node, pod)) == [
        "  (Total limits may be over 100 percent, i.e., overcommitted.)",
        "  Resource           Requests     Limits",
        "  --------           --------     ------",
        "  cpu                1 (25%)      2 (50%)",
        "  memory             1Gi (8%)     2Gi (16%)",
        "  ephemeral-storage  0 (0%)       0 (0%)",
        "  hugepages-1Gi      0 (0%)       0 (0%)",
        "  hugepages-2Mi      512Mi (25%)  512Mi (25%)",
        "  a.io/x             2            2",
    ]


def test_a_row_on_a_node_without_cpu_shows_what_kubectl_computes():
    pod = {"metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n"}}

    row = lines_of({"metadata": {"name": "n"}}, pod)[-8]

    assert row.split() == ["d", "p", *["0", "(-9223372036854775808%)"] * 4, "<unknown>"]


def test_labels_are_sorted_and_one_below_the_other():
    assert head_of(labels={"b": "2", "a": "1", "Z": ""})[2:5] == [
        "Labels:             Z=",
        "                    a=1",
        "                    b=2",
    ]


@pytest.mark.parametrize(
    ("labels", "roles"),
    [
        ({"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "x"}, "a,b"),
        ({"node-role.kubernetes.io/": "x", "kubernetes.io/role": ""}, "<none>"),
        ({"kubernetes.io/role": "infra", "node-role.kubernetes.io/infra": ""}, "infra"),
    ],
)
def test_roles_come_from_two_kinds_of_labels(labels, roles):
    assert head_of(labels=labels)[1] == f"Roles:              {roles}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("1\n", ["k: 1"], id="one line break at the end"),
        pytest.param("1\n\n", ["k:", "  1", "  "], id="two line breaks at the end"),
        pytest.param("1\n2", ["k:", "  1", "  2"], id="two lines"),
        pytest.param("a" * 137, ["k: " + "a" * 137], id="just short enough"),
        pytest.param("a" * 138, ["k:", "  " + "a" * 138], id="too long to stay beside the key"),
        pytest.param("a" * 139, ["k:", "  " + "a" * 138 + "..."], id="cut"),
        pytest.param("é" * 69, ["k:", "  " + "é" * 69], id="long in bytes only"),
        pytest.param("a" + "é" * 69, ["k:", "  a" + "é" * 68 + "\ufffd..."], id="half of é"),
        pytest.param("aa" + "🚀" * 35, ["k:", "  aa" + "🚀" * 34 + "..."], id="between two 🚀"),
        pytest.param("🚀" * 35, ["k:", "  " + "🚀" * 34 + "\ufffd\ufffd..."], id="half of 🚀"),
    ],
)
def test_a_long_annotation_gets_lines_of_its_own_and_is_cut_at_a_byte(value, shown):
    head = head_of(annotations={"k": value})

    assert [line[20:] for line in head[3:-3]] == shown


def test_the_annotation_kubectl_writes_itself_is_not_shown():
    own = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}

    assert head_of(annotations=own)[3] == "Annotations:        <none>"


def test_taints_are_sorted_by_effect_and_then_key():
    taints = [
        {"key": "b", "effect": "NoSchedule"},
        {"key": "a", "value": "1", "effect": "NoSchedule"},
        {"key": "z", "effect": "NoExecute"},
        {"key": "bare"},
        {"key": "half", "value": "1"},
    ]
    lines = lines_of({"metadata": {"name": "n"}, "spec": {"taints": taints}})

    assert [line[20:] for line in lines[5:10]] == [
        "bare",
        "half=1:",
        "z:NoExecute",
        "a=1:NoSchedule",
        "b:NoSchedule",
    ]


def test_times_are_in_the_readers_zone():
    raw = {"metadata": {"name": "n", "creationTimestamp": "2017-06-06T23:30:00Z"}}
    zone = timezone(timedelta(hours=2))

    assert "CreationTimestamp:  Wed, 07 Jun 2017 01:30:00 +0200" in lines_of(raw, zone=zone)


def test_conditions_end_each_cell_with_a_space_as_kubectl_does():
    condition = {"type": "Ready", "status": "True", "reason": "Fine", "message": "all good"}
    raw = {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}

    assert below("Conditions:", lines_of(raw))[2] == (
        "  Ready   True    Mon, 01 Jan 0001 00:00:00 +0000   Mon, 01 Jan 0001 00:00:00 +0000"
        "   Fine    all good"
    )


def test_network_and_provider_are_shown_when_known():
    spec = {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"], "providerID": "x:1"}
    lines = lines_of({"metadata": {"name": "n"}, "spec": {**spec, "unschedulable": True}})

    assert "Unschedulable:      true" in lines
    assert "PodCIDR:                      10.0.0.0/24" in lines
    assert "PodCIDRs:                     10.0.0.0/24,fd00::/64" in lines
    assert "ProviderID:                   x:1" in lines
