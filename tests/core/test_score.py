"""Scores: upstream's own cases, and the arithmetic at its edges."""

import pytest

from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.score import balanced_allocation, least_allocated
from support.builders.pods import a_pod, main, parsed, resources

TWO_CONTAINERS = a_pod(main("cpu=1 memory=2000"), main("cpu=2 memory=3000"))
"""Three cores and 5000 bytes in all, the pod of most of upstream's cases."""


def a_node(allocatable: str, *taken: str) -> NodeBooks:
    pods = [a_pod(main(used), uid=f"u-{index}") for index, used in enumerate(taken)]
    return NodeBooks(Node(name="n1", allocatable=parsed(allocatable)), pods)


NOTHING_ASKED = a_pod(main("cpu=0 memory=0"))

LEAST = {
    "an empty node": ("cpu=4 memory=10000", (), NOTHING_ASKED, 100),
    "a smaller node": ("cpu=4 memory=10000", (), TWO_CONTAINERS, 37),
    "a larger node": ("cpu=6 memory=10000", (), TWO_CONTAINERS, 50),
    "cpu taken": ("cpu=10 memory=20000", ("cpu=3 memory=0",), TWO_CONTAINERS, 57),
    "cpu and memory taken": ("cpu=10 memory=20000", ("cpu=3 memory=5000",), TWO_CONTAINERS, 45),
    "more memory": ("cpu=10 memory=50000", ("cpu=3 memory=5000",), TWO_CONTAINERS, 60),
    "more than the node has scores zero": (
        "cpu=4 memory=10000",
        ("cpu=3 memory=0",),
        a_pod(main("cpu=3 memory=0")),
        50,
    ),
    "a node with nothing": ("pods=3", ("cpu=3 memory=0",), NOTHING_ASKED, 0),
}


@pytest.mark.parametrize(("room", "taken", "pod", "score"), LEAST.values(), ids=LEAST)
def test_least_allocated_prefers_the_emptier_node(room, taken, pod, score):
    assert least_allocated(pod, a_node(room, *taken)) == score


def test_the_fit_score_does_not_see_pod_level_resources():
    """Upstream never sets the option on this scorer, though the filter honours it."""
    pod = a_pod(main("cpu=1 memory=0"), resources=resources("cpu=3"))

    assert least_allocated(pod, a_node("cpu=4")) == 75


def test_amounts_near_the_end_of_64_bits_wrap_as_upstreams_do():
    assert least_allocated(NOTHING_ASKED, a_node("memory=7Ei")) == 0
    assert least_allocated(NOTHING_ASKED, a_node("memory=1Pi")) == 100


# ------------------------------------------------------------------ balance

BALANCED = {
    "a smaller node": ("cpu=4 memory=10000", (), TWO_CONTAINERS, 68),
    "an evenly used node": ("cpu=6 memory=10000", (), TWO_CONTAINERS, 75),
    "cpu taken": ("cpu=10 memory=20000", ("cpu=3 memory=0",), TWO_CONTAINERS, 73),
    "cpu and memory taken": ("cpu=10 memory=20000", ("cpu=3 memory=5000",), TWO_CONTAINERS, 74),
    "more memory": ("cpu=10 memory=50000", ("cpu=3 memory=5000",), TWO_CONTAINERS, 70),
    "it fills what was empty": ("cpu=3 memory=5000", ("cpu=3",), a_pod(main("memory=5000")), 100),
    "it fills one side only": ("cpu=3 memory=5000", (), a_pod(main("memory=5000")), 50),
    "up to the brim": ("cpu=6 memory=10000", ("cpu=3",), a_pod(main("cpu=3")), 62),
    "over the brim": ("cpu=2 memory=10000", ("cpu=3",), a_pod(main("cpu=3")), 75),
    "a single resource": ("cpu=4", (), a_pod(main("cpu=3")), 75),
}


@pytest.mark.parametrize(("room", "taken", "pod", "score"), BALANCED.values(), ids=BALANCED)
def test_balance_prefers_the_node_it_evens_out(room, taken, pod, score):
    assert balanced_allocation(pod, a_node(room, *taken)) == score


@pytest.mark.parametrize("pod", [a_pod(main()), a_pod(main("cpu=0 ephemeral-storage=5"))])
def test_balance_has_no_say_on_a_pod_that_requests_nothing_of_it(pod: Pod):
    assert balanced_allocation(pod, a_node("cpu=4 memory=10000")) is None


def test_balance_sees_pod_level_resources():
    pod = a_pod(main("cpu=1 memory=5000"), resources=resources("cpu=3"))

    assert balanced_allocation(pod, a_node("cpu=4 memory=10000")) == 68
