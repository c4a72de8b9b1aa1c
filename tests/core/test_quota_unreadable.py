"""Quotas that cannot be read, and namespaces about whose gates there is a dispute: pods wait."""

from dataclasses import replace

import pytest

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector, readable_part
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import NamespaceSelector, Quota, QuotaKey, QuotaKind
from bursar.core.quota.refusal import Reason
from bursar.core.quota.scopes import ScopeRule
from bursar.core.quota.targeting import Targeting
from support.builders.quota_books import (
    NOW_S,
    a_namespace,
    a_quota,
    a_row,
    releases,
    running,
)

WRONG = "spec.hard[pods]: no"


def unreadable(text="a/q", **fields):
    return replace(a_quota(text, ""), problem=WRONG, **fields)


def a_wide_one(**selector):
    key = QuotaKey(QuotaKind.CLUSTER, "", "wide")
    return Quota(key=key, problem=WRONG, selector=NamespaceSelector(**selector))


def test_pods_that_an_unreadable_quota_may_cover_wait_until_it_can_be_read(books):
    books.see_quota(unreadable())
    row = a_row("a/web")
    books.see_pod(row)
    decisions = books.decide()
    assert decisions.releases == []
    [wait] = decisions.waits
    [refusal] = wait.refusals
    assert refusal.reason is Reason.QUOTA_UNREADABLE
    assert refusal.message().endswith(f"cannot be used: ApplicationAwareResourceQuota a/q: {WRONG}")

    books.see_quota(a_quota("a/q", "pods=5"))
    assert releases(books) == [row]


def test_the_readable_scopes_of_an_unreadable_quota_narrow_it(books):
    books.see_quota(unreadable(scopes=(ScopeRule("Terminating", "Exists"),)))
    row = a_row("a/web")
    books.see_pod(row)
    assert releases(books) == [row]


def test_an_unreadable_cluster_quota_holds_what_it_covered_last(books):
    books.see_namespace(a_namespace("b"))
    books.see_namespace(a_namespace("c"))
    books.see_quota(a_wide_one(annotations={"no": "such"}, names=frozenset({"b"})))
    held, free = a_row("b/web"), a_row("c/web")
    books.see_pod(held)
    books.see_pod(free)
    assert releases(books) == [free]


def test_a_pod_under_an_unreadable_quota_does_not_grow(books):
    row = a_row("a/web", "cpu=100m")
    books.see_pod(running(row))
    books.see_quota(unreadable())
    grown = running(a_row("a/web", "cpu=200m"))
    [refusal] = books.resize(grown, running(row), until_s=NOW_S + 30)
    assert refusal.reason is Reason.QUOTA_UNREADABLE


def test_a_disputed_namespace_keeps_its_gates_until_the_dispute_ends(books):
    disputed = Namespace(name="d", is_targeted=False, dispute="a policy selects it")
    books.see_namespace(disputed)
    row = a_row("d/web")
    books.see_pod(row)
    decisions = books.decide()
    assert decisions.releases == []
    assert [each.reason for each in decisions.waits[0].refusals] == [Reason.GATING_MISMATCH]
    assert "a policy selects it" in decisions.waits[0].refusals[0].message()

    books.see_namespace(replace(disputed, dispute=""))
    [release] = books.decide().releases
    assert (release.row, release.is_exempt) == (row, True)


def test_a_namespace_that_is_targeted_and_disputed_is_not_gated():
    targeting = Targeting(own_namespace="aaq")
    gated = NamespaceObject(name="a", labels={"application-aware-quota/enable-gating": ""})
    assert targeting.namespace(gated).is_gated
    assert not targeting.namespace(gated, "why").is_gated
    assert targeting.namespace(NamespaceObject(name="b"), "why").gating == (False, "why")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (LabelSelector(match_labels={"a": "b", "c": "?"}), "a=b"),
        (
            LabelSelector(
                match_expressions=(
                    LabelExpression(key="a", operator="notin", values=("b",)),
                    LabelExpression(key="c", operator="Matches", values=("d",)),
                    LabelExpression(key="e", operator="In"),
                    LabelExpression(key="f", operator="EXISTS"),
                )
            ),
            "a notin (b),f",
        ),
    ],
)
def test_the_readable_part_of_a_selector(selector, text):
    assert str(readable_part(selector)) == text
