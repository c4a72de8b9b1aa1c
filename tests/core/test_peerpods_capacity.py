"""Capacity of extended resources: who wants how much where, and what is done about it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.quantity import Quantity
from bursar.core.model.selectors.text import parse_selector
from bursar.core.peerpods.capacity import (
    AMOUNT_MAX,
    LIMIT_KEY,
    CapacityAction,
    CapacityNode,
    Declaration,
    Origin,
    SettleRules,
    amount_problem,
    limit_in,
    preset,
    resource_problem,
    settle,
    wanted_on,
)
from bursar.core.peerpods.names import VM_RESOURCE

FOO = "example.com/foo"
CUTTING = SettleRules(is_cutting=True)
TAKING = SettleRules(taken=frozenset({FOO, VM_RESOURCE}))
FOUGHT = SettleRules(contested=frozenset({FOO}))
UNSURE = SettleRules(may_withdraw=False)


def a_node(shown=None, marked=None, *, resource=FOO, allocatable=None, **fields) -> CapacityNode:
    """A node that offers so much, and bears our mark with so much."""
    offered = shown if allocatable is None else allocatable
    return CapacityNode(
        name="a",
        capacity={} if shown is None else {resource: Quantity.of(shown)},
        allocatable={} if offered is None else {resource: Quantity.of(offered)},
        marked={} if marked is None else {resource: marked},
        **fields,
    )


# ------------------------------------------------------------------ what is declared


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("10", 10),
        ("3", 3),
        ("0", 0),
        ("", 10),
        ("many", 10),
        ("  7", 7),
        ("10abc", 10),
        ("0x10", 0),
        ("+4", 4),
        ("-1", None),
        ("- 1", 10),
        ("2.9", 2),
        ("0000000000000000000000000005", 5),
        ("99999999999999999999", 10),
        ("9" * 5000, 10),
        ("-9223372036854775808", None),
        ("5000000000", AMOUNT_MAX),
    ],
)
def test_limit_is_read_as_upstream_reads_it(text, limit):
    assert limit_in({LIMIT_KEY: text}) == limit


def test_without_a_limit_it_is_ten():
    assert limit_in({"CLOUD_PROVIDER": "libvirt"}) == 10


def test_preset_declares_machines_unless_the_limit_is_negative():
    """W28: a negative limit advertises nothing; that is upstream's meaning of it."""
    selector = parse_selector("kata=true")
    (declaration,) = preset({LIMIT_KEY: "4"}, selector).declarations

    assert declaration.resource == VM_RESOURCE
    assert (declaration.amount, declaration.origin) == (4, Origin.PRESET)
    assert declaration.selector is selector
    assert preset({LIMIT_KEY: "-1"}, selector).declarations == ()


@pytest.mark.parametrize("name", [FOO, VM_RESOURCE, "nvidia.com/gpu"])
def test_extended_names_may_be_declared(name):
    assert resource_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["cpu", "pods", "hugepages-2Mi", "kubernetes.io/x", "a.kubernetes.io/x", "", "a/b/c"]
)
def test_other_names_may_not(name):
    assert "not the name of an extended resource" in resource_problem(name)


@pytest.mark.parametrize(("amount", "is_fine"), [(-1, 0), (0, 1), (AMOUNT_MAX, 1), (10**10, 0)])
def test_amounts_are_bounded(amount, is_fine):
    assert bool(amount_problem(amount)) != is_fine


def declared(amount, selector="", *, resource=FOO, origin=Origin.DECLARED) -> Declaration:
    chosen = parse_selector(selector)
    return Declaration(name="d", resource=resource, amount=amount, selector=chosen, origin=origin)


ZONED = CapacityNode(name="a", labels={"zone": "a"})

WANTED = {
    "nothing declared": ([], {}),
    "by label": ([declared(5, "zone=a")], {FOO: 5}),
    "another label": ([declared(5, "zone=b")], {}),
    "smallest of several": ([declared(5), declared(3, "zone=a"), declared(4)], {FOO: 3}),
    "smaller, but of other nodes": ([declared(5), declared(3, "zone=b")], {FOO: 5}),
    "ours before the preset": ([declared(5), declared(3, origin=Origin.PRESET)], {FOO: 5}),
    "ours after the preset": ([declared(3, origin=Origin.PRESET), declared(5)], {FOO: 5}),
    "two resources": ([declared(5), declared(1, resource=VM_RESOURCE)], {FOO: 5, VM_RESOURCE: 1}),
}


@pytest.mark.parametrize(("declarations", "wanted"), WANTED.values(), ids=WANTED)
def test_wanted_on_a_node(declarations, wanted):
    assert wanted_on(ZONED, declarations) == wanted


