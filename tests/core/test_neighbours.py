"""Rules about other pods. The same rules are compared with the scheduler's in tests/oracle."""

from datetime import UTC, datetime

import pytest

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import HostPort, Pod, PodTerm, SchedulingRules, SpreadConstraint
from bursar.core.model.selectors.selector import EVERYTHING, LabelSelector, selector_of
from bursar.core.placement import neighbours
from bursar.core.placement.attempt import PORTS_TAKEN
from bursar.core.placement.choice import choose
from bursar.core.placement.neighbours import Neighbours
from bursar.core.placement.node_books import NodeBooks
from support.builders.pods import a_pod, main, parsed

WEB = selector_of(LabelSelector(match_labels={"app": "web"}))
NEAR_WEB = PodTerm(topology_key="zone", selector=WEB)


def node(name: str, zone: str | None, *pods: Pod, **fields: object) -> NodeBooks:
    labels = {} if zone is None else {"zone": zone}
    room = parsed("cpu=4 memory=8Gi pods=10")
    return NodeBooks(Node(name=name, labels=labels, allocatable=room, **fields), pods)


def web(uid: str, **fields: object) -> Pod:
    return a_pod(main("cpu=1"), uid=uid, labels={"app": "web"}, **fields)


def incoming(*, label: str = "other", priority: int = 0, **rules: object) -> Pod:
    return a_pod(
        main("cpu=1"),
        labels={"app": label},
        priority=priority,
        rules=SchedulingRules(**rules),
    )


def reasons(pod: Pod, *nodes: NodeBooks, **fields: object) -> list[str]:
    found = choose(pod, nodes, **fields)
    return [reason for each in found.rejections for reason in each.reasons]


def test_ports_conflict_on_the_same_or_on_every_address():
    ports = [HostPort(port=80), HostPort(port=80, address="10.0.0.1"), HostPort(port=81)]
    udp = HostPort(port=80, protocol="UDP")

    assert ports[0].conflicts_with(ports[1])
    assert ports[1].conflicts_with(ports[0])
    assert not ports[1].conflicts_with(HostPort(port=80, address="10.0.0.2"))
    assert not any(ports[0].conflicts_with(other) for other in (ports[2], udp))


def test_a_port_that_a_pod_holds_is_taken():
    rules = SchedulingRules(host_ports=(HostPort(port=80),))
    busy = node("a", "x", web("1", rules=rules))

    assert reasons(incoming(host_ports=(HostPort(port=80),)), busy) == [PORTS_TAKEN]
    assert reasons(incoming(host_ports=(HostPort(port=81),)), busy) == []


def test_a_pod_that_wants_company_goes_where_it_is():
    far, near, nowhere = node("a", "x"), node("b", "y", web("1")), node("c", None)

    assert reasons(incoming(affinity=(NEAR_WEB,)), far, near, nowhere) == [
        neighbours.AFFINITY,
        neighbours.AFFINITY,
    ]


def test_the_first_of_pods_that_want_each_other_needs_no_company():
    assert reasons(incoming(label="web", affinity=(NEAR_WEB,)), node("a", "x")) == []
    assert reasons(incoming(affinity=(NEAR_WEB,)), node("a", "x")) == [neighbours.AFFINITY]


def test_a_pod_that_shuns_another_goes_to_another_zone():
    busy, unlabelled = node("a", "x", web("1")), node("b", None, web("2"))

    assert reasons(incoming(anti_affinity=(NEAR_WEB,)), busy, unlabelled) == [
        neighbours.ANTI_AFFINITY
    ]


def test_a_pod_is_shunned_by_those_that_are_there():
    shunning = a_pod(main("cpu=1"), uid="1", rules=SchedulingRules(anti_affinity=(NEAR_WEB,)))
    nodes = node("a", "x", shunning), node("b", "y")

    assert reasons(incoming(label="web"), *nodes) == [neighbours.EXISTING_ANTI_AFFINITY]
    assert reasons(incoming(label="db"), *nodes) == []


