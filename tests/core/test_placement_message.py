"""The texts of a pod that found no place, as the scheduler and the kubelet write them."""

import pytest

from bursar.core.model.node import Node
from bursar.core.placement.choice import choose
from bursar.core.placement.fit import Shortfall, shortfalls
from bursar.core.placement.message import (
    GATED_MESSAGE,
    GATED_REASON,
    KUBELET_STATUS_PREFIX,
    Rejection,
    event_text,
    failure_text,
    gates_text,
    kubelet_message,
    kubelet_reason,
    preemption_text,
    rejection_of,
)
from bursar.core.placement.node_books import NodeBooks
from support.builders.pods import Slot, a_pod, main, parsed

Sized = tuple[str, int | None]


def a_node(name: str, allocatable: str, *taken: Sized) -> NodeBooks:
    pods = [
        a_pod(main(used), uid=f"{name}-{index}", priority=priority)
        for index, (used, priority) in enumerate(taken)
    ]
    return NodeBooks(Node(name=name, allocatable=parsed(allocatable)), pods)


def nodes(count: int, allocatable: str, *taken: Sized) -> list[NodeBooks]:
    return [a_node(f"n{index}", allocatable, *taken) for index in range(count)]


ROOM = "cpu=4 memory=1Gi pods=10"
ONE_CORE: Slot = main("cpu=1")


def rejected(*reasons: str, node: str = "n1") -> Rejection:
    return Rejection(node=node, reasons=reasons, eviction_may_help=True)


# ------------------------------------------------------------------ the count of reasons

COUNTS = {
    "each reason with its count": (
        [rejected("Insufficient cpu"), rejected("Insufficient cpu", "Too many pods")],
        "0/2 nodes are available: 1 Too many pods, 2 Insufficient cpu.",
    ),
    "sorted as text, so that ten come before two": (
        [rejected("b")] * 2 + [rejected("a")] * 10,
        "0/12 nodes are available: 10 a, 2 b.",
    ),
    "a node without reasons": ([rejected()], "0/1 nodes are available:"),
}


@pytest.mark.parametrize(("rejections", "text"), COUNTS.values(), ids=COUNTS)
def test_reasons_are_counted_over_all_nodes(rejections, text):
    assert failure_text(rejections, node_count=len(rejections)) == text


def test_nodes_that_were_not_looked_at_have_a_reason_of_their_own():
    excluded = "node(s) didn't satisfy plugin(s) [NodeAffinity]"

    text = failure_text([rejected("Insufficient cpu")], node_count=5, absent_reasons=(excluded,))

    assert text == f"0/5 nodes are available: 1 Insufficient cpu, 4 {excluded}."


def test_nodes_that_were_all_looked_at_leave_that_reason_out():
    text = failure_text([rejected("x")], node_count=1, absent_reasons=("never",))

    assert text == "0/1 nodes are available: 1 x."


def test_a_reason_before_any_node_replaces_the_count():
    text = failure_text([rejected("x")], node_count=3, pre_filter="no such claim", post_filter="p")

    assert text == "0/3 nodes are available: no such claim. p"


# ------------------------------------------------------------------ whole messages


def test_a_pod_that_fits_somewhere_has_no_message():
    full, empty = a_node("n1", ROOM, ("cpu=4", 0)), a_node("n2", ROOM)

    assert choose(a_pod(ONE_CORE), [full, empty]).message == ""


def test_without_nodes_there_is_nothing_to_count():
    assert choose(a_pod(ONE_CORE), []).message == "no nodes available to schedule pods"


