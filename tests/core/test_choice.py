"""The choice of a node, and the words if there is none."""

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import NodeRequirement, NodeTerm
from bursar.core.placement.choice import choose, objection, scores_of
from bursar.core.placement.filters import NOT_AMONG_NAMED, UNTOLERATED_TAINT
from bursar.core.placement.node_books import NodeBooks
from support.builders.pods import a_pod, main, parsed

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def books(name: str, room: str = "cpu=4 memory=8Gi pods=10", *pods, **fields) -> NodeBooks:
    return NodeBooks(Node(name=name, allocatable=parsed(room), **fields), pods)


def named(*names: str) -> tuple[NodeTerm, ...]:
    wanted = tuple(
        NodeRequirement(key="metadata.name", operator="In", values=(name,)) for name in names
    )
    return (NodeTerm(fields=wanted),)


def test_the_emptier_node_is_taken():
    busy = books("a", "cpu=4 memory=8Gi pods=10", a_pod(main("cpu=2"), uid="1"))

    assert choose(a_pod(main("cpu=1")), [busy, books("b")]).node == "b"


def test_of_equal_nodes_the_first_by_name_is_taken():
    choice = choose(a_pod(main("cpu=1")), [books("b"), books("a"), books("c")])

    assert choice.node == "a"
    assert len(set(choice.scores.values())) == 1


def test_a_node_that_would_rather_not_is_taken_last():
    shy = books("a", taints=(Taint(key="k", effect="PreferNoSchedule"),))

    assert choose(a_pod(main("cpu=1")), [shy, books("b")]).node == "b"
    assert choose(a_pod(main("cpu=1")), [shy]).node == "a"


def test_a_pod_that_asks_for_nothing_is_not_scored_for_balance():
    asked, unasked = (scores_of(a_pod(main(text)), [books("a")]) for text in ("cpu=1", ""))

    assert asked["a"] - unasked["a"] > 50


def test_nodes_that_refuse_are_named_with_their_reasons():
    tainted = books("a", taints=(Taint(key="k", effect="NoSchedule"),))
    small = books("b", "cpu=1 memory=8Gi pods=10")
    choice = choose(a_pod(main("cpu=2")), [tainted, small, books("c")])

    assert choice.node == "c"
    assert {rejection.node: rejection.reasons for rejection in choice.rejections} == {
        "a": (UNTOLERATED_TAINT,),
        "b": ("Insufficient cpu",),
    }


def test_without_nodes_the_message_says_so():
    assert choose(a_pod(main()), []).message == "no nodes available to schedule pods"


def test_the_message_counts_reasons_of_all_kinds():
    tainted = books("a", taints=(Taint(key="k", effect="NoSchedule"),))
    full = books("b", "cpu=2 memory=8Gi pods=10", a_pod(main("cpu=2"), uid="1"))

    assert choose(a_pod(main("cpu=2")), [tainted, full]).message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        "no new claims to deallocate, preemption: 0/2 nodes are available: "
        f"1 No preemption victims found for incoming pod, 1 {NOT_HELPFUL}."
    )


def test_where_eviction_would_make_room_the_message_stops_at_the_reasons():
    full = books("b", "cpu=2 memory=8Gi pods=10", a_pod(main("cpu=2"), uid="1"))

    assert choose(a_pod(main("cpu=2"), priority=5), [full]).message == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )


def test_devices_make_the_scheduler_silent_about_preemption():
    pod = a_pod(main("cpu=9"), claim_names=("gpu",))

    assert choose(pod, [books("a")]).message == "0/1 nodes are available: 1 Insufficient cpu."


def test_an_affinity_that_names_nodes_leaves_the_others_out():
    pod = a_pod(main("cpu=9"), node_terms=named("a"))

    assert choose(pod, [books("a"), books("b")]).message == (
        f"0/2 nodes are available: 1 Insufficient cpu, 1 {NOT_AMONG_NAMED}. "
        "no new claims to deallocate, preemption: 0/2 nodes are available: "
        f"2 {NOT_HELPFUL}."
    )


def test_an_affinity_that_contradicts_itself_is_named_before_any_node():
    pod = a_pod(main("cpu=1"), node_terms=named("a", "b"))

    assert choose(pod, [books("a"), books("b")]).message == (
        "0/2 nodes are available: pod affinity terms conflict. not found"
    )


def test_one_node_alone_can_be_asked():
    pod = a_pod(main("cpu=2"))
    rejection = objection(pod, books("b", "cpu=1 memory=8Gi pods=10"))

    assert objection(pod, books("a")) is None
    assert rejection is not None
    assert rejection.reasons == ("Insufficient cpu",)