@pytest.mark.parametrize(
    ("term", "shuns"),
    [
        (PodTerm(topology_key="zone", selector=WEB, own_namespace=False), False),
        (
            PodTerm(
                topology_key="zone", selector=WEB, own_namespace=False, namespaces=("default",)
            ),
            True,
        ),
        (
            PodTerm(
                topology_key="zone",
                selector=WEB,
                own_namespace=False,
                namespace_selector=selector_of(LabelSelector(match_labels={"team": "a"})),
            ),
            True,
        ),
    ],
)
def test_a_term_is_about_namespaces_by_name_or_label(term: PodTerm, *, shuns: bool):
    namespaces = {"default": {"team": "a"}}
    found = reasons(
        incoming(anti_affinity=(term,)), node("a", "x", web("1")), namespaces=namespaces
    )

    assert bool(found) == shuns


def test_pods_spread_over_zones():
    rule = SpreadConstraint(topology_key="zone", selector=WEB)
    full, empty, unlabelled = node("a", "x", web("1")), node("b", "y"), node("c", None)
    pod = incoming(label="web", spread=(rule,))

    assert reasons(pod, full, empty, unlabelled) == [neighbours.SKEW, neighbours.LABEL_MISSING]


def test_too_few_zones_count_as_an_empty_one():
    rule = SpreadConstraint(topology_key="zone", selector=WEB, min_domains=2)
    pod = incoming(label="web", spread=(rule,))

    assert reasons(pod, node("a", "x", web("1"))) == [neighbours.SKEW]


def test_nodes_that_a_constraint_leaves_out_are_no_zone():
    """The empty zone is behind a taint or another label, so that it does not count as empty."""
    tainted = node("b", "y", taints=(Taint(key="k", effect="NoSchedule"),))
    for honors, skewed in ((True, False), (False, True)):
        rule = SpreadConstraint(topology_key="zone", selector=WEB, honors_taints=honors)
        found = reasons(incoming(label="web", spread=(rule,)), node("a", "x", web("1")), tainted)
        assert (neighbours.SKEW in found) == skewed
    for honors, skewed in ((True, False), (False, True)):
        rule = SpreadConstraint(topology_key="zone", selector=WEB, honors_affinity=honors)
        pod = a_pod(
            main("cpu=1"),
            labels={"app": "web"},
            node_selector={"zone": "x"},
            rules=SchedulingRules(spread=(rule,)),
        )
        assert (neighbours.SKEW in reasons(pod, node("a", "x", web("1")), node("b", "y"))) == skewed


def test_terminating_pods_and_those_of_other_namespaces_are_not_spread():
    rule = SpreadConstraint(topology_key="zone", selector=WEB)
    gone = web("1", deleted_at=datetime(2026, 1, 1, tzinfo=UTC))
    pod = incoming(label="web", spread=(rule,))

    assert reasons(pod, node("a", "x", gone), node("b", "y")) == []


def test_a_selector_of_everything_counts_nothing():
    rule = SpreadConstraint(topology_key="zone", selector=EVERYTHING)

    assert reasons(incoming(spread=(rule,)), node("a", "x", web("1")), node("b", "y")) == []


def test_preemption_sees_the_cluster_without_its_victims():
    """Evicting the pod that is shunned makes room; the counts are as before afterwards."""
    rule = SpreadConstraint(topology_key="zone", selector=WEB, min_domains=2)
    victim = web("1")
    other = a_pod(main("cpu=1"), uid="2", labels={"app": "db"})
    stranger = Pod(namespace="elsewhere", name="s", uid="3", labels={"app": "web"})
    books = node("a", "x", victim, other, stranger)
    pod = incoming(label="web", spread=(rule,), anti_affinity=(NEAR_WEB,))
    seen = Neighbours(pod, [books])
    before = seen.refusal(books.node)
    with seen.without([victim, other, stranger], books.node):
        assert seen.refusal(books.node) is None

    assert before is not None
    assert seen.refusal(books.node) == before
    assert choose(incoming(priority=5, anti_affinity=(NEAR_WEB,)), [books]).message == (
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    )
