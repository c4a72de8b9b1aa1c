"""Promises to others: pods that run already, and want to grow."""

import pytest

from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.refusal import Reason
from support.builders.quota_books import (
    NOW_S,
    UNGATED,
    a_row,
    changed,
    cpu,
    open_books,
    with_facts,
)


@pytest.fixture
def books():
    return open_books(NativeCounter().count)


def resized(row, requests):
    return changed(row, profile=with_facts(row.profile, requests=requests))


def test_a_resize_is_promised_what_it_adds(books):
    row = a_row("a/web", "cpu=300m", gates=UNGATED)
    books.see_pod(row)

    assert books.resize("r", resized(row, "cpu=800m"), deadline_s=NOW_S + 30) == ()
    assert cpu(books) == (300, 500)
    [refusal] = books.resize("s", resized(row, "cpu=1100m"), deadline_s=NOW_S + 30)
    assert refusal.reason is Reason.QUOTA_EXCEEDED
    books.see_pod(resized(row, "cpu=800m"))
    assert cpu(books) == (800, 0)
    assert books.next_due_s == NOW_S + 30
    books.advance(NOW_S + 30)
    assert books.ledger.reservation_count == 0


def test_a_dry_run_reserves_nothing(books):
    row = a_row("a/web", "cpu=300m", gates=UNGATED)
    books.see_pod(row)
    after = resized(row, "cpu=800m")

    assert books.resize("r", after, deadline_s=NOW_S + 30, is_dry_run=True) == ()
    assert cpu(books) == (300, 0)
    big = resized(row, "cpu=2")
    assert books.resize("r", big, deadline_s=NOW_S + 30, is_dry_run=True) != ()


@pytest.mark.parametrize("facts", [{}, {"gates": UNGATED, "phase": "Succeeded"}])
def test_a_pod_that_is_not_charged_may_become_what_it_likes(books, facts):
    row = a_row("a/web", "cpu=5", **facts)

    assert books.resize("r", row, deadline_s=NOW_S + 30) == ()
    assert books.ledger.reservation_count == 0


def test_what_was_promised_to_a_pod_goes_with_it(books):
    row = a_row("a/web", "cpu=300m", gates=UNGATED)
    books.see_pod(row)
    books.resize("r", resized(row, "cpu=800m"), deadline_s=NOW_S + 30)

    books.lose_pod("a", "web")

    assert cpu(books) == (0, 0)
    assert books.ledger.reservation_count == 0


def test_what_was_promised_to_another_of_the_same_name_stays(books):
    """It was asked for before the end of the first one was heard of."""
    books.see_pod(a_row("a/web", "cpu=300m", gates=UNGATED))
    heir = a_row("a/web", "cpu=600m", gates=UNGATED, uid="heir")
    assert books.resize("r", heir, deadline_s=NOW_S + 30) == ()

    books.lose_pod("a", "web", "uid-of-web")

    assert cpu(books) == (0, 600)
    books.lose_pod("a", "web", "heir")
    assert cpu(books) == (0, 0)