WHOLE = {
    "no pod has lower priority": (
        nodes(3, ROOM, ("cpu=4", None)),
        None,
        (
            "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/3 nodes are available: 3 No preemption victims found for incoming pod."
        ),
    ),
    "nodes that are too small even when empty": (
        [*nodes(1, "cpu=500m pods=9"), *nodes(2, ROOM, ("cpu=4", 7))],
        7,
        (
            "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
            "2 No preemption victims found for incoming pod."
        ),
    ),
    "evicting all lower pods would not be enough": (
        nodes(2, ROOM, ("cpu=3500m", 9), ("cpu=500m", 1)),
        9,
        (
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/2 nodes are available: 2 Insufficient cpu."
        ),
    ),
    "no node can be helped": (
        nodes(2, "cpu=500m pods=9"),
        100,
        (
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        ),
    ),
    "victims are found, and nothing more is said": (
        nodes(2, ROOM, ("cpu=4", 1)),
        9,
        "0/2 nodes are available: 2 Insufficient cpu.",
    ),
}


@pytest.mark.parametrize(("found", "priority", "text"), WHOLE.values(), ids=WHOLE)
def test_the_message_tells_what_preemption_found(found, priority, text):
    assert choose(a_pod(ONE_CORE, priority=priority), found).message == text


def test_a_pod_that_never_preempts_says_so():
    pod = a_pod(ONE_CORE, priority=9, preemption_policy="Never")

    assert choose(pod, nodes(1, ROOM, ("cpu=4", 0))).message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never."
    )


def test_what_devices_would_add_is_not_guessed():
    full = nodes(1, ROOM, ("cpu=4", 0))
    claiming = a_pod(ONE_CORE, claim_names=("gpu",))

    assert choose(claiming, full).message == "0/1 nodes are available: 1 Insufficient cpu."


def test_reasons_of_other_kinds_take_part_in_preemption():
    tainted, full = a_node("n1", ROOM), a_node("n2", ROOM, ("cpu=4", 0))
    pod = a_pod(ONE_CORE)
    rejections = [
        Rejection(
            node="n1", reasons=("node(s) had untolerated taint(s)",), eviction_may_help=False
        ),
        rejection_of(full, shortfalls(pod, full)),
    ]

    assert preemption_text(pod, [tainted, full], rejections, lambda *_: ()) == (
        "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_a_rejection_knows_whether_eviction_may_help():
    small, full = a_node("n1", "cpu=500m pods=9"), a_node("n2", ROOM, ("cpu=4", 0))

    assert [
        rejection_of(books, shortfalls(a_pod(ONE_CORE), books)).eviction_may_help
        for books in (small, full)
    ] == [False, True]


# ------------------------------------------------------------------ events, gates, kubelet


def test_an_event_is_cut_at_1024_bytes():
    assert event_text("x" * 1024) == "x" * 1024
    assert event_text("x" * 1025) == "x" * 1020 + " ..."


def test_an_event_is_cut_by_bytes_and_stays_text():
    cut = event_text("x" + "ä" * 600)

    assert cut == "x" + "ä" * 509 + "\ufffd ..."


def test_gates_are_listed_as_go_prints_them():
    assert gates_text(["example.com/a", "example.com/b"]) == (
        "waiting for scheduling gates: [example.com/a example.com/b]"
    )
    assert GATED_REASON == "SchedulingGated"
    assert GATED_MESSAGE == "Scheduling is blocked due to non-empty scheduling gates"


REFUSED = [
    ("cpu", "OutOfcpu"),
    ("memory", "OutOfmemory"),
    ("ephemeral-storage", "OutOfephemeral-storage"),
    ("pods", "OutOfpods"),
    ("example.com/foo", "OutOfexample.com/foo"),
]


@pytest.mark.parametrize(("resource", "reason"), REFUSED)
def test_a_kubelet_names_the_resource_it_is_out_of(resource, reason):
    lack = Shortfall(resource=resource, requested=3000, used=1500, allocatable=4000)

    assert kubelet_reason(lack) == reason
    assert KUBELET_STATUS_PREFIX + kubelet_message(lack) == (
        f"Pod was rejected: Node didn't have enough resource: {resource}, "
        "requested: 3000, used: 1500, capacity: 4000"
    )
