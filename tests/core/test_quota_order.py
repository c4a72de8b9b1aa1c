"""Who goes first: by priority, age and name, who may pass, and for how long."""

import pytest

from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.refusal import Reason
from support.builders.quota_books import UNGATED, a_namespace, a_quota, a_row
from support.builders.shared_quota import released

NOW_S = 1_000
PATIENCE_S = 600


@pytest.fixture
def books():
    made = Books(NativeCounter().count, patience_s=PATIENCE_S)
    made.advance(NOW_S)
    for name in ("a", "b"):
        made.see_namespace(a_namespace(name))
    return made


def see(books, *pods):
    """Pods as `name cpu created priority`, all in namespace a unless they say so."""
    for text in pods:
        where, cpu, created_s, priority = (*text.split(), "0", "0")[:4]
        where = where if "/" in where else f"a/{where}"
        books.see_pod(
            a_row(
                where,
                f"cpu={cpu}",
                created_s=NOW_S + int(created_s),
                priority=int(priority) or None,
            )
        )


def occupy(books, cpu, namespace="a"):
    books.see_pod(a_row(f"{namespace}/occupant", f"cpu={cpu}", gates=UNGATED))


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("backfill", ["urgent", "old", "a", "b"]),
        ("strict", ["urgent", "old", "a", "b"]),
        ("fifo", ["old", "a", "b", "urgent"]),
    ],
)
def test_pods_go_by_priority_age_and_name_or_by_age_alone(books, order, names):
    books.see_quota(a_quota("a/q", "cpu=4", order=order))
    see(books, "b 1 5", "urgent 900m 6 9", "a 1 5", "old 1 1")

    assert released(books) == names


@pytest.mark.parametrize(
    ("order", "names"), [("backfill", ["small"]), ("strict", []), ("fifo", [])]
)
def test_a_pod_that_fits_passes_only_where_it_may(books, order, names):
    books.see_quota(a_quota("a/q", "cpu=2", order=order))
    occupy(books, "1")
    see(books, "large 2 1", "small 500m 2")

    assert released(books) == names


def test_whoever_waits_behind_another_is_told_so(books):
    books.see_quota(a_quota("a/q", "cpu=2", order="strict"))
    occupy(books, "1")
    see(books, "large 2 1", "small 500m 2")

    waits = {wait.row.name: wait.refusals[0] for wait in books.decide().waits}

    assert waits["large"].reason is Reason.QUOTA_EXCEEDED
    assert waits["small"].message() == "waiting for quota q behind a/large"


def test_a_pod_that_can_never_fit_stands_in_nobodys_way(books):
    books.see_quota(a_quota("a/q", "cpu=2", order="strict"))
    see(books, "giant 3 1", "small 500m 2")
    assert released(books) == ["small"]

    books.see_quota(a_quota("a/q", "cpu=3", order="strict"))
    see(books, "late 500m 3")

    assert released(books) == []


def test_a_pod_that_has_waited_too_long_may_not_be_passed_any_more(books):
    books.see_quota(a_quota("a/q", "cpu=2"))
    occupy(books, "1")
    see(books, "large 2 1", "small 200m 2")
    assert released(books) == ["small"]
    assert books.next_due_s == NOW_S + PATIENCE_S

    books.advance(NOW_S + 1 + PATIENCE_S)
    see(books, "late 200m 3")

    assert released(books) == []
    books.lose_pod("a", "occupant")
    books.lose_pod("a", "small")
    assert released(books) == ["large"]
    books.lose_pod("a", "large")
    assert released(books) == ["late"]


def test_a_line_at_one_quota_holds_up_nobody_at_another(books):
    books.see_quota(a_quota("a/q", "cpu=2", order="strict"))
    books.see_quota(a_quota("b/q", "cpu=2", order="strict"))
    occupy(books, "1")
    see(books, "large 2 1", "b/other 1 2")

    assert released(books) == ["other"]


def test_a_line_at_a_quota_of_the_cluster_crosses_namespaces(books):
    books.see_quota(a_quota("wide", "cpu=2", order="fifo"))
    occupy(books, "1", "b")
    see(books, "large 2 1", "b/other 1 2")
    assert released(books) == []

    books.lose_pod("b", "occupant")
    assert released(books) == ["large"]
    books.lose_pod("a", "large")
    assert released(books) == ["other"]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda books: books.lose_pod("a", "large"), ["small"]),
        (
            lambda books: books.see_quota(a_quota("a/q", "cpu=5", order="strict")),
            ["large", "small"],
        ),
        (lambda books: books.see_quota(a_quota("a/q", "cpu=2")), ["small"]),
    ],
    ids=["the holder gives up", "there is room for both", "the order is loosened"],
)
def test_those_behind_a_holder_go_as_soon_as_it_is_in_nobodys_way(books, change, names):
    books.see_quota(a_quota("a/q", "cpu=2", order="strict"))
    occupy(books, "1")
    see(books, "large 2 1", "small 500m 2")
    assert released(books) == []

    change(books)

    assert released(books) == names


def test_a_party_whose_first_leaves_holds_at_the_rank_of_its_next(books):
    books.see_quota(a_quota("a/q", "cpu=2", order="strict"))
    occupy(books, "1")
    see(books, "large 2 1", "small 500m 2", "large2 2 3")
    assert released(books) == []

    books.lose_pod("a", "large")

    assert released(books) == ["small"]


def test_the_next_of_a_party_does_not_pass_whom_the_first_was_before(books):
    books.see_quota(a_quota("a/q", "cpu=2 memory=1Gi", order="fifo"))
    occupy(books, "2")
    books.see_pod(a_row("a/full", "memory=1Gi", gates=UNGATED))
    see(books, "first 500m 1", "next 500m 3")
    books.see_pod(a_row("a/between", "memory=1Mi", created_s=NOW_S + 2))
    assert released(books) == []

    books.lose_pod("a", "occupant")

    assert released(books) == ["first"]
    books.lose_pod("a", "full")
    assert released(books) == ["between", "next"]


def test_a_quota_that_goes_lets_everybody_go(books):
    quota = a_quota("a/q", "cpu=1", order="strict")
    books.see_quota(quota)
    see(books, "large 2 1", "small 500m 2")
    assert released(books) == ["small"]

    books.lose_quota(quota.key)

    assert released(books) == ["large"]
