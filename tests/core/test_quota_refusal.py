"""Refusals: the words and numbers that people are told."""

import pytest

from bursar.core.quota.refusal import (
    Reason,
    Refusal,
    Shortage,
    behind_gates,
    explanation,
    refusals_of,
)
from support.builders.pods import parsed
from support.builders.quota_books import a_key

QUOTA = a_key("a/compute")
OTHER = a_key("wide")


def a_shortage(text, *, quota=QUOTA):
    """`cpu 300m 800m 1`: how much of what is requested, used and allowed."""
    resource, requested, used, hard = text.split()
    amounts = parsed(f"requested={requested} used={used} hard={hard}")
    return Shortage(quota=quota, resource=resource, **amounts)


def test_a_shortage_says_what_is_missing():
    shortage = a_shortage("cpu 300m 800m 1")

    assert str(shortage.missing) == "100m"
    assert not shortage.is_hopeless


def test_what_exceeds_the_whole_quota_is_hopeless():
    assert a_shortage("cpu 1100m 0 1").is_hopeless
    assert not a_shortage("cpu 1 1 1").is_hopeless


def test_there_is_one_refusal_for_each_quota_in_the_order_they_are_met():
    refusals = refusals_of(
        [
            a_shortage("cpu 300m 800m 1"),
            a_shortage("pods 1 2 2"),
            a_shortage("pods 1 0 0", quota=OTHER),
        ]
    )

    assert [(each.reason, each.quota, len(each.shortages)) for each in refusals] == [
        (Reason.QUOTA_EXCEEDED, QUOTA, 2),
        (Reason.QUOTA_TOO_SMALL, OTHER, 1),
    ]


def test_the_message_begins_with_the_words_of_kubernetes():
    [refusal] = refusals_of([a_shortage("cpu 300m 800m 1"), a_shortage("pods 1 2 2")])

    assert refusal.message() == (
        "exceeded quota: compute, requested: cpu=300m,pods=1, used: cpu=800m,pods=2, "
        "limited: cpu=1,pods=2; missing: cpu=100m,pods=1"
    )


def test_the_message_says_when_waiting_does_not_help():
    [refusal] = refusals_of([a_shortage("cpu 2 0 1")])

    assert refusal.message().endswith("missing: cpu=1; it can never fit unless the quota is raised")


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (
            Refusal(reason=Reason.BEHIND_ANOTHER, quota=QUOTA, detail="a/first"),
            "waiting for quota compute behind a/first",
        ),
        (Refusal(reason=Reason.NAMESPACE_UNKNOWN), "the namespace has not been seen yet"),
        (Refusal(reason=Reason.OTHER_GATES), "other scheduling gates come first"),
        (
            Refusal(reason=Reason.RELEASE_REFUSED, detail="no"),
            "there is room, but the gate could not be lifted: no",
        ),
        (
            Refusal(reason=Reason.NOT_COUNTED, detail="its machine"),
            "what the pod costs is not known yet: its machine",
        ),
    ],
)
def test_every_other_reason_has_words_of_its_own(refusal, text):
    assert refusal.message() == text


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_can_be_said(reason):
    assert Refusal(reason=reason, quota=QUOTA).message()


def test_all_reasons_of_a_pod_are_one_text():
    refusals = [Refusal(reason=Reason.OTHER_GATES), Refusal(reason=Reason.NAMESPACE_UNKNOWN)]

    assert explanation(refusals) == (
        "other scheduling gates come first; the namespace has not been seen yet"
    )


def test_a_quota_is_named_by_kind_and_place():
    assert str(QUOTA) == "ApplicationAwareResourceQuota a/compute"
    assert str(OTHER) == "ApplicationAwareClusterResourceQuota wide"


def test_gates_of_others_are_named_and_those_left_out_are_counted():
    assert behind_gates(["one", "two"]).detail == "one, two"
    assert behind_gates(["one", "two"], 9990).detail == "one, two and 9990 more"
