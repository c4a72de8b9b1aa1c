"""The cluster at a glance."""

from typing import Any

import pytest

from bursar.app.reports.overview import PodState, overview, state_of
from support.builders.manifests import node_manifest, pod_manifest
from support.builders.random_objects import as_node, as_pod

READY = [{"type": "Ready", "status": "True"}]


def a_node(name: str, amounts: str = "", conditions: list[dict] = READY):
    return as_node(
        node_manifest(name, f"cpu=4 memory=8Gi pods=10 {amounts}", conditions=conditions)
    )


def a_pod(name: str, *gates: str, requests: str = "cpu=1", phase: str = "Pending", **more: Any):
    return as_pod(pod_manifest(f"d/{name}", *gates, requests=requests, phase=phase, **more))


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (a_pod("a"), PodState.WAITING),
        (a_pod("a", "x/hold"), PodState.GATED),
        (a_pod("a", node="n"), PodState.STARTING),
        (a_pod("a", node="n", phase="Running"), PodState.RUNNING),
        (a_pod("a", node="n", phase="Succeeded"), PodState.SUCCEEDED),
        (a_pod("a", node="n", phase="Failed"), PodState.FAILED),
    ],
)
def test_every_pod_is_in_one_state(pod, state):
    assert state_of(pod) is state


def test_nodes_are_told_with_what_is_requested_on_them_and_what_is_full():
    pods = [a_pod("a", node="n1", phase="Running", requests="cpu=3700m"), a_pod("b", node="n2")]

    seen = overview([a_node("n2"), a_node("n1", "example.com/foo=0")], pods)

    first, second = seen.nodes
    assert (first.name, second.name) == ("n1", "n2")
    assert [(load.resource, str(load.requested), load.percent) for load in first.loads] == [
        ("cpu", "3700m", 92),
        ("memory", "0", 0),
        ("example.com/foo", "0", 100),
        ("pods", "1", 10),
    ]
    assert seen.full == (("n1", "cpu"), ("n1", "example.com/foo"))
    assert seen.counts == {PodState.RUNNING: 1, PodState.STARTING: 1}


def test_who_waits_is_listed_by_priority_with_what_the_scheduler_or_the_gate_says():
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes"},
    ]
    status = {"phase": "Pending", "conditions": conditions}
    refused = as_pod(pod_manifest("d/low") | {"status": status})
    gated = a_pod("held", "x/hold")

    seen = overview([], [refused, gated, a_pod("new"), a_pod("high", priority=7)])

    assert [(line.name, line.reason) for line in seen.waiting] == [
        ("high", "not looked at yet"),
        ("held", "waiting for scheduling gates: [x/hold]"),
        ("low", "0/1 nodes"),
        ("new", "not looked at yet"),
    ]


def test_a_node_that_does_not_say_it_is_ready_is_not():
    (node,) = overview([a_node("n", conditions=[])], []).nodes

    assert not node.is_ready
    assert not node.is_cordoned