def test_node_itself_goes_first():
    node = replace(ZONED, override={FOO: 9, VM_RESOURCE: None, "example.com/bar": None})
    declarations = [declared(5), declared(1, resource=VM_RESOURCE)]

    assert wanted_on(node, declarations) == {FOO: 9}


def test_node_that_cannot_be_read_keeps_what_it_has():
    node = replace(ZONED, marked={FOO: 2}, problem="annotation: what?")

    assert wanted_on(node, [declared(5), declared(1, resource=VM_RESOURCE)]) == {FOO: 2}


# ------------------------------------------------------------------ what to do

CASES = {
    "right": (a_node(5, 5), 5, CapacityAction.RIGHT),
    "new": (a_node(), 5, CapacityAction.SET),
    "new, and zero is wanted": (a_node(), 0, CapacityAction.SET),
    "wiped": (a_node(None, 5), 5, CapacityAction.SET),
    "zeroed": (a_node(0, 5), 5, CapacityAction.SET),
    "only allocatable wiped": (a_node(5, 5, allocatable=0), 5, CapacityAction.SET),
    "changed by a person": (a_node(7, 5), 5, CapacityAction.SET),
    "more is wanted": (a_node(5, 5), 6, CapacityAction.SET),
    "mark is behind": (a_node(6, 5), 6, CapacityAction.SET),
    "not wanted": (a_node(5, 5), None, CapacityAction.WITHDRAW),
    "not wanted, and wiped": (a_node(None, 5), None, CapacityAction.WITHDRAW),
    "not wanted, and changed": (a_node(7, 5), None, CapacityAction.YIELD),
    "not wanted, and not there": (a_node(), None, CapacityAction.RIGHT),
    "somebody else's": (a_node(4), 5, CapacityAction.FOREIGN),
    "of a device plugin that is gone": (a_node(0), 5, CapacityAction.FOREIGN),
    "somebody else's, as wanted": (a_node(5), 5, CapacityAction.FOREIGN),
    "somebody else's, not wanted": (a_node(5), None, CapacityAction.FOREIGN),
}


@pytest.mark.parametrize(("node", "wanted", "action"), CASES.values(), ids=CASES)
def test_action_on_a_resource(node, wanted, action):
    settled = settle(node, FOO, wanted)

    assert settled.action is action
    assert settled.amount == wanted


def vm_node(shown=None, marked=None) -> CapacityNode:
    return a_node(shown, marked, resource=VM_RESOURCE, is_adaptors=True)


ADAPTOR_CASES = {
    "its own": (vm_node(10), 5, CapacityAction.ADAPTOR),
    "its own, as wanted": (vm_node(5), 5, CapacityAction.ADAPTOR),
    "its own, gone with it": (vm_node(), 5, CapacityAction.ADAPTOR),
    "ours": (vm_node(5, 5), 5, CapacityAction.RIGHT),
    "ours, wiped": (vm_node(None, 5), 5, CapacityAction.SET),
    "ours, zeroed": (vm_node(0, 5), 5, CapacityAction.SET),
    "ours, and then its own": (vm_node(10, 5), 5, CapacityAction.YIELD),
}


@pytest.mark.parametrize(("node", "wanted", "action"), ADAPTOR_CASES.values(), ids=ADAPTOR_CASES)
def test_upstreams_advertiser_is_respected(node, wanted, action):
    assert settle(node, VM_RESOURCE, wanted).action is action


RULES_CASES = {
    "to be taken: somebody else's": (a_node(4), 5, TAKING, CapacityAction.SET),
    "to be taken: zeroed": (a_node(0), 5, TAKING, CapacityAction.SET),
    "to be taken: nothing there": (a_node(), 5, TAKING, CapacityAction.SET),
    "contested: somebody insists": (a_node(7, 5), 5, FOUGHT, CapacityAction.YIELD),
    "contested: wiped again": (a_node(None, 5), 5, FOUGHT, CapacityAction.CONTESTED),
    "contested: zeroed again": (a_node(0, 5), 5, FOUGHT, CapacityAction.CONTESTED),
    "contested: right": (a_node(5, 5), 5, FOUGHT, CapacityAction.RIGHT),
    "something cannot be read": (a_node(5, 5), None, UNSURE, CapacityAction.KEPT),
    "nothing there to be kept": (a_node(), None, UNSURE, CapacityAction.RIGHT),
    "advertiser of other resources": (
        a_node(7, 5, is_adaptors=True),
        5,
        SettleRules(),
        CapacityAction.SET,
    ),
}


