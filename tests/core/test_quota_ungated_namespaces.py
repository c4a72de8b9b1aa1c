"""Namespaces where pods are not gated: pods that still have the gate are let go without a quota."""

from dataclasses import replace

import pytest

from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import RETRY_SECONDS, ReleaseOutcome
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE
from support.builders.quota_books import (
    NOW_S,
    a_namespace,
    a_row,
    counting_all_but,
    cpu,
    open_books,
    releases,
    running,
)


@pytest.fixture
def unready():
    return set()


@pytest.fixture
def books(unready):
    return open_books(counting_all_but(unready))


def waits(books):
    """Who is told to wait, and why."""
    return {wait.row.name: wait.refusals[0].reason for wait in books.decide().waits}


def test_pods_of_a_namespace_that_is_not_held_are_let_go(books, unready):
    unready.add("strange")
    books.see_pod(a_row("a/web", "cpu=2"))
    books.see_pod(a_row("a/strange", "cpu=2"))
    assert releases(books) == []

    books.see_namespace(a_namespace("a", is_targeted=False))
    decisions = books.decide()

    assert sorted(each.row.name for each in decisions.releases) == ["strange", "web"]
    assert all(each.is_exempt for each in decisions.releases)
    assert (cpu(books), books.pending_release_count) == ((0, 0), 2)
    for release in decisions.releases:
        books.settle(release.row, ReleaseOutcome.CHANGED)
    books.advance(NOW_S + RETRY_SECONDS)
    assert all(each.is_exempt for each in books.decide().releases)


def test_a_namespace_that_is_held_again_holds_those_that_were_not_let_go(books, unready):
    unready.add("web")
    books.see_namespace(a_namespace("a", is_targeted=False))
    books.see_pod(a_row("a/web", "cpu=100m"))

    books.see_namespace(a_namespace("a"))

    assert waits(books) == {"web": Reason.NOT_COUNTED}


@pytest.mark.parametrize("outcome", [None, *ReleaseOutcome])
def test_a_namespace_that_is_held_again_holds_those_that_are_being_let_go(books, outcome):
    """Their patches wait for a worker, or failed and are due to be sent again."""
    books.see_namespace(a_namespace("a", is_targeted=False))
    small, large = a_row("a/small", "cpu=400m"), a_row("a/large", "cpu=2")
    for row in (small, large):
        books.see_pod(row)
    exempt = books.decide().releases
    assert [each.row for each in exempt] == [large, small]
    assert all(books.may_lift(each) for each in exempt)
    if outcome is not None:
        books.settle(large, outcome)

    books.see_namespace(a_namespace("a"))

    assert not any(books.may_lift(each) for each in exempt)
    decisions = books.decide()
    assert [(each.row, each.is_exempt) for each in decisions.releases] == [(small, False)]
    assert cpu(books) == (0, 400)
    assert [books.may_lift(each) for each in exempt] == [False, True], "a worker may have the first"
    books.advance(NOW_S + 2 * RETRY_SECONDS)
    assert all(each.row is small for each in books.decide().releases)
    books.see_pod(running(large))
    assert cpu(books) == (2_000, 400), "its patch was applied"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda books: books.lose_namespace("a"), Reason.NAMESPACE_UNKNOWN),
        (
            lambda books: books.see_namespace(
                replace(a_namespace("a", is_targeted=False), dispute="a policy selects it")
            ),
            Reason.GATING_MISMATCH,
        ),
    ],
)
def test_pods_that_are_being_let_go_wait_when_it_is_no_longer_sure_that_they_may(
    books, change, reason
):
    books.see_namespace(a_namespace("a", is_targeted=False))
    books.see_pod(a_row("a/web", "cpu=2"))
    [release] = books.decide().releases

    change(books)

    assert not books.may_lift(release)
    assert waits(books) == {"web": reason}


def test_of_many_pods_none_is_let_go_from_the_moment_when_their_namespace_is_held_again(books):
    books.see_namespace(a_namespace("a", is_targeted=False))
    for number in range(STEPS_AT_ONCE + 1):
        books.see_pod(a_row(f"a/p{number:03}", "cpu=2"))
    exempt = books.decide().releases

    books.see_namespace(a_namespace("a"))
    assert not any(books.may_lift(each) for each in exempt)
    books.see_namespace(a_namespace("a", is_targeted=False))

    assert books.decide().releases == exempt
    assert all(books.may_lift(each) for each in exempt)


def test_a_release_with_a_reservation_goes_on_whatever_becomes_of_its_namespace(books):
    books.see_pod(a_row("a/web", "cpu=600m"))
    [release] = books.decide().releases

    for is_targeted in (False, True):
        books.see_namespace(a_namespace("a", is_targeted=is_targeted))
        assert books.decide().releases == []
        assert books.may_lift(release)
        assert cpu(books) == (0, 600)
