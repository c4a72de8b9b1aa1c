"""What would let a pod run: each remedy is enough, and the smallest of its kind."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import (
    MIRROR_ANNOTATION,
    HostPort,
    NodeRequirement,
    NodeTerm,
    Pod,
    PodTerm,
    SchedulingRules,
    SpreadConstraint,
    Toleration,
)
from bursar.core.model.selectors.selector import EVERYTHING
from bursar.core.placement.attempt import Attempt
from bursar.core.placement.choice import objection
from bursar.core.placement.fit import Shortfall
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.remedies.eviction import CANDIDATES_MAX
from bursar.core.placement.remedies.obstacles import Filter, NodeVerdict, verdicts
from bursar.core.placement.remedies.remedy import (
    AddLabels,
    AddNode,
    FreePods,
    LowerRequests,
    Remedy,
    RepairNode,
    Tolerate,
    Uncordon,
    remedies,
    too_large,
)
from support.builders.pods import a_pod, main, parsed

ROOM = "cpu=4 memory=8Gi pods=10"
GPU = Taint(key="gpu", value="yes", effect="NoSchedule")
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
PORT = SchedulingRules(host_ports=(HostPort(port=80),))


def books(name: str, *pods: Pod, room: str = ROOM, **fields: object) -> NodeBooks:
    return NodeBooks(Node(name=name, allocatable=parsed(room), **fields), pods)


def taking(uid: str, amounts: str, **fields: object) -> Pod:
    return replace(a_pod(main(amounts), uid=uid, **fields), name=uid)


def judged(pod: Pod, *nodes: NodeBooks) -> tuple[NodeVerdict, ...]:
    return verdicts(Attempt(pod, nodes), nodes)


def found(pod: Pod, *nodes: NodeBooks) -> tuple[Remedy, ...]:
    return remedies(Attempt(pod, nodes).request, judged(pod, *nodes))


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.name for pod in pods]


def test_a_pod_that_fits_needs_no_remedy():
    assert found(taking("p", "cpu=1"), books("a"), books("b", unschedulable=True)) == ()
    assert [verdict.fits for verdict in judged(taking("p", "cpu=1"), books("a"))] == [True]


def test_a_full_node_has_three_remedies():
    small, large = taking("s", "cpu=1"), taking("l", "cpu=2")
    lower, free, add = found(taking("p", "cpu=2"), books("a", small, large))

    assert isinstance(lower, LowerRequests)
    assert [str(lack.free_amount) for lack in lower.shortfalls] == ["1"]
    assert [str(lack.missing_amount) for lack in lower.shortfalls] == ["1"]
    assert isinstance(free, FreePods)
    # Either is enough. The larger frees twice what lacks, which makes no difference.
    assert len(free.pods) == 1
    assert free.is_smallest
    assert add == AddNode(like="a")


def test_the_node_that_lacks_the_least_is_chosen():
    full, fuller = books("b", taking("x", "cpu=3")), books("a", taking("y", "cpu=3500m"))
    lower = found(taking("p", "cpu=2"), fuller, full)[0]

    assert isinstance(lower, LowerRequests)
    assert lower.node == "b"


def test_pods_of_low_priority_go_first():
    high, low = taking("a-high", "cpu=2", priority=9), taking("z-low", "cpu=2")
    free = found(taking("p", "cpu=2"), books("a", high, low))[1]

    assert isinstance(free, FreePods)
    assert names(free.pods) == ["z-low"]


def test_pods_that_come_back_are_not_freed():
    daemon = taking("d", "cpu=2", controller_kind="DaemonSet")
    static = taking("s", "cpu=2", annotations={MIRROR_ANNOTATION: "x"})
    kinds = [type(each) for each in found(taking("p", "cpu=2"), books("a", daemon, static))]

    # A new node has the daemon as well, but not the static pod.
    assert kinds == [LowerRequests, AddNode]
    assert [type(each) for each in found(taking("p", "cpu=3"), books("a", daemon, static))] == [
        LowerRequests
    ]


def test_too_many_pods_cannot_be_cured_by_smaller_requests():
    full = books("a", taking("x", "cpu=1"), taking("y", "cpu=1"), room="cpu=4 memory=8Gi pods=2")

    assert [type(each) for each in found(taking("p", "cpu=1"), full)] == [FreePods, AddNode]


def test_the_holder_of_a_port_has_to_go():
    holder = taking("holder", "cpu=1", rules=PORT)
    pod = taking("p", "cpu=2", rules=PORT)
    free, add = found(pod, books("a", holder, taking("x", "cpu=3")))

    assert isinstance(free, FreePods)
    assert names(free.pods) == ["holder", "x"]
    assert isinstance(add, AddNode)
    daemon = replace(holder, controller_kind="DaemonSet")
    assert found(pod, books("a", daemon)) == ()


def test_a_cordoned_node_is_uncordoned():
    for cordoned in (
        books("a", unschedulable=True),
        books("a", taints=(CORDON,)),
        books("a", unschedulable=True, taints=(CORDON,)),
    ):
        assert found(taking("p", "cpu=1"), cordoned) == (Uncordon(node="a"),)


def test_a_taint_is_tolerated_but_that_of_a_broken_node_is_repaired():
    both = (GPU, replace(GPU, key="other"))
    tainted = books("a", taints=both), books("b", taints=(GPU,)), books("c", taints=(NOT_READY,))

    assert found(taking("p", "cpu=1"), *tainted) == (
        Tolerate(node="b", taints=(GPU,)),
        RepairNode(node="c", taints=(NOT_READY,)),
    )
    mixed = books("a", taints=(GPU, NOT_READY))
    assert found(taking("p", "cpu=1"), mixed) == ()


def test_a_node_is_labelled_if_labels_are_all_that_it_lacks():
    pod = taking("p", "cpu=1", node_selector={"disk": "ssd", "zone": "a"})
    nodes = books("x"), books("y", labels={"zone": "a"})

    assert found(pod, *nodes) == (AddLabels(node="y", labels=(("disk", "ssd"),)),)
    wanted = NodeRequirement(key="arch", operator="In", values=("arm",))
    particular = replace(pod, node_terms=(NodeTerm(expressions=(wanted,)),))
    assert found(particular, *nodes) == ()
    elsewhere = NodeRequirement(key="metadata.name", operator="In", values=("z",))
    named = replace(pod, node_terms=(NodeTerm(fields=(elsewhere,)),))
    assert found(named, *nodes) == ()


def test_all_filters_that_refuse_are_known_not_only_the_first():
    shunning = SchedulingRules(
        host_ports=PORT.host_ports,
        anti_affinity=(PodTerm(topology_key="zone", selector=EVERYTHING),),
    )
    pod = taking("p", "cpu=9", rules=shunning, node_selector={"disk": "ssd"}, node_name="elsewhere")
    node = books(
        "a",
        taking("x", "cpu=1", rules=PORT),
        unschedulable=True,
        taints=(GPU,),
        labels={"zone": "z"},
    )
    [verdict] = judged(pod, node)

    assert verdict.filters == (
        *(Filter.UNSCHEDULABLE, Filter.NODE_NAME, Filter.TAINTS, Filter.NODE_AFFINITY),
        *(Filter.PORTS, Filter.RESOURCES, Filter.POD_AFFINITY),
    )
    spread = SchedulingRules(spread=(SpreadConstraint(topology_key="rack"),))
    [verdict] = judged(taking("p", "cpu=1", rules=spread), node)
    assert Filter.SPREAD in verdict.filters


def test_a_pod_larger_than_any_node_is_told_by_how_much():
    request = Attempt(taking("p", "cpu=9 memory=1Gi example.com/foo=1"), ()).request
    large = books("b", room="cpu=8 memory=8Gi pods=10")
    sizes = too_large(request, [books("a"), large])

    assert [(each.resource, each.requested, each.largest, each.node) for each in sizes] == [
        ("cpu", 9000, 8000, "b"),
        ("example.com/foo", 1, 0, "a"),
    ]
    assert too_large(request, []) == ()


# ------------------------------------------------------------------ the smallest set

AMOUNTS = ("cpu=1", "cpu=2", "memory=2Gi", "memory=4Gi", "cpu=1 memory=1Gi", "")


def a_random_node(rng: Random, name: str) -> NodeBooks:
    pods = [
        taking(f"{name}-{i}", rng.choice(AMOUNTS), priority=rng.choice([0, 5]))
        for i in range(rng.randrange(1, 6))
    ]
    return books(name, *pods, room=rng.choice([ROOM, "cpu=6 memory=4Gi pods=5"]))


def smallest_by_trial(pod: Pod, nodes: Sequence[NodeBooks]) -> int | None:
    """The smallest set of pods of one node, by trying all of them."""
    for size in range(1, 7):
        for node in nodes:
            for gone in combinations(node.entries, size):
                left = [entry for entry in node.entries if entry not in gone]
                if objection(pod, NodeBooks(node.node, entries=left)) is None:
                    return size
    return None


@given(st.integers(0, 10**9))
def test_the_freed_pods_are_enough_and_no_smaller_set_is(seed: int):
    rng = Random(seed)  # noqa: S311 - the same cluster for the same seed
    nodes = [a_random_node(rng, f"n{i}") for i in range(rng.randrange(1, 4))]
    pod = taking("p", rng.choice(["cpu=3", "cpu=2 memory=3Gi", "cpu=4 memory=4Gi", "memory=3Gi"]))
    if any(objection(pod, node) is None for node in nodes):
        return
    free = [each for each in found(pod, *nodes) if isinstance(each, FreePods)]
    best = smallest_by_trial(pod, nodes)
    assert (best is None) == (not free)
    for each in free:
        [node] = [node for node in nodes if node.node.name == each.node]
        gone = {freed.uid for freed in each.pods}
        left = [entry for entry in node.entries if entry.pod.uid not in gone]
        assert objection(pod, NodeBooks(node.node, entries=left)) is None
        assert (len(each.pods), each.is_smallest) == (best, True)


def test_two_large_pods_beat_three_that_a_greedy_choice_takes():
    """The pod that frees a bit of both is tempting, and superfluous once the others are gone."""
    pods = (
        taking("both", "cpu=2500m memory=2500Mi"),
        taking("cpu", "cpu=4"),
        taking("memory", "memory=4000Mi"),
        taking("rest", "cpu=500m memory=500Mi"),
    )
    full = books("a", *pods, room="cpu=7 memory=7000Mi pods=9")
    free = found(taking("p", "cpu=4 memory=4000Mi"), full)[1]

    assert isinstance(free, FreePods)
    assert sorted(names(free.pods)) == ["cpu", "memory"]
    assert free.is_smallest


def test_a_search_finds_two_pods_where_a_greedy_choice_takes_three():
    sizes = ((2, 6), (0, 1), (3, 5), (1, 4), (3, 1))
    pods = [taking(f"p{i}", f"cpu={cpu} memory={gi}Gi") for i, (cpu, gi) in enumerate(sizes)]
    full = books("a", *pods, room="cpu=9 memory=17Gi pods=9")
    free = found(taking("p", "cpu=6 memory=6Gi"), full)[1]

    assert isinstance(free, FreePods)
    assert sorted(names(free.pods)) == ["p2", "p4"]
    assert free.is_smallest


def test_a_search_that_is_given_up_says_so():
    count = CANDIDATES_MAX // 2 + 1
    pods = [taking(f"c{i}", "cpu=1") for i in range(count)]
    pods += [taking(f"m{i}", "memory=2Gi") for i in range(count)]
    full = books("a", *pods, room=f"cpu={count} memory={2 * count}Gi pods={3 * count}")
    pod = taking("p", "cpu=2 memory=4Gi")

    free = found(pod, full)[1]
    assert isinstance(free, FreePods)
    assert not free.is_smallest


def test_remedies_do_what_they_say():
    pod = taking("p", "cpu=1")
    tolerant = replace(pod, tolerations=(Toleration(key="gpu", operator="Exists"),))
    tainted = books("a", taints=(GPU,))

    assert objection(pod, tainted) is not None
    assert objection(tolerant, tainted) is None
    lack = Shortfall(resource="cpu", requested=2000, used=3000, allocatable=4000)
    assert (lack.missing, str(lack.missing_amount)) == (1000, "1")
