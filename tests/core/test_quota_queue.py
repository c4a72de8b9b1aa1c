"""The waiting list: who is on it, in which order, and who is ahead of whom."""

from collections.abc import Iterable

import pytest

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.account import NO_CHARGE, Charge
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter, NotReady
from bursar.core.quota.quota import GATE, Quota
from bursar.core.quota.refusal import Reason
from bursar.core.quota.views.queue import (
    NAMES_MAX,
    WaitingPod,
    count_waiting,
    oldest_wait_s,
    waiting_list,
)
from support.builders.quota_books import UNGATED, a_namespace, a_quota, a_row

NOW_S = 10_000
TARGETED = tuple(map(a_namespace, "ab"))


def listed(
    rows: Iterable[PodRow], *quotas: Quota, books: Books | None = None, namespaces=TARGETED
) -> list[WaitingPod]:
    books = books or Books(NativeCounter().count)
    books.advance(NOW_S)
    for namespace in namespaces:
        books.see_namespace(namespace)
    for quota in quotas:
        books.see_quota(quota)
    for row in rows:
        books.see_pod(row)
    return waiting_list(books, books.decide().releases)


def names(waiting: Iterable[WaitingPod]) -> list[str]:
    return [each.row.name for each in waiting]


def reasons(waiting: Iterable[WaitingPod]) -> dict[str, Reason | None]:
    return {each.row.name: each.reason for each in waiting}


def ahead(waiting: Iterable[WaitingPod]) -> dict[str, list[str]]:
    return {each.row.name: [pod.name for pod in each.ahead] for each in waiting}


def test_pods_stand_in_the_order_of_release():
    rows = [
        a_row("a/old", "cpu=1", created_s=NOW_S - 2),
        a_row("a/urgent", "cpu=1", created_s=NOW_S - 1, priority=5),
        a_row("a/older", "cpu=1", created_s=NOW_S - 3),
        a_row("a/runs", "cpu=1", gates=UNGATED),
    ]
    waiting = listed(rows, a_quota("a/q", "cpu=1"))

    assert names(waiting) == ["urgent", "older", "old"]
    assert [each.position for each in waiting] == [1, 2, 3]


def test_each_is_told_what_it_lacks_once_the_others_have_what_they_get():
    rows = [a_row(f"a/p{size}", f"memory={size}Mi", created_s=NOW_S) for size in (300, 500, 900)]
    first, second, third = listed(rows, a_quota("a/q", "memory=700Mi"))

    assert (first.reason, first.refusals) == (None, ())
    assert second.reason is Reason.QUOTA_EXCEEDED
    assert str(second.refusals[0].shortages[0].missing) == "100Mi"
    assert third.reason is Reason.QUOTA_TOO_SMALL


def test_the_gravest_reason_is_named():
    rows = [a_row("a/runs", "cpu=1", gates=UNGATED), a_row("a/waits", "cpu=1 memory=2Gi")]
    (waiting,) = listed(rows, a_quota("a/cpu", "cpu=1"), a_quota("a/memory", "memory=1Gi"))

    assert [each.reason for each in waiting.refusals] == [
        Reason.QUOTA_EXCEEDED,
        Reason.QUOTA_TOO_SMALL,
    ]
    assert waiting.reason is Reason.QUOTA_TOO_SMALL


def test_ahead_are_those_before_it_that_need_a_quota_it_lacks():
    rows = [
        a_row("a/runs", "cpu=1 memory=1Gi", gates=UNGATED),
        a_row("a/cpu", "cpu=1", created_s=1, priority_class="c"),
        a_row("a/memory", "memory=1Gi", created_s=2, priority_class="m"),
        a_row("a/both", "cpu=1 memory=1Gi", created_s=3, priority_class="b"),
        a_row("b/elsewhere", "cpu=1", created_s=4),
        a_row("a/more-cpu", "cpu=1", created_s=5, priority_class="c"),
    ]
    waiting = listed(
        rows, a_quota("a/cpu", "cpu=1"), a_quota("a/memory", "memory=1Gi"), a_quota("b/q", "cpu=0")
    )

    assert ahead(waiting) == {
        "cpu": [],
        "memory": [],
        "both": ["cpu", "memory"],
        "elsewhere": [],
        "more-cpu": ["cpu", "both"],
    }
    assert [each.ahead_count for each in waiting] == [0, 0, 2, 0, 2]


def test_of_many_ahead_the_first_are_named_and_all_are_counted():
    rows = [a_row(f"a/p{index:02d}", "cpu=1", created_s=index) for index in range(15)]
    runs = a_row("a/runs", "cpu=1", gates=UNGATED)
    waiting = listed([runs, *rows], a_quota("a/q", "cpu=1"))

    assert waiting[-1].ahead_count == 14
    assert [pod.name for pod in waiting[-1].ahead] == names(waiting)[:NAMES_MAX]


def test_a_pod_that_can_never_fit_is_ahead_of_nobody():
    rows = [
        a_row("a/runs", "cpu=1", gates=UNGATED),
        a_row("a/huge", "cpu=9", created_s=1),
        a_row("a/waits", "cpu=1", created_s=2),
    ]

    assert ahead(listed(rows, a_quota("a/q", "cpu=1"))) == {"huge": [], "waits": []}


def test_a_pod_behind_one_that_may_not_be_passed_names_it():
    rows = [
        a_row("a/large", "cpu=9", created_s=NOW_S - 2),
        a_row("a/small", "cpu=1", created_s=NOW_S - 1),
        a_row("a/runs", "cpu=1", gates=UNGATED),
    ]
    large, small = listed(rows, a_quota("a/q", "cpu=9", order="strict"))

    assert (large.reason, small.reason) == (Reason.QUOTA_EXCEEDED, Reason.BEHIND_ANOTHER)
    assert small.refusals[0].detail == "a/large"
    assert [str(pod) for pod in small.ahead] == ["a/large"]


