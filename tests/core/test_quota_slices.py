"""Decisions in slices: the same outcome, and no slice does more than its number of steps."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.quota.account import ITEMS_PER_STEP
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.refusal import Reason
from bursar.core.quota.views.queue import count_waiting
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE
from support.builders.quota_books import (
    NOW_S,
    UNGATED,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    cpu,
    releases,
    running,
)

PATIENCE_S = 600


def books_with(*quotas, namespaces="ab"):
    books = Books(NativeCounter().count, patience_s=PATIENCE_S)
    books.advance(NOW_S)
    for name in namespaces:
        books.see_namespace(a_namespace(name))
    for quota in quotas:
        books.see_quota(quota)
    return books


def slices(books, steps):
    """All slices of one decision."""
    while True:
        yield (decisions := books.decide(steps))
        if decisions.is_done:
            return


def steps_of(books):
    """How many steps the next decision takes, and whom it releases."""
    parts = list(slices(books, 1))
    return len(parts), [each.row.name for part in parts for each in part.releases]


# ------------------------------------------------------------------ the same outcome

PODS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(1, 40),
        st.sampled_from((None, 0, 5)),
        st.integers(0, 3),
    ),
    max_size=40,
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("free"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.sampled_from((1, PATIENCE_S))),
        st.tuples(st.just("limit"), st.integers(0, 200)),
        st.tuples(st.just("order"), st.sampled_from(("backfill", "strict", "fifo"))),
        st.tuples(st.just("retarget"), st.booleans()),
    ),
    max_size=6,
)


def outcome(pods, events, order, steps):
    """What is decided after each event, if decisions are made in slices."""
    hard, now_s = 100, NOW_S
    books = books_with(
        a_quota("wide", f"cpu={hard}m", order=order),
        a_quota("a/q", "cpu=60m memory=10", order="backfill"),
    )
    for number in range(6):
        books.see_pod(a_row(f"b/run{number}", "cpu=16m", gates=UNGATED))
    for number, (namespace, size, priority, age) in enumerate(pods):
        books.see_pod(
            a_row(
                f"{namespace}/p{number}",
                f"cpu={size}m memory=1",
                priority=priority,
                created_s=NOW_S + age,
            )
        )
    told = []
    for kind, value in [("wait", 0), *events]:
        if kind == "free":
            books.lose_pod("b", f"run{value}")
        elif kind == "wait":
            now_s += value
            books.advance(now_s, steps_max=steps)
        elif kind == "retarget":
            books.see_namespace(a_namespace("b", is_targeted=value))
        else:
            hard = value if kind == "limit" else hard
            order = value if kind == "order" else order
            books.see_quota(a_quota("wide", f"cpu={hard}m", order=order))
        made = list(slices(books, steps))
        told.append([(each.row.name, each.is_exempt) for part in made for each in part.releases])
        told.append(sorted((w.row.name, str(w.refusals)) for part in made for w in part.waits))
        for part in made:
            for release in part.releases:
                if not release.is_exempt:
                    books.see_pod(running(release.row))
    counted = count_waiting(books)
    return told, counted


@settings(max_examples=150)
@given(PODS, EVENTS, st.sampled_from(("backfill", "strict", "fifo")), st.integers(1, 7))
def test_slices_decide_what_one_decision_would(pods, events, order, steps):
    assert outcome(pods, events, order, steps) == outcome(pods, events, order, 2**62)


def test_a_pod_that_comes_between_slices_is_decided_in_its_order():
    books = books_with(a_quota("a/q", "cpu=2"))
    for name in ("old", "young"):
        books.see_pod(a_row(f"a/{name}", "cpu=1", created_s=NOW_S - len(name)))
    first = books.decide(1)
    assert ([each.row.name for each in first.releases], first.is_done) == (["young"], False)

    books.see_pod(a_row("a/urgent", "cpu=1", priority=9))

    assert [row.name for row in releases(books)] == ["urgent"]


# ------------------------------------------------------------------ many pods of many sizes

COUNT = 3_000
"""So many sizes that a loop over all of them for each of them could not be missed."""


def crowded_books():
    """A full quota, and pods of many sizes that wait for it, one of which may not be passed."""
    books = books_with(a_quota("a/q", "cpu=100"))
    books.see_pod(a_row("a/big", "cpu=100", gates=UNGATED))
    books.see_pod(a_row("a/a-first", "cpu=50", created_s=NOW_S))
    for number in range(COUNT):
        books.see_pod(a_row(f"a/p{number:05d}", f"cpu={1_000_000 + number}n", created_s=NOW_S))
    return books


def test_a_decision_takes_a_few_steps_for_each_pod():
    """One to try it and one to tell it, and one to fire its timer."""
    books = crowded_books()
    parts = list(slices(books, 10))
    assert max(len(part.waits) for part in parts) <= 10
    assert len(parts) < 2.5 * COUNT / 10

    books.advance(NOW_S + PATIENCE_S + 1, steps_max=1)

    assert len(list(slices(books, 10))) < 2.5 * COUNT / 10


def test_room_for_one_pod_costs_a_few_steps_however_many_wait():
    books = crowded_books()
    books.decide()
    books.see_pod(a_row("a/big", "cpu=99999m", gates=UNGATED, version=2))

    steps, names = steps_of(books)

    assert names == ["p00000"]
    assert steps < 10


def test_room_that_a_pod_ahead_holds_wakes_nobody_behind_it():
    books = crowded_books()
    books.decide()
    books.advance(NOW_S + PATIENCE_S + 1)
    books.decide()
    books.see_pod(a_row("a/big", "cpu=70", gates=UNGATED, version=2))

    steps, names = steps_of(books)
    assert (steps < 5, names) == (True, [])
    books.lose_pod("a", "big")
    assert [row.name for row in releases(books)][:2] == ["a-first", "p00000"]


def test_a_pod_that_leaves_between_slices_stops_no_decision():
    """Two limits are free at once, and one pod waits for both of them."""
    books = books_with(a_quota("a/q", "cpu=10 memory=10"))
    books.see_pod(a_row("a/big", "cpu=10 memory=10", gates=UNGATED))
    for age, (name, requests) in enumerate(
        {"first": "cpu=5", "second": "memory=5", "both": "cpu=1 memory=1"}.items()
    ):
        books.see_pod(a_row(f"a/{name}", requests, created_s=age))
    books.decide()
    books.lose_pod("a", "big")
    assert books.decide(2).releases == []
    books.lose_pod("a", "second")

    assert [row.name for row in releases(books)] == ["first", "both"]


MANY = [f"example.com/r{number}" for number in range(10 * ITEMS_PER_STEP)]


def requests_of(names, amount):
    return " ".join(f"{name}={amount}" for name in names)


def long_quota(amount):
    limits = requests_of((f"requests.{name}" for name in MANY), amount)
    return a_quota("a/q", limits)


def test_a_pod_with_many_limits_takes_many_steps():
    """In proportion to its limits: a slice takes as long as one with many ordinary pods."""
    books = books_with(long_quota(10))
    for number in range(5):
        books.see_pod(a_row(f"a/p{number}", requests_of(MANY, 20 + number)))

    parts = list(slices(books, 10))

    assert len(parts) >= 5
    assert max(len(part.waits) for part in parts) == 1
    assert sum(len(part.waits) for part in parts) == 5


def test_a_changed_quota_with_many_limits_is_entered_in_many_steps():
    books = books_with()
    for number in range(10):
        books.see_pod(a_row(f"a/p{number}", requests_of(MANY, 1), gates=UNGATED))
        books.see_pod(a_row(f"a/w{number}", requests_of(MANY, 30 + number)))
    books.see_quota(long_quota(20))

    assert len(list(slices(books, 20))) > 10
    assert books.coverage.quota(a_key("a/q")).accounts[f"requests.{MANY[0]}"].charged == 10 * 10**9
    books.see_quota(long_quota(21))
    assert len(list(slices(books, 20))) > 10


def test_equal_pods_are_told_in_slices_too():
    books = books_with(a_quota("a/q", "cpu=0"))
    for number in range(100):
        books.see_pod(a_row(f"a/p{number}", "cpu=1"))

    parts = list(slices(books, 7))

    assert max(len(part.waits) for part in parts) <= 7
    assert sum(len(part.waits) for part in parts) == 100


def test_pods_that_wait_for_something_else_are_told_in_slices_too():
    books = books_with()
    for number in range(20):
        books.see_pod(a_row(f"z/p{number}", "cpu=1"))
    assert count_waiting(books).by_reason[Reason.NAMESPACE_UNKNOWN] == 20

    parts = list(slices(books, 7))

    assert [len(part.waits) for part in parts][:3] == [7, 7, 6]


# ------------------------------------------------------------------ changes that concern many


def many_running(count):
    books = books_with(namespaces="a")
    for number in range(count):
        books.see_pod(a_row(f"a/p{number}", "cpu=1", gates=UNGATED))
    return books


def test_nothing_is_released_while_a_quota_is_not_entered_for_all_pods():
    count = 4 * STEPS_AT_ONCE
    books = many_running(count)
    books.see_pod(a_row("a/waits", "cpu=1"))
    books.see_quota(a_quota("a/q", f"cpu={count}"))
    assert books.is_catching_up("a")
    assert cpu(books)[0] < count * 1_000

    parts = list(slices(books, 100))

    assert len(parts) > 5
    assert [each for part in parts for each in part.releases] == []
    assert (cpu(books), books.is_catching_up("a")) == ((count * 1_000, 0), False)


def test_a_change_that_comes_before_the_last_one_is_entered_for_all_is_entered_too():
    count = 3 * STEPS_AT_ONCE
    books = many_running(count)
    books.see_pod(a_row("a/flies", "cpu=1"))
    assert [row.name for row in releases(books)] == ["flies"]
    books.see_quota(a_quota("a/q", "cpu=1"))
    books.lose_pod("a", "p700")
    books.see_pod(a_row("a/new", "cpu=1", gates=UNGATED))
    books.see_quota(a_quota("wide", "cpu=1"))
    books.lose_quota(a_key("a/q"))

    books.decide()

    assert cpu(books, "wide") == (count * 1_000, 1_000)
    assert books.coverage.quota(a_key("a/q")) is None


def test_a_changed_limit_has_all_pods_tried_in_slices():
    books = books_with(a_quota("a/q", "cpu=0"))
    count = 2 * STEPS_AT_ONCE
    for number in range(count):
        books.see_pod(a_row(f"a/p{number}", f"cpu={number + 1}m", created_s=number))
    books.decide()

    books.see_quota(a_quota("a/q", "cpu=3m"))
    for number in range(count // 2):
        books.lose_pod("a", f"p{number + 10}")

    parts = list(slices(books, 50))
    assert [each.row.name for part in parts for each in part.releases] == ["p0", "p1"]
    assert count_waiting(books).by_reason[Reason.QUOTA_TOO_SMALL] == count // 2 - 3


def test_steps_of_others_are_done_before_the_next_release():
    books = books_with(a_quota("a/q", "cpu=1"))
    books.see_pod(a_row("a/web", "cpu=1"))
    done = []

    def steps():
        for number in range(2 * STEPS_AT_ONCE):
            done.append(number)
            yield

    books.enter_in_steps(steps())
    assert len(done) == STEPS_AT_ONCE
    assert releases(books) != []
    assert len(done) == 2 * STEPS_AT_ONCE


def test_what_is_due_is_done_in_slices():
    books = books_with(a_quota("a/q", "cpu=100"))
    for number in range(20):
        books.see_pod(
            a_row(f"a/p{number}", "cpu=5", gates=UNGATED, deletion=(NOW_S + 1, 1), uid=f"u{number}")
        )

    assert books.advance(NOW_S + 10, steps_max=5) == 0
    assert cpu(books) == (75_000, 0)
    books.decide(5)
    assert cpu(books) == (50_000, 0)
    books.decide()

    assert cpu(books) == (0, 0)


def test_a_pod_that_leaves_before_it_was_told_is_not_told():
    books = books_with(a_quota("a/q", "cpu=0"))
    for name in ("a", "b"):
        books.see_pod(a_row(f"a/{name}", "cpu=1"))
    books.decide(1)
    for name in ("a", "b"):
        books.lose_pod("a", name)

    assert books.decide().waits == []


def test_a_pod_that_ends_while_a_quota_is_entered_is_charged_nothing():
    count = 2 * STEPS_AT_ONCE
    books = many_running(count)
    books.see_quota(a_quota("a/q", "cpu=1"))
    books.lose_pod("a", f"p{count - 1}")

    books.decide()

    assert cpu(books) == ((count - 1) * 1_000, 0)
