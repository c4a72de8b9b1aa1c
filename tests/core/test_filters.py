"""What keeps a pod from a node before any amount is compared."""

import pytest

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import NodeRequirement, NodeTerm, Toleration
from bursar.core.placement.filters import (
    AFFINITY_UNMET,
    OTHER_NODE_NAMED,
    UNSCHEDULABLE,
    UNTOLERATED_TAINT,
    avoided_taints,
    matches_affinity,
    named_nodes,
    refusal,
    tolerates,
)
from support.builders.pods import a_pod

ZONED = {"zone": "a", "cores": "8"}


def expression(key: str, operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement(key=key, operator=operator, values=values)


def by_label(*wanted: NodeRequirement) -> NodeTerm:
    return NodeTerm(expressions=wanted)


def by_field(*wanted: NodeRequirement) -> NodeTerm:
    return NodeTerm(fields=wanted)


def test_the_first_reason_in_the_order_of_the_plugins_is_given():
    pod = a_pod(node_name="other", node_selector={"zone": "z"})
    taints = (Taint(key="k", effect="NoSchedule"),)
    expected = [UNSCHEDULABLE, OTHER_NODE_NAMED, UNTOLERATED_TAINT, AFFINITY_UNMET, None]
    nodes = [
        Node(name="n", unschedulable=True, taints=taints),
        Node(name="n", taints=taints),
        Node(name="other", taints=taints),
        Node(name="other"),
        Node(name="other", labels={"zone": "z"}),
    ]

    assert [refusal(pod, node) for node in nodes] == expected


def test_a_cordoned_node_takes_who_tolerates_its_cordon():
    cordon = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")

    assert refusal(a_pod(tolerations=(cordon,)), Node(name="n", unschedulable=True)) is None


def test_a_taint_that_only_prefers_keeps_nobody_away():
    node = Node(name="n", taints=(Taint(key="k", effect="PreferNoSchedule"),))

    assert refusal(a_pod(), node) is None


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="k", operator="Gt", value="v"), False),
    ],
)
def test_a_taint_is_tolerated_by_key_value_and_effect(toleration, expected):
    assert tolerates([toleration], Taint(key="k", value="v", effect="NoSchedule")) is expected


def test_taints_to_be_avoided_are_counted_unless_tolerated_as_such():
    taints = (
        Taint(key="a", effect="PreferNoSchedule"),
        Taint(key="b", effect="PreferNoSchedule"),
        Taint(key="c", effect="NoSchedule"),
    )
    tolerations = (
        Toleration(key="a", operator="Exists"),
        Toleration(key="b", operator="Exists", effect="NoSchedule"),
    )

    assert avoided_taints(a_pod(tolerations=tolerations), Node(name="n", taints=taints)) == 1


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (None, True),
        ((), False),
        ((NodeTerm(),), False),
        ((by_label(expression("zone", "In", "a", "b")),), True),
        ((by_label(expression("zone", "NotIn", "a")),), False),
        ((by_label(expression("zone", "Exists"), expression("disk", "DoesNotExist")),), True),
        ((by_label(expression("cores", "Gt", "7"), expression("cores", "Lt", "9")),), True),
        ((by_label(expression("zone", "Near", "a")),), False),
        ((by_label(expression("zone", "In")),), False),
        ((by_label(expression("zone", "Near")), by_label(expression("zone", "Exists"))), True),
        ((by_field(expression("metadata.name", "In", "n")),), True),
        ((by_field(expression("metadata.name", "NotIn", "n")),), False),
        ((by_field(expression("metadata.name", "In", "n", "m")),), False),
        ((by_field(expression("metadata.name", "Exists")),), False),
        ((by_field(expression("spec.other", "In", "")),), True),
    ],
)
def test_one_required_term_must_hold_and_one_that_cannot_be_read_does_not(terms, expected):
    node = Node(name="n", labels=ZONED)

    assert matches_affinity(a_pod(node_terms=terms), node) is expected


def test_the_selector_must_hold_besides_the_terms():
    terms = (by_label(expression("zone", "Exists")),)
    pod = a_pod(node_terms=terms, node_selector={"zone": "a"})

    assert matches_affinity(pod, Node(name="n", labels={"zone": "a"}))
    assert not matches_affinity(pod, Node(name="n", labels={"zone": "b"}))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (None, None),
        ((), None),
        ((by_label(expression("zone", "Exists")),), None),
        ((by_field(expression("metadata.name", "In", "n")),), {"n"}),
        (
            (
                by_field(expression("metadata.name", "In", "n")),
                by_field(expression("metadata.name", "In", "m")),
            ),
            {"n", "m"},
        ),
        (
            (
                by_field(
                    expression("metadata.name", "In", "n"), expression("metadata.name", "In", "m")
                ),
            ),
            set(),
        ),
        ((by_field(expression("metadata.name", "NotIn", "n")),), None),
    ],
)
def test_nodes_are_named_only_if_every_term_names_some(terms, expected):
    assert named_nodes(a_pod(node_terms=terms)) == expected