@pytest.mark.parametrize(
    ("order", "expected"), [("fifo", ["old", "urgent"]), ("backfill", ["urgent", "old"])]
)
def test_the_order_of_the_quota_decides_also_among_those_about_to_go(order, expected):
    rows = [
        a_row("a/urgent", "cpu=1", created_s=2, priority=9),
        a_row("a/old", "cpu=1", created_s=1),
    ]

    assert names(listed(rows, a_quota("a/q", "cpu=0", order=order))) == expected
    assert names(listed(rows, a_quota("a/q", "cpu=2", order=order))) == expected


def test_where_pods_are_not_held_back_they_are_about_to_be_released():
    namespaces = (a_namespace("a", is_targeted=False),)
    (waiting,) = listed([a_row("a/p", "cpu=1")], a_quota("a/q", "cpu=0"), namespaces=namespaces)

    assert waiting.reason is None


def test_pods_with_other_gates_are_listed_and_say_so():
    rows = [
        a_row("a/two", gates=("theirs", GATE)),
        a_row("a/theirs", gates=("theirs",)),
        a_row("a/leaves", gates=("theirs", GATE), deletion=(NOW_S, 0)),
        a_row("a/ended", gates=("theirs", GATE), phase="Failed"),
    ]
    (waiting,) = listed(rows)

    assert (waiting.row.name, waiting.reason) == ("two", Reason.OTHER_GATES)
    assert waiting.refusals[0].message() == "other scheduling gates come first: theirs"


def test_pods_of_an_unknown_namespace_and_uncounted_ones_are_listed():
    def counter(_: PodRow) -> Charge | NotReady:
        return NotReady(detail="machine not seen", provisional=NO_CHARGE)

    rows = [a_row("a/machine"), a_row("z/lost")]
    books = Books(counter)
    books.see_quota(a_quota("a/q", "cpu=1"))
    waiting = listed(rows, books=books)

    assert reasons(waiting) == {
        "machine": Reason.NOT_COUNTED,
        "lost": Reason.NAMESPACE_UNKNOWN,
    }


def test_pods_that_have_not_been_decided_upon_are_about_to_be_released_if_they_fit():
    books = Books(NativeCounter().count)
    books.see_namespace(a_namespace("a"))
    books.see_pod(a_row("a/p", "cpu=1"))

    assert [each.reason for each in waiting_list(books)] == [None]


def test_waiting_pods_are_counted_by_their_gravest_reason():
    books = Books(NativeCounter().count)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/q", "cpu=9", order="strict"))
    listed = [
        a_row("a/runs", "cpu=1", gates=UNGATED),
        a_row("a/huge", "cpu=10", created_s=1),
        a_row("a/large", "cpu=9", created_s=2),
        a_row("a/small", "cpu=1", created_s=3),
        a_row("a/two-gates", gates=("theirs", GATE)),
        a_row("z/lost"),
    ]
    for row in listed:
        books.see_pod(row)
    books.decide()
    books.see_pod(a_row("a/new", "memory=1"))

    counted = count_waiting(books)

    assert {reason for reason, count in counted.by_reason.items() if count} == {
        Reason.QUOTA_TOO_SMALL,
        Reason.QUOTA_EXCEEDED,
        Reason.BEHIND_ANOTHER,
        Reason.OTHER_GATES,
        Reason.NAMESPACE_UNKNOWN,
    }
    assert (sum(counted.by_reason.values()), counted.undecided) == (5, 1)


def test_namespaces_that_share_a_quota_are_listed_in_turn():
    rows = [
        a_row("b/runs", "cpu=1", gates=UNGATED),
        *(a_row(f"a/a{number}", "cpu=1", created_s=number, priority=9) for number in range(3)),
        *(a_row(f"b/b{number}", "cpu=1", created_s=NOW_S + number) for number in range(2)),
        a_row("a/alone", "memory=1", created_s=NOW_S),
    ]
    waiting = listed(rows, a_quota("wide", "cpu=1"), a_quota("a/q", "memory=0"))

    assert names(waiting) == ["a0", "b0", "a1", "b1", "a2", "alone"]
    assert ahead(waiting)["b1"] == ["a0", "b0", "a1"]


def test_a_pod_of_another_namespace_that_holds_the_quota_is_named_in_the_list():
    rows = [
        a_row("b/runs", "cpu=1", gates=UNGATED),
        a_row("a/large", "cpu=9", created_s=NOW_S - 2),
        a_row("b/small", "cpu=1", created_s=NOW_S - 1),
    ]
    large, small = listed(rows, a_quota("wide", "cpu=9", order="strict"))

    assert (large.reason, small.reason) == (Reason.QUOTA_EXCEEDED, Reason.BEHIND_ANOTHER)
    assert small.refusals[0].detail == "a/large"


# ------------------------------------------------------------------ the oldest


def test_the_oldest_pod_is_found_among_a_bounded_number_of_groups():
    books = Books(NativeCounter().count)
    rows = [
        a_row("a/young", "cpu=1", created_s=300),
        a_row("a/alike", "cpu=1", created_s=200),
        a_row("b/old", "cpu=2", created_s=100),
    ]
    assert oldest_wait_s(books, 10) is None
    quotas = (a_quota("a/q", "pods=0"), a_quota("b/q", "pods=0"))
    assert len(listed(rows, *quotas, books=books)) == 3

    assert oldest_wait_s(books, 10) == 100
    assert oldest_wait_s(books, 1) == 200
