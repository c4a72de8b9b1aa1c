"""Fit: upstream's own cases, the books of a node, and the kubelet's forgiving second look."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.placement.fit import (
    Shortfall,
    free,
    incoming_request,
    kubelet_refusal,
    shortfalls,
    shortfalls_of,
)
from bursar.core.placement.message import rejection_of
from bursar.core.placement.node_books import NodeBooks, pod_key
from bursar.core.placement.vector import EMPTY, Tally, Vector, vector_of
from support.builders.pods import a_pod, init, main, parsed, resources, texts
from support.builders.random_objects import as_pod, pods

ROOM = (
    "cpu=10m memory=20 pods=32 example.com/aaa=5 ephemeral-storage=20 hugepages-2Mi=5"
    " kubernetes.io/something=3"
)


def a_node(allocatable: str = ROOM, name: str = "n1") -> Node:
    return Node(name=name, allocatable=parsed(allocatable))


def books(used: str = "", allocatable: str = ROOM) -> NodeBooks:
    """A node with one pod on it, which takes what is written."""
    return NodeBooks(a_node(allocatable), [a_pod(main(used), uid="u-used")] if used else [])


def named(pod: Pod, uid: str) -> Pod:
    return replace(pod, uid=uid)


# ------------------------------------------------------------------ the filter

FITTING = {
    "a pod without requests fits a full node": ("cpu=10m memory=20", a_pod(main())),
    "init containers count by the greatest, not by the sum": (
        "cpu=9m memory=19",
        a_pod(main("cpu=1m memory=1"), init("cpu=1m memory=1"), init("cpu=1m memory=1")),
    ),
    "taking exactly the rest is allowed": ("cpu=5m memory=19", a_pod(main("cpu=5m memory=1"))),
    "an extended resource of init containers is not summed": (
        "example.com/aaa=2",
        a_pod(main(), init("example.com/aaa=3"), init("example.com/aaa=3")),
    ),
    "a request of zero fits where there is none": ("", a_pod(main("example.com/bbb=0"))),
    "a resource the scheduler does not track is not looked at": ("", a_pod(main("licences=9"))),
    "hugepages fit like any other": ("hugepages-2Mi=2", a_pod(main("hugepages-2Mi=3"))),
}


@pytest.mark.parametrize(("used", "pod"), FITTING.values(), ids=FITTING)
def test_a_pod_fits(used, pod):
    assert shortfalls(pod, books(used)) == ()


LACKING = {
    "every lack is collected": (
        "cpu=10m memory=20",
        a_pod(main("cpu=1m memory=1")),
        [("Insufficient cpu", 1, 10, 10), ("Insufficient memory", 1, 20, 20)],
    ),
    "the greatest init container counts": (
        "cpu=8m memory=19",
        a_pod(main("cpu=1m memory=1"), init("cpu=3m memory=1")),
        [("Insufficient cpu", 3, 8, 10)],
    ),
    "and only the greatest": (
        "cpu=8m memory=19",
        a_pod(main("cpu=1m memory=1"), init("cpu=3m memory=1"), init("cpu=2m memory=1")),
        [("Insufficient cpu", 3, 8, 10)],
    ),
    "memory of an init container": (
        "cpu=9m memory=19",
        a_pod(main("cpu=1m memory=1"), init("cpu=1m memory=3")),
        [("Insufficient memory", 3, 19, 20)],
    ),
    "an extended resource that is all taken": (
        "example.com/aaa=5",
        a_pod(main("example.com/aaa=1")),
        [("Insufficient example.com/aaa", 1, 5, 5)],
    ),
    "ephemeral storage": (
        "ephemeral-storage=15",
        a_pod(main("ephemeral-storage=10")),
        [("Insufficient ephemeral-storage", 10, 15, 20)],
    ),
    "a native resource with a prefix": (
        "kubernetes.io/something=2",
        a_pod(main("kubernetes.io/something=2")),
        [("Insufficient kubernetes.io/something", 2, 2, 3)],
    ),
    "overhead counts": (
        "cpu=9m",
        a_pod(main("cpu=1m"), overhead="cpu=1m"),
        [("Insufficient cpu", 2, 9, 10)],
    ),
    "pod-level resources replace the sum": (
        "cpu=5m",
        a_pod(main("cpu=1m"), resources=resources("cpu=6m")),
        [("Insufficient cpu", 6, 5, 10)],
    ),
}


@pytest.mark.parametrize(("used", "pod", "expected"), LACKING.values(), ids=LACKING)
def test_a_node_lacks_something_that_eviction_might_free(used, pod, expected):
    lacks = shortfalls(pod, books(used))

    found = [(lack.reason, lack.requested, lack.used, lack.allocatable) for lack in lacks]
    assert found == expected
    assert all(lack.eviction_may_help for lack in lacks)


HOPELESS = {
    "more than the node has": ("", a_pod(main("example.com/aaa=10")), 10, 5),
    "more than it has in two containers": (
        "example.com/aaa=2",
        a_pod(main("example.com/aaa=3"), main("example.com/aaa=3")),
        6,
        5,
    ),
    "a resource it does not advertise": ("", a_pod(main("example.com/bbb=1")), 1, 0),
}


@pytest.mark.parametrize(
    ("used", "pod", "requested", "allocatable"), HOPELESS.values(), ids=HOPELESS
)
def test_eviction_cannot_help_where_the_whole_node_is_too_small(used, pod, requested, allocatable):
    lacks = shortfalls(pod, books(used))

    assert [(lack.requested, lack.allocatable) for lack in lacks] == [(requested, allocatable)]
    assert not lacks[0].eviction_may_help


def test_one_hopeless_resource_makes_the_node_hopeless():
    lacks = shortfalls(a_pod(main("cpu=1m memory=21")), books("cpu=10m"))

    assert [lack.eviction_may_help for lack in lacks] == [True, False]
    assert not rejection_of(books(), lacks).eviction_may_help


def test_lacks_come_in_upstreams_order_and_scalars_by_name():
    pod = a_pod(main("z.io/z=1 a.io/a=1 ephemeral-storage=1 memory=1 cpu=1"))

    lacks = shortfalls(pod, books(allocatable="pods=0"))

    assert [lack.reason for lack in lacks] == [
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient a.io/a",
        "Insufficient z.io/z",
    ]


def test_too_many_pods_is_never_called_hopeless():
    (lack,) = shortfalls(a_pod(main()), books(allocatable="cpu=1 pods=0"))

    assert lack == Shortfall(resource="pods", requested=1, used=0, allocatable=0)
    assert lack.eviction_may_help


def test_a_node_that_says_nothing_of_pods_allows_none():
    assert [lack.reason for lack in shortfalls(a_pod(main()), books(allocatable="cpu=1"))] == [
        "Too many pods"
    ]


def test_a_negative_request_is_none():
    request = incoming_request(a_pod(main("cpu=-1 memory=-5 example.com/aaa=-2")))

    assert request == EMPTY


def test_one_request_can_be_held_against_many_nodes():
    request = incoming_request(a_pod(main("cpu=2m")))

    assert [bool(shortfalls_of(request, books(used))) for used in ("cpu=8m", "cpu=9m")] == [
        False,
        True,
    ]


def test_a_difference_beyond_64_bits_wraps_as_upstreams_does():
    nearly_all = "9223372036854775807"
    owing = NodeBooks(
        a_node(f"pods=9 memory={nearly_all}"), [named(a_pod(main("memory=-5")), "negative")]
    )

    assert [lack.used for lack in shortfalls(a_pod(main("memory=1")), owing)] == [-5]


# ------------------------------------------------------------------ the kubelet


def test_a_kubelet_does_not_look_at_extended_resources_it_never_heard_of():
    pod = a_pod(main("example.com/bbb=1"), init("example.com/bbb=2"))

    assert shortfalls(pod, books())
    assert kubelet_refusal(pod, books()) is None


def test_a_kubelet_looks_at_extended_resources_it_has_none_left_of():
    lack = kubelet_refusal(
        a_pod(main("example.com/bbb=1")), books(allocatable="pods=9 example.com/bbb=0")
    )

    assert lack == Shortfall(resource="example.com/bbb", requested=1, used=0, allocatable=0)


def test_a_kubelet_names_the_first_lack_only():
    lack = kubelet_refusal(a_pod(main("cpu=3 memory=30")), books("cpu=1500m", "cpu=4 pods=9"))

    assert lack == Shortfall(resource="cpu", requested=3000, used=1500, allocatable=4000)


# ------------------------------------------------------------------ what is left


def test_what_is_free_keeps_the_nodes_own_notation():
    node = books(
        "cpu=500m memory=512Mi example.com/aaa=1",
        "cpu=4 memory=1Gi pods=110 example.com/aaa=4 ephemeral-storage=10G licences=7",
    )

    assert texts(free(node)) == {
        "cpu": "3500m",
        "memory": "512Mi",
        "pods": "109",
        "example.com/aaa": "3",
        "ephemeral-storage": "10G",
    }


def test_what_is_free_never_falls_below_zero():
    assert texts(free(books("cpu=2 memory=1", "cpu=1 memory=1 pods=0"))) == {
        "cpu": "0",
        "memory": "0",
        "pods": "0",
    }


# ------------------------------------------------------------------ the vector


def test_a_vector_counts_cpu_in_thousandths_and_drops_unknown_names():
    amounts = parsed("cpu=0.5 memory=1Ki ephemeral-storage=1500m pods=3 gpu=1 storage=5 a.io/b=2")

    assert vector_of(amounts) == Vector(
        milli_cpu=500, memory=1024, ephemeral_storage=2, pods=3, scalars={"a.io/b": 2}
    )


def test_a_vector_answers_by_name():
    vector = vector_of(parsed("cpu=1 memory=2 ephemeral-storage=3 pods=4 a.io/b=5"))

    names = ("cpu", "memory", "ephemeral-storage", "pods", "a.io/b", "storage")
    assert [vector.amount(name) for name in names] == [1000, 2, 3, 4, 5, 0]


def test_sums_of_vectors_wrap_and_drop_what_comes_to_zero():
    most = vector_of(parsed("memory=9223372036854775807 a.io/b=2"))

    total = Tally()
    total.add(most)
    total.add(most)
    assert total.sum.memory == -2

    total.subtract(most)
    total.subtract(most)
    assert total.sum == EMPTY


# ------------------------------------------------------------------ the books


def test_a_pod_is_booked_once_however_often_it_is_announced():
    node = books()
    for _ in range(3):
        node.assign(a_pod(main("cpu=2m"), uid="u-1"))

    assert (node.pod_count, node.taken.milli_cpu) == (1, 2)


def test_a_newer_state_of_a_pod_replaces_the_older():
    node = books()
    node.assign(a_pod(main("cpu=2m a.io/b=3"), uid="u-1"))
    node.assign(a_pod(main("cpu=5m"), uid="u-1"))

    assert node.taken == Vector(milli_cpu=5)


def test_releasing_twice_is_no_mistake():
    pod = a_pod(main("cpu=2m"), uid="u-1")
    node = NodeBooks(a_node(), [pod])

    node.release(pod)
    node.release(pod)

    assert (node.pod_count, node.taken, node.weighed) == (0, EMPTY, EMPTY)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gives_back_what_it_held(phase):
    node = NodeBooks(a_node(), [a_pod(main("cpu=2m"), uid="u-1")])

    node.assign(a_pod(main("cpu=2m"), uid="u-1", phase=phase))

    assert (node.pod_count, node.taken) == (0, EMPTY)


def test_pods_without_uid_are_told_apart_by_name():
    one = a_pod(main("cpu=1m"))
    node = NodeBooks(a_node(), [one, replace(one, name="other")])

    assert pod_key(one) == "default/web"
    assert node.taken.milli_cpu == 2


def test_a_request_for_pods_says_nothing():
    node = NodeBooks(a_node(), [a_pod(main("pods=20"))])

    assert (node.taken.pods, node.pod_count) == (0, 1)


def test_a_newer_state_of_the_node_changes_what_it_has():
    node = books("cpu=9m")
    node.observe(a_node("cpu=12m pods=32"))

    assert node.node.allocatable == parsed("cpu=12m pods=32")
    assert shortfalls(a_pod(main("cpu=3m")), node) == ()


def test_books_of_one_node_refuse_the_state_of_another():
    with pytest.raises(AssertionError):
        books().observe(a_node(name="n2"))


def test_priority_defaults_to_zero():
    node = NodeBooks(a_node(), [a_pod(main()), a_pod(main(), uid="u", priority=-5)])

    assert [entry.priority for entry in node.entries] == [0, -5]


WEIGHED = {
    "a container without requests": (a_pod(main()), 100, 209715200),
    "each such container": (a_pod(main(), main("cpu=1")), 1100, 419430400),
    "an explicit zero stays zero": (a_pod(main("cpu=0 memory=0")), 0, 0),
    "a pod that states both": (a_pod(main(), resources=resources("cpu=1 memory=1")), 1000, 1),
    "a pod that states cpu only": (a_pod(main(), resources=resources("cpu=1")), 1000, 209715200),
    "a pod that states limits only": (
        a_pod(main(), resources=resources("", "cpu=1")),
        100,
        209715200,
    ),
    "a pod that states hugepages only": (
        a_pod(main("cpu=2"), resources=resources("hugepages-2Mi=2Mi")),
        2000,
        209715200,
    ),
}


@pytest.mark.parametrize(("pod", "milli_cpu", "memory"), WEIGHED.values(), ids=WEIGHED)
def test_scoring_assumes_something_for_what_nobody_requests(pod, milli_cpu, memory):
    assert NodeBooks(a_node(), [pod]).weighed == Vector(milli_cpu=milli_cpu, memory=memory)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["assign", "assign", "finish", "release"]),
        st.sampled_from(["u-1", "u-2", "u-3"]),
        pods(),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(STEPS)
def test_the_books_always_equal_a_recount(steps):
    node = NodeBooks(a_node())
    present: dict[str, Pod] = {}
    for action, uid, raw in steps:
        pod = named(as_pod(raw), uid)
        if action == "release":
            node.release(pod)
        else:
            node.assign(pod if action == "assign" else replace(pod, phase="Failed"))
        if action == "assign":
            present[uid] = pod
        else:
            present.pop(uid, None)

        recount = NodeBooks(a_node(), present.values())
        assert node.taken == recount.taken
        assert node.weighed == recount.weighed
        assert node.pod_count == len(present)


@pytest.mark.parametrize(
    ("resource", "requested", "free"),
    [
        ("cpu", "2", "500m"),
        ("memory", "2000", "500"),
        ("hugepages-2Mi", "2000", "500"),
        ("example.com/foo", "2k", "500"),
        ("pods", "2k", "500"),
    ],
)
def test_a_shortfall_says_its_amounts_in_the_resources_own_unit(resource, requested, free):
    lack = Shortfall(resource=resource, requested=2000, used=1500, allocatable=2000)

    assert (str(lack.requested_amount), str(lack.free_amount)) == (requested, free)


def test_an_overbooked_node_has_nothing_free_rather_than_less_than_nothing():
    lack = Shortfall(resource="cpu", requested=1, used=3000, allocatable=2000)

    assert lack.free_amount.is_zero
