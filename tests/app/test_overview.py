"""The cluster at a glance."""

from typing import Any

import pytest

from bursar.app.quota.views.read_model import BooksView, QueuePlace, QuotaLine
from bursar.app.reports.overview import Full, OverviewReader, PodState, overview, state_of
from bursar.core.model.quantity import Quantity
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import QuotaKey, QuotaKind
from support.builders.manifests import node_manifest, pod_manifest
from support.builders.random_objects import as_node, as_pod

READY = [{"type": "Ready", "status": "True"}]


def a_node(name: str, amounts: str = "", conditions: list[dict] = READY):
    return as_node(
        node_manifest(name, f"cpu=4 memory=8Gi pods=10 {amounts}", conditions=conditions)
    )


def pending(name: str, *gates: str, requests: str = "cpu=1", phase: str = "Pending", **more: Any):
    return as_pod(pod_manifest(f"d/{name}", *gates, requests=requests, phase=phase, **more))


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (pending("a"), PodState.WAITING),
        (pending("a", "x/hold"), PodState.GATED),
        (pending("a", node="n"), PodState.STARTING),
        (pending("a", node="n", phase="Running"), PodState.RUNNING),
        (pending("a", node="n", phase="Succeeded"), PodState.SUCCEEDED),
        (pending("a", node="n", phase="Failed"), PodState.FAILED),
    ],
)
def test_every_pod_is_in_one_state(pod, state):
    assert state_of(pod) is state


def test_nodes_are_told_with_what_is_requested_on_them_and_what_is_full():
    pods = [pending("a", node="n1", phase="Running", requests="cpu=3700m"), pending("b", node="n2")]

    seen = overview([a_node("n2"), a_node("n1", "example.com/foo=0")], pods)

    first, second = seen.nodes
    assert (first.name, second.name) == ("n1", "n2")
    assert [(load.resource, str(load.requested), load.percent) for load in first.loads] == [
        ("cpu", "3700m", 92),
        ("memory", "0", 0),
        ("example.com/foo", "0", 100),
        ("pods", "1", 10),
    ]
    assert seen.full == (Full("cpu", node="n1"), Full("example.com/foo", node="n1"))
    assert seen.counts == {PodState.RUNNING: 1, PodState.STARTING: 1}


def test_who_waits_is_listed_by_priority_with_what_the_scheduler_or_the_gate_says():
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes"},
    ]
    status = {"phase": "Pending", "conditions": conditions}
    refused = as_pod(pod_manifest("d/low") | {"status": status})
    gated = pending("held", "x/hold")

    seen = overview([], [refused, gated, pending("new"), pending("high", priority=7)])

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


def quota(**amounts: tuple[str, str]) -> QuotaLine:
    return QuotaLine(
        key=QuotaKey(QuotaKind.NAMESPACED, "d", "q"),
        used={name: Quantity.parse(used) for name, (used, _) in amounts.items()},
        hard={name: Quantity.parse(hard) for name, (_, hard) in amounts.items()},
        summary="",
    )


def test_an_exhausted_quota_is_full_and_one_with_room_is_not():
    line = quota(pods=("2", "2"), cpu=("3", "2"), memory=("19", "20"), services=("0", "0"))

    seen = overview([], [], BooksView(quotas=(line,)))

    assert [(each.resource, each.quota) for each in seen.full] == [
        ("cpu", line.key),
        ("pods", line.key),
        ("services", line.key),
    ]


def test_the_queue_comes_first_in_its_order():
    places = {
        PodKey("d", "b"): QueuePlace(1, 0, ()),
        PodKey("d", "a"): QueuePlace(2, 1, (PodKey("d", "b"),)),
    }

    seen = overview(
        [],
        [pending("new", priority=9), pending("a", "x/hold"), pending("b", "x/hold")],
        BooksView(places=places),
    )

    assert [(line.name, line.position, line.ahead_count) for line in seen.waiting] == [
        ("b", 1, 0),
        ("a", 2, 1),
        ("new", None, 0),
    ]


def test_a_node_is_computed_again_only_if_it_or_its_pods_changed():
    node, pod = a_node("n"), pending("a", node="n", phase="Running")
    reader = OverviewReader()

    first = reader.read([node], [pod]).nodes[0]
    again = reader.read([node], [pod]).nodes[0]
    more = reader.read([node], [pod, pending("b", node="n")]).nodes[0]
    other = reader.read([a_node("n")], [pod]).nodes[0]

    assert again is first
    assert more.pod_count == 2
    assert other is not first
    assert other == first
