"""The report on a node: whose pods count, their shares, and what is left."""

from typing import Any

import pytest

from bursar.app.reports.node import node_report
from support.builders.manifests import pod_manifest
from support.builders.pods import texts
from support.builders.random_objects import as_node, as_pod

ROOM = {"cpu": "4", "memory": "12Gi", "pods": "110"}


def a_node(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n"}, "status": {"allocatable": ROOM, **status}}


def running(name: str = "web", namespace: str = "default", **changes: Any) -> dict[str, Any]:
    """A running pod on node `n` that requests 1 cpu, but for the changes."""
    usual = {"node": "n", "phase": "Running", "requests": "cpu=1", "container": "main"}
    return pod_manifest(f"{namespace}/{name}", **usual | changes)


def report(node: dict[str, Any], *pods: dict[str, Any]):
    return node_report(as_node(node), [as_pod(pod) for pod in pods])


def totals(node: dict[str, Any], *pods: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    return {
        each.resource: (str(each.requests.amount), each.requests.percent)
        for each in report(node, *pods).allocated
    }


def test_pods_elsewhere_and_pods_that_ended_do_not_count():
    pods = [
        running("here"),
        running("starting", phase="Pending"),
        running("elsewhere", node="other"),
        running("unassigned", node=""),
        running("done", phase="Succeeded"),
        running("failed", phase="Failed"),
    ]

    assert [pod.name for pod in report(a_node(), *pods).pods] == ["here", "starting"]


def test_pods_come_in_the_order_of_their_keys_in_etcd():
    pods = [running("b", "team"), running("a", "team"), running("z", "team-a"), running("a", "b")]

    lines = report(a_node(), *pods).pods

    assert [f"{line.namespace}/{line.name}" for line in lines] == [
        "b/a",
        "team-a/z",
        "team/a",
        "team/b",
    ]


def test_a_row_names_cpu_and_memory_first_and_always():
    pod = running(requests="ephemeral-storage=1Gi cpu=500m")

    (line,) = report(a_node(), pod).pods

    assert {name: str(share.amount) for name, share in line.requests.items()} == {
        "cpu": "500m",
        "memory": "0",
        "ephemeral-storage": "1Gi",
    }
    assert list(line.requests) == ["cpu", "memory", "ephemeral-storage"]


def test_shares_are_cut_towards_zero_and_cpu_is_divided_in_thousandths():
    pod = running(requests="cpu=1999m memory=1Gi", limits="cpu=9 memory=2Gi")

    (line,) = report(a_node(), pod).pods

    assert (line.requests["cpu"].percent, line.requests["memory"].percent) == (49, 8)
    assert (line.limits["cpu"].percent, line.limits["memory"].percent) == (225, 16)


def test_a_share_of_more_memory_than_fits_in_thousandths_is_right():
    pod = running(requests="memory=5P")

    assert totals(a_node(allocatable={"memory": "10P"}), pod)["memory"] == ("5P", 50)


def test_a_share_of_nothing_has_no_percentage():
    node = a_node(allocatable={"cpu": "0", "pods": "1"})

    (line,) = report(node, running()).pods

    assert line.requests["cpu"].percent is None
    assert line.requests["memory"].percent is None
    assert totals(node, running())["cpu"] == ("1", None)


def test_shares_are_of_capacity_where_nothing_is_allocatable():
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}, "allocatable": {}}}

    assert totals(node, running())["cpu"] == ("1", 50)


def test_totals_name_hugepages_before_other_resources_and_never_pods():
    room = {"z.io/x": "1", "hugepages-2Mi": "2Gi", "a.io/x": "4", "hugepages-1Gi": "0", **ROOM}
    pods = [running(str(n), requests="a.io/x=1 hugepages-2Mi=512Mi") for n in range(2)]

    assert totals(a_node(allocatable=room), *pods) == {
        "cpu": ("0", 0),
        "memory": ("0", 0),
        "ephemeral-storage": ("0", None),
        "hugepages-1Gi": ("0", None),
        "hugepages-2Mi": ("1Gi", 50),
        "a.io/x": ("2", 50),
        "z.io/x": ("0", 0),
    }


def test_a_resource_the_node_does_not_offer_is_missing_from_the_totals():
    assert "nvidia.com/gpu" not in totals(a_node(), running(requests="nvidia.com/gpu=1"))


def test_during_a_resize_rows_and_free_count_the_status_but_totals_do_not():
    granted = {"name": "main", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}}
    pod = running(limits="cpu=2") | {"status": {"phase": "Running", "containerStatuses": [granted]}}

    made = report(a_node(), pod)

    (line,), cpu = made.pods, made.allocated[0]
    assert (str(line.requests["cpu"].amount), str(line.limits["cpu"].amount)) == ("3", "4")
    assert (str(cpu.requests.amount), str(cpu.limits.amount)) == ("1", "2")
    assert str(made.free["cpu"]) == "1"


def test_what_is_free_is_exact_and_ends_with_the_pods():
    room = {**ROOM, "memory": "7474992Ki", "nvidia.com/gpu": "8"}
    pod = running(requests="cpu=680m memory=920Mi nvidia.com/gpu=3")

    free = report(a_node(allocatable=room), pod).free

    assert texts(free) == {
        "cpu": "3320m",
        "memory": "6532912Ki",
        "nvidia.com/gpu": "5",
        "pods": "109",
    }
    assert list(free)[-1] == "pods"


@pytest.mark.parametrize("room", [{}, {"cpu": "500m", "pods": "1"}, {"cpu": "-1", "pods": "0"}])
def test_what_is_free_is_never_negative_and_only_told_of_what_the_node_offers(room):
    free = report(a_node(capacity={}, allocatable=room), running("a"), running("b")).free

    assert texts(free) == dict.fromkeys(room, "0")


def test_pods_without_a_node_wait_and_are_told_what_this_one_lacks_for_them():
    small, large = running("small"), running("large", requests="cpu=9 example.com/foo=1")
    for pod in (small, large):
        del pod["spec"]["nodeName"]

    waiting = report(a_node(), small, large, running("placed")).waiting

    assert [(pod.name, [lack.reason for lack in pod.shortfalls]) for pod in waiting] == [
        ("large", ["Insufficient cpu", "Insufficient example.com/foo"]),
        ("small", []),
    ]