@pytest.mark.parametrize(
    ("node", "wanted", "rules", "action"), RULES_CASES.values(), ids=RULES_CASES
)
def test_rules_decide_what_may_be_done(node, wanted, rules, action):
    assert settle(node, FOO, wanted, rules=rules).action is action


def test_taken_from_upstreams_advertiser():
    assert settle(vm_node(10), VM_RESOURCE, 5, rules=TAKING).action is CapacityAction.SET
    assert settle(vm_node(10, 5), VM_RESOURCE, 5, rules=TAKING).action is CapacityAction.SET
    assert settle(vm_node(10), VM_RESOURCE, None, rules=TAKING).action is CapacityAction.WITHDRAW


def test_every_action_has_a_case():
    tables = (CASES, ADAPTOR_CASES, RULES_CASES)

    assert {action for table in tables for *_, action in table.values()} == set(CapacityAction)


@pytest.mark.parametrize(
    ("node", "is_healing"),
    [
        (a_node(None, 5), True),
        (a_node(0, 5), True),
        (a_node(5, 5, allocatable=0), True),
        (a_node(), False),
        (a_node(6, 6), False),
    ],
)
def test_putting_right_is_told_from_changing_ones_mind(node, is_healing):
    assert settle(node, FOO, 5).is_healing == is_healing


# ------------------------------------------------------------------ use


@pytest.mark.parametrize(
    ("node", "wanted", "used", "amount"),
    [
        (a_node(10, 10), 3, 7, 7),
        (a_node(7, 7), 3, 7, 7),
        (a_node(7, 7), 3, 2, 3),
        (a_node(10, 10), 3, 0, 3),
        (a_node(10, 10), 3, 12, 10),
        (a_node(0, 7), 3, 7, 7),
        (a_node(None, 7), 3, 7, 7),
        (a_node(), 3, 7, 3),
        (a_node(10, 10), 12, 20, 12),
        (a_node(10, 10), 0, 1, 1),
    ],
)
def test_amount_is_lowered_no_further_than_to_what_is_in_use(node, wanted, used, amount):
    settled = settle(node, FOO, wanted, used=used)

    assert settled.amount == amount
    assert settled.is_held == (amount > wanted)
    assert not settled.is_below_use


def test_cutting_lowers_at_once_and_says_so():
    settled = settle(a_node(10, 10), FOO, 3, used=7, rules=CUTTING)

    assert (settled.amount, settled.action, settled.is_held) == (3, CapacityAction.SET, False)
    assert settled.is_below_use


def test_raising_takes_nothing_away():
    assert not settle(a_node(2, 2), FOO, 4, used=5, rules=CUTTING).is_below_use
    assert not settle(a_node(4, 4), FOO, 4, used=5, rules=CUTTING).is_below_use


def test_withdrawing_what_is_in_use_says_so():
    assert settle(a_node(5, 5), FOO, None, used=1).is_below_use
    assert not settle(a_node(5, 5), FOO, None).is_below_use
    assert not settle(a_node(5, 5), FOO, None).is_held


# ------------------------------------------------------------------ properties

amounts = st.none() | st.integers(0, 4)


@given(amounts, amounts, amounts, st.integers(0, 6))
def test_what_was_settled_is_right_afterwards(shown, marked, wanted, used):
    """No second write, unless less is in use by then."""
    settled = settle(a_node(shown, marked), FOO, wanted, used=used)
    after = {
        CapacityAction.SET: a_node(settled.amount, settled.amount),
        CapacityAction.WITHDRAW: a_node(),
        CapacityAction.YIELD: a_node(shown),
    }.get(settled.action, a_node(shown, marked))
    again = settle(after, FOO, wanted, used=used)

    assert not again.action.is_write


@given(amounts, amounts, st.integers(0, 4), st.integers(0, 6))
def test_nothing_in_use_is_ever_taken_away(shown, marked, wanted, used):
    settled = settle(a_node(shown, marked), FOO, wanted, used=used)

    assert not settled.is_below_use
    assert settled.amount is not None
    assert settled.amount >= wanted


@given(amounts, amounts, st.integers(0, 6))
def test_what_is_not_ours_is_never_written(shown, wanted, used):
    settled = settle(a_node(shown), FOO, wanted, used=used)

    assert settled.action.is_write == (shown is None and wanted is not None)


def test_the_action_tells_whether_another_component_owns_the_capacity():
    assert settle(a_node(4), FOO, 5).action.is_of_another_owner
    assert not settle(a_node(), FOO, 5).action.is_of_another_owner
