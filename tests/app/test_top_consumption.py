"""The sums of `bursar top`: whose pods count, for how much, and what is left."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bursar.app.reports.node import node_report
from bursar.app.reports.top.consumption import (
    Line,
    counted_pods,
    grouped_lines,
    grouped_pods,
    node_lines,
    offered_by,
    pod_line,
    total_of,
)
from bursar.app.reports.top.devices import device_lines
from bursar.core.model.defaulting import node_with_defaults, with_defaults
from bursar.core.model.names import is_extended
from bursar.core.model.quantity import ZERO
from support.builders import random_objects
from support.builders.manifests import node_manifest, pod_manifest
from support.builders.pods import parsed, texts
from support.builders.random_objects import as_node, as_pod


def a_node(name: str, amounts: str = "cpu=4 memory=8Gi pods=10", **status: Any):
    return node_with_defaults(as_node(node_manifest(name, amounts, **status)))


def shop_pod(name: str, requests: str = "cpu=1", limits: str = "", **more: Any):
    return with_defaults(
        as_pod(pod_manifest(f"shop/{name}", requests=requests, limits=limits, **more))
    )


def lines_of(*objects: Any, **usage: dict[str, str]) -> list[Line]:
    nodes = [each for each in objects if hasattr(each, "allocatable")]
    pods = [each for each in objects if not hasattr(each, "allocatable")]
    used = {name: parsed(text) for name, text in usage.items()}
    return node_lines(nodes, counted_pods(pods, {}), used)


def test_only_pods_with_this_node_that_have_not_ended_count():
    [line] = lines_of(
        a_node("n"),
        shop_pod("a", "cpu=500m", "cpu=2", node="n", phase="Running"),
        shop_pod("b", node="n", phase="Pending"),
        shop_pod("ended", node="n", phase="Succeeded"),
        shop_pod("failed", node="n", phase="Failed"),
        shop_pod("without"),
    )

    assert texts(line.requests) == {"pods": "2", "cpu": "1500m"}
    assert texts(line.limits) == {"cpu": "2"}
    assert line.free is not None
    assert texts(line.free) == {"cpu": "2500m", "memory": "8Gi", "pods": "8"}
    assert line.percent("cpu", line.requests) == 37
    assert line.percent("nvidia.com/gpu", line.requests) is None


def test_of_pods_with_one_name_the_last_counts():
    [counted] = counted_pods([shop_pod("a", "cpu=1"), shop_pod("a", "cpu=2")], {})

    assert texts(counted.requests) == {"cpu": "2", "pods": "1"}


def test_a_resize_under_way_counts_on_a_node_and_not_before():
    status = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "3"}, "resources": {}},
        ],
    }
    resized = pod_manifest("shop/a", requests="cpu=1", node="n") | {"status": status}
    waiting = pod_manifest("shop/a", requests="cpu=1") | {"status": status}

    assert [
        texts(counted_pods([as_pod(raw)], {})[0].requests)["cpu"] for raw in (resized, waiting)
    ] == ["3", "1"]


def test_pods_of_other_namespaces_are_not_free_even_if_they_are_not_shown():
    node = a_node("n")
    pods = counted_pods([shop_pod("a", node="n"), shop_pod("b", node="n")], {})
    [line] = node_lines([node], pods, {}, is_shown=lambda pod: pod.name == "a")

    assert texts(line.requests)["cpu"] == "1"
    assert line.free is not None
    assert texts(line.free)["cpu"] == "2"


def test_a_node_that_is_gone_is_listed_while_pods_are_bound_to_it():
    gone, here = lines_of(a_node("n"), shop_pod("a", node="gone"))

    assert (gone.name, gone.offered, gone.free, gone.is_open) == ("gone", None, None, False)
    assert texts(gone.requests)["cpu"] == "1"
    assert (here.name, texts(here.requests)) == ("n", {"pods": "0"})


def test_what_is_free_on_nodes_that_take_no_pods_is_not_in_the_total():
    not_ready = [{"type": "Ready", "status": "Unknown"}]
    ready = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]
    cordoned = node_manifest("cordoned", "cpu=4") | {"spec": {"unschedulable": True}}
    lines = lines_of(
        a_node("a", conditions=ready),
        a_node("lost", conditions=not_ready),
        node_with_defaults(as_node(cordoned)),
    )
    total = total_of(lines, "(all)")

    assert [(line.name, line.is_open) for line in lines] == [
        ("a", True),
        ("cordoned", False),
        ("lost", False),
    ]
    assert total.free is not None
    assert (texts(total.free)["cpu"], texts(total.offered or {})["cpu"]) == ("4", "12")


def test_nodes_are_added_up_by_group():
    lines = lines_of(a_node("a1"), a_node("a2"), a_node("b"), shop_pod("x", node="a1"), a1="cpu=2")
    groups = grouped_lines(lines, lambda line: line.name[0])

    assert [(line.name, line.members) for line in groups] == [("a", 2), ("b", 1)]
    first = groups[0]
    assert (texts(first.requests)["cpu"], texts(first.free or {})["cpu"]) == ("1", "7")
    assert (texts(first.usage or {}), groups[1].usage) == ({"cpu": "2"}, None)


def test_pods_are_added_up_by_group():
    usage = {("shop", "a1"): parsed("cpu=100m"), ("shop", "a2"): parsed("cpu=200m")}
    pods = counted_pods([shop_pod("a1", node="n"), shop_pod("a2"), shop_pod("b")], usage)
    groups = grouped_pods(pods, lambda each: each.pod.name[0], lambda name: Line(name=name))

    assert [(line.name, texts(line.requests), line.unplaced) for line in groups] == [
        ("a", {"cpu": "2", "pods": "2"}, 1),
        ("b", {"cpu": "1", "pods": "1"}, 1),
    ]
    assert [texts(line.usage or {}) for line in groups] == [{"cpu": "300m"}, {}]


def test_the_percentages_of_a_pod_are_of_its_node():
    offers = {"n": parsed("cpu=4")}
    placed, waiting = (
        pod_line(each, offers)
        for each in counted_pods([shop_pod("a", node="n"), shop_pod("b")], {})
    )

    assert (placed.percent("cpu", placed.requests), placed.unplaced) == (25, 0)
    assert (waiting.percent("cpu", waiting.requests), waiting.unplaced) == (None, 1)


def test_without_a_node_nothing_is_offered():
    assert offered_by([]) is None
    assert texts(offered_by([a_node("a"), a_node("b")]) or {})["cpu"] == "8"


# ------------------------------------------------------------------ the recount of describe node

NODES = ("n0", "n1", "n2")


@st.composite
def clusters(draw: st.DrawFn, *, resized: bool) -> tuple[list[dict], list[dict]]:
    nodes = [
        node_manifest(
            name,
            draw(
                st.sampled_from(
                    [
                        "cpu=4 memory=16Gi pods=110",
                        "cpu=63900m memory=65811260Ki pods=3 ephemeral-storage=94Gi",
                        "cpu=2 memory=7Gi pods=10 nvidia.com/gpu=2 hugepages-2Mi=64Mi",
                        "cpu=0 memory=0 pods=0 example.com/foo=3",
                    ]
                )
            ),
        )
        for name in NODES
    ]
    pods = []
    for number, raw in enumerate(draw(st.lists(random_objects.pods(resized=resized), max_size=6))):
        raw["metadata"] |= {"name": f"p{number}", "uid": f"u-{number}"}
        node = draw(st.sampled_from([*NODES, ""]))
        if node:
            raw["spec"]["nodeName"] = node
        phase = draw(st.sampled_from(["Running", "Pending", "Succeeded"]))
        raw["status"] = {**raw.get("status", {}), "phase": phase}
        pods.append(raw)
    return nodes, pods


@given(clusters(resized=True))
def test_what_is_free_is_what_describe_node_says(cluster):
    nodes, pods = cluster
    decoded = [with_defaults(as_pod(raw)) for raw in pods]
    described = [node_report(node_with_defaults(as_node(raw)), decoded) for raw in nodes]
    lines = node_lines(
        [node_with_defaults(as_node(raw)) for raw in nodes], counted_pods(decoded, {}), {}
    )

    assert [line.free for line in lines] == [dict(report.free) for report in described]
    assert [line.requests["pods"].value() for line in lines] == [
        len(report.pods) for report in described
    ]


@given(clusters(resized=False))
def test_what_is_allocated_is_what_describe_node_says(cluster):
    """During a resize kubectl's total is that of the spec, and the scheduler's is greater."""
    nodes, pods = cluster
    decoded = [with_defaults(as_pod(raw)) for raw in pods]
    counted = counted_pods(decoded, {})
    for raw in nodes:
        node = node_with_defaults(as_node(raw))
        [line] = [each for each in node_lines([node], counted, {}) if each.name == node.name]
        for each in node_report(node, decoded).allocated:
            name = each.resource
            assert line.requests.get(name, ZERO) == each.requests.amount
            assert line.limits.get(name, ZERO) == each.limits.amount
            assert line.percent(name, line.requests) == each.requests.percent
            assert line.percent(name, line.limits) == each.limits.percent


@given(clusters(resized=True))
def test_free_devices_are_what_describe_node_says(cluster):
    nodes, pods = cluster
    decoded = [with_defaults(as_pod(raw)) for raw in pods]
    known = [node_with_defaults(as_node(raw)) for raw in nodes]
    free = {
        (line.node, line.resource): line for line in device_lines(known, counted_pods(decoded, {}))
    }
    for node in known:
        for name, amount in node_report(node, decoded).free.items():
            if is_extended(name):
                assert free[node.name, name].free == amount
