"""Scopes: every scope and operator, one by one and together."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.qos import QosClass
from bursar.core.quota.scopes import EXISTS, ScopeRule, matches, simplified
from support.looks import Looks


@dataclass(frozen=True)
class Facts:
    deadline_s: int | None = None
    priority_class: str = ""
    crosses_namespaces: bool = False
    qos: QosClass = QosClass.BURSTABLE


PLAIN = Facts()
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Sometimes"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("scope", "facts", "holds"),
    [
        ("Terminating", PLAIN, False),
        ("Terminating", replace(PLAIN, deadline_s=0), True),
        ("Terminating", replace(PLAIN, deadline_s=-1), False),
        ("NotTerminating", PLAIN, True),
        ("NotTerminating", replace(PLAIN, deadline_s=30), False),
        ("BestEffort", PLAIN, False),
        ("BestEffort", replace(PLAIN, qos=QosClass.BEST_EFFORT), True),
        ("NotBestEffort", PLAIN, True),
        ("NotBestEffort", replace(PLAIN, qos=QosClass.GUARANTEED), True),
        ("NotBestEffort", replace(PLAIN, qos=QosClass.BEST_EFFORT), False),
        ("CrossNamespacePodAffinity", PLAIN, False),
        ("CrossNamespacePodAffinity", replace(PLAIN, crosses_namespaces=True), True),
        ("Whatever", PLAIN, False),
    ],
)
def test_the_operator_does_not_matter_to_a_scope_that_holds_or_not(scope, operator, facts, holds):
    assert matches([ScopeRule(scope, operator)], facts) is holds


@pytest.mark.parametrize(
    ("operator", "values", "without", "gold", "other"),
    [
        ("Exists", (), False, True, True),
        ("DoesNotExist", (), True, False, False),
        ("In", ("gold", "silver"), False, True, False),
        ("In", ("",), False, False, False),
        ("NotIn", ("gold", "silver"), True, False, True),
        ("NotIn", ("",), True, True, True),
        ("Sometimes", ("gold",), False, False, False),
    ],
)
def test_a_priority_class_is_matched_by_its_name(operator, values, without, gold, other):
    rule = ScopeRule("PriorityClass", operator, values)

    held = [
        matches([rule], replace(PLAIN, priority_class=name)) for name in ("", "gold", "x" * 250)
    ]

    assert held == [without, gold, other]


def test_a_class_with_a_long_name_is_found_by_it():
    rule = ScopeRule("PriorityClass", "In", ("x" * 250,))

    assert matches([rule], replace(PLAIN, priority_class="x" * 250))


def test_all_the_rules_must_hold():
    rules = [ScopeRule("NotTerminating", EXISTS), ScopeRule("PriorityClass", "In", ("gold",))]

    assert matches(rules, replace(PLAIN, priority_class="gold"))
    assert not matches(rules, replace(PLAIN, priority_class="gold", deadline_s=1))
    assert not matches(rules, PLAIN)


@given(
    st.lists(
        st.builds(
            ScopeRule,
            st.sampled_from(["PriorityClass", "PriorityClass", "NotTerminating", "Whatever"]),
            st.sampled_from(OPERATORS),
            st.lists(st.sampled_from(["", "gold", "silver"]), max_size=3).map(tuple),
        ),
        max_size=4,
    )
)
def test_simplified_rules_hold_for_the_same_pods(rules):
    for name in ("", "gold", "silver", "iron"):
        for deadline_s in (None, 1):
            facts = replace(PLAIN, priority_class=name, deadline_s=deadline_s)
            assert matches(simplified(rules), facts) is matches(rules, facts)


def test_however_many_rules_and_values_are_written_a_pod_is_compared_with_few():
    looks = Looks()
    names = [looks.name(f"class{number}") for number in range(500)]
    written = [
        *[ScopeRule("PriorityClass", "NotIn", (name,)) for name in names],
        *[ScopeRule("PriorityClass", "In", ("gold", *names))] * 2,
        *[ScopeRule("NotTerminating", EXISTS)] * 500,
    ]
    rules = simplified(written)
    assert len(rules) == 3

    looks.count = 0
    assert matches(rules, replace(PLAIN, priority_class="gold"))
    assert looks.count < 10


def test_without_rules_a_quota_is_about_every_pod():
    assert matches([], PLAIN)
