"""The index of nodes says what an attempt on each node says, for any cluster."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import (
    HostPort,
    NodeRequirement,
    NodeTerm,
    Pod,
    PodTerm,
    SchedulingRules,
    Toleration,
)
from bursar.core.model.selectors.selector import EVERYTHING
from bursar.core.placement.choice import choose
from bursar.core.placement.fit_index import FitIndex
from bursar.core.placement.message import NO_NODES
from bursar.core.placement.node_books import NodeBooks
from support.builders.pods import a_pod, main, parsed

AMOUNTS = ["", "cpu=1", "cpu=3", "cpu=9", "memory=2Gi", "cpu=1 memory=9Gi", "example.com/foo=1"]
TAINT = Taint(key="k", effect="NoSchedule")
RULES = [
    *(SchedulingRules(),) * 6,
    SchedulingRules(host_ports=(HostPort(port=80),)),
    SchedulingRules(anti_affinity=(PodTerm(topology_key="zone", selector=EVERYTHING),)),
]


def a_random_pod(rng: Random, name: str) -> Pod:
    terms: tuple[NodeTerm, ...] | None = None
    match rng.randrange(8):
        case 0:
            names = (rng.choice(["n0", "n1", "elsewhere"]),)
            field = NodeRequirement(key="metadata.name", operator="In", values=names)
            terms = (NodeTerm(fields=(field, field) if rng.randrange(2) else (field,)),)
        case 1:
            apart = [
                NodeRequirement(key="metadata.name", operator="In", values=(each,))
                for each in ("n0", "n1")
            ]
            terms = (NodeTerm(fields=tuple(apart)),)
        case 2:
            wanted = NodeRequirement(key="zone", operator="NotIn", values=("a",))
            terms = (NodeTerm(expressions=(wanted,)),)
        case 3:
            field = NodeRequirement(key="metadata.name", operator="NotIn", values=("n0",))
            terms = (NodeTerm(fields=(field,)),)
    return a_pod(
        main(rng.choice(AMOUNTS)),
        uid=name,
        priority=rng.choice([None, 0, 5, 10]),
        tolerations=(Toleration(operator="Exists"),) if rng.randrange(3) == 0 else (),
        node_selector={"zone": "a"} if rng.randrange(4) == 0 else {},
        node_terms=terms,
        rules=rng.choice(RULES),
        claim_names=("gpu",) if rng.randrange(9) == 0 else (),
        preemption_policy="Never" if rng.randrange(6) == 0 else "",
    )


def a_random_node(rng: Random, name: str) -> NodeBooks:
    labels = {"zone": rng.choice("ab")} if rng.randrange(4) else {}
    room = rng.choice(["cpu=2 memory=4Gi pods=3", "cpu=4 memory=8Gi pods=2 example.com/foo=1"])
    node = Node(
        name=name,
        labels={**labels, "kubernetes.io/hostname": name},
        allocatable=parsed(room),
        taints=(TAINT,) if rng.randrange(4) == 0 else (),
        unschedulable=rng.randrange(6) == 0,
    )
    return NodeBooks(node, [a_random_pod(rng, f"{name}-{i}") for i in range(rng.randrange(3))])


@given(st.integers(0, 10**9))
def test_the_index_has_the_message_of_each_node_asked_by_itself(seed: int):
    rng = Random(seed)  # noqa: S311 - the same cluster for the same seed
    nodes = [a_random_node(rng, f"n{i}") for i in range(rng.randrange(1, 6))]
    index = FitIndex(nodes)
    for number in range(4):
        pod = a_random_pod(rng, f"incoming-{number}")
        assert index.message(pod) == (choose(pod, nodes).message or None)


def test_without_nodes_there_is_nothing_to_count():
    assert FitIndex([]).message(a_pod(main("cpu=1"))) == NO_NODES


def test_the_message_ends_without_preemption_if_preemption_helps():
    node = Node(name="n0", allocatable=parsed("cpu=2 memory=4Gi pods=3"))
    nodes = [NodeBooks(node, [a_pod(main("cpu=2"), uid="low", priority=0)])]
    high = a_pod(main("cpu=2"), uid="high", priority=10)

    assert FitIndex(nodes).message(high) == choose(high, nodes).message
    assert FitIndex(nodes).message(high) == "0/1 nodes are available: 1 Insufficient cpu."
