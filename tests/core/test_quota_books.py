"""The books: what goes in, what is decided, and what every kind of answer does."""

import pytest

from bursar.core.quota.books import PATIENCE_SECONDS, Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import (
    BACKOFF_SECONDS,
    BACKOFF_SECONDS_MAX,
    RETRY_SECONDS,
    UNANSWERED_SECONDS,
    ReleaseOutcome,
)
from support.builders.quota_books import (
    GATED,
    NOW_S,
    UNGATED,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    changed,
    cpu,
    releases,
    running,
)


def waits(books):
    """Who is told to wait, and why."""
    return {wait.row.name: wait.refusals[0].reason for wait in books.decide().waits}


def flown(books):
    """A pod that is being released."""
    row = a_row("a/web", "cpu=600m")
    books.see_pod(row)
    assert releases(books) == [row]
    return row


# ------------------------------------------------------------------ the life of a pod


def test_a_pod_is_released_with_its_room_reserved(books):
    row = flown(books)
    assert (cpu(books), books.pending_release_count) == ((0, 600), 1)

    books.settle(row, ReleaseOutcome.LIFTED)
    assert cpu(books) == (0, 600)
    books.see_pod(running(row))
    assert (cpu(books), books.pending_release_count) == ((600, 0), 0)
    books.see_pod(changed(running(row), phase="Succeeded"))
    assert cpu(books) == (0, 0)
    books.lose_pod("a", "web")
    assert books.ledger.pod_count == 0


def test_a_pod_without_room_is_told_once_and_goes_when_there_is(books):
    books.see_pod(a_row("a/first", "cpu=700m", gates=UNGATED))
    books.see_pod(a_row("a/second", "cpu=400m"))

    assert waits(books) == {"second": Reason.QUOTA_EXCEEDED}
    assert waits(books) == {}
    books.lose_pod("a", "first")
    assert [row.name for row in releases(books)] == ["second"]


def test_a_pod_is_released_in_its_latest_state(books):
    books.see_pod(a_row("a/first", "cpu=700m", gates=UNGATED))
    row = a_row("a/second", "cpu=400m")
    books.see_pod(row)
    books.decide()
    books.see_pod(changed(row))
    books.lose_pod("a", "first")

    assert releases(books) == [changed(row)]


@pytest.mark.parametrize(
    ("facts", "blocked"),
    [
        ({"gates": ("other", *GATED)}, [Reason.OTHER_GATES]),
        ({"gates": ("other",)}, []),
        ({"phase": "Failed"}, []),
        ({"deletion": (NOW_S + 30, 30)}, []),
    ],
    ids=["other gates too", "only other gates", "ended", "being deleted"],
)
def test_some_gated_pods_do_not_wait_for_room(books, facts, blocked):
    books.see_pod(a_row("a/web", "cpu=1"))
    books.see_pod(a_row("a/web", "cpu=1", version=2, **facts))

    decisions = books.decide()

    assert (decisions.releases, decisions.waits, cpu(books)) == ([], [], (0, 0))
    assert [each.refusals[0].reason for each in books.blocked()] == blocked


def test_a_pod_past_its_grace_is_charged_no_longer(books):
    row = a_row("a/web", "cpu=600m", gates=UNGATED, deletion=(NOW_S + 30, 30))
    books.see_pod(row)
    books.see_pod(a_row("a/other", "cpu=600m"))
    assert (cpu(books), releases(books), books.next_due_s) == ((600, 0), [], NOW_S + 61)

    books.advance(NOW_S + 60)
    assert cpu(books) == (600, 0)
    books.advance(NOW_S + 61)

    assert cpu(books) == (0, 0)
    assert [row.name for row in releases(books)] == ["other"]


def test_an_alarm_that_rings_too_early_is_set_again(books):
    row = a_row("a/web", "cpu=600m", gates=UNGATED, deletion=(NOW_S + 10, 0))
    books.see_pod(row)
    books.see_pod(changed(row, deletion=row.deletion._replace(due_s=NOW_S + 90)))

    books.advance(NOW_S + 11)
    assert cpu(books) == (600, 0)
    books.advance(NOW_S + 91)

    assert cpu(books) == (0, 0)


def test_a_deletion_that_says_no_grace_counts_until_the_pod_is_gone(books):
    books.see_pod(a_row("a/web", "cpu=600m", gates=UNGATED, deletion=(NOW_S, None)))
    books.advance(NOW_S + 10_000)

    assert cpu(books) == (600, 0)


def test_deletions_are_judged_by_the_wall_clock_even_after_it_was_set_back(books):
    """A pod that is overdue by a clock that was an hour ahead is not overdue."""
    books.advance(NOW_S + 3600, NOW_S)
    books.advance(NOW_S, NOW_S + 1)
    books.see_pod(a_row("a/web", "cpu=600m", gates=UNGATED, deletion=(NOW_S + 30, 30)))

    assert cpu(books) == (600, 0)
    assert books.next_due_s == NOW_S + 61


@pytest.mark.parametrize("step_s", [3600, -3600])
@pytest.mark.parametrize(
    ("outcome", "rest_s"),
    [(ReleaseOutcome.CHANGED, RETRY_SECONDS), (ReleaseOutcome.REFUSED, BACKOFF_SECONDS)],
)
def test_a_step_of_the_wall_clock_does_not_move_the_next_release(books, outcome, rest_s, step_s):
    row = flown(books)
    books.settle(row, outcome, "no")
    assert releases(books) == []

    books.advance(NOW_S + step_s + 1, NOW_S + 1)
    assert releases(books) == []
    assert books.next_due_s == NOW_S + step_s + rest_s
    books.advance(NOW_S + step_s + rest_s, NOW_S + rest_s)

    assert releases(books) == [row]


def test_another_pod_under_the_same_name_takes_over_nothing(books):
    flown(books)
    heir = a_row("a/web", "cpu=900m", uid="heir")

    books.see_pod(heir)

    assert (cpu(books), releases(books)) == ((0, 0), [heir])
    assert cpu(books) == (0, 900)
    books.see_pod(running(heir))
    books.see_pod(a_row("a/web", "cpu=100m", uid="third"))
    assert cpu(books) == (0, 0)


# ------------------------------------------------------------------ answers


def test_a_refused_pod_rests_longer_each_time(books):
    row, rest_s, now_s = flown(books), BACKOFF_SECONDS, NOW_S
    for _ in range(9):
        books.settle(row, ReleaseOutcome.REFUSED, "no")
        assert cpu(books) == (0, 0)
        [aside] = books.blocked()
        assert aside.refusals[0].message().endswith("could not be lifted: no")
        books.advance(now_s + rest_s - 1)
        assert releases(books) == []
        now_s += rest_s
        books.advance(now_s)
        assert releases(books) == [row]
        rest_s = min(rest_s * 2, BACKOFF_SECONDS_MAX)
    assert rest_s == BACKOFF_SECONDS_MAX


def test_a_resting_pod_that_changes_goes_on_resting(books):
    row = flown(books)
    books.settle(row, ReleaseOutcome.REFUSED, "no")
    assert waits(books) == {"web": Reason.RELEASE_REFUSED}

    books.see_pod(changed(row))
    assert waits(books) == {}
    books.advance(NOW_S + 1)
    books.recount_pod(changed(row))
    assert releases(books) == []
    books.advance(NOW_S + BACKOFF_SECONDS)

    assert releases(books) == [changed(row)]


def test_the_room_of_a_pod_that_is_said_to_be_gone_is_free_when_the_watch_shows_it(books):
    row = flown(books)

    books.settle(row, ReleaseOutcome.GONE)

    assert (cpu(books), books.pending_release_count) == ((0, 600), 1)
    books.settle(row, ReleaseOutcome.REFUSED)
    assert not list(books.blocked())
    books.lose_pod("a", "web", row.stamp.uid)
    assert (cpu(books), books.pending_release_count) == ((0, 0), 0)


def test_a_lifted_gate_that_the_watch_never_shows_is_lifted_again(books):
    """etcd was restored to a state in which the pod has the gate, with the same version."""
    row = flown(books)
    books.settle(row, ReleaseOutcome.LIFTED)
    books.advance(NOW_S + RETRY_SECONDS - 1)
    assert releases(books) == []
    books.advance(NOW_S + RETRY_SECONDS)
    assert releases(books) == [row]

    books.settle(row, ReleaseOutcome.LIFTED)
    books.see_pod(running(row))

    assert (cpu(books), books.next_due_s) == ((600, 0), None)


def test_a_lifted_gate_that_is_back_in_another_state_is_decided_anew(books):
    row = flown(books)
    books.settle(row, ReleaseOutcome.LIFTED)
    restored = changed(row)
    books.see_pod(restored)
    assert cpu(books) == (0, 600)
    books.advance(NOW_S + RETRY_SECONDS)
    assert releases(books) == [row]

    books.settle(row, ReleaseOutcome.CHANGED)

    assert releases(books) == [restored]
    assert cpu(books) == (0, 600)


def test_a_timer_that_was_set_before_neither_hastens_nor_ends_a_retry(books):
    """The pod was refused before, and its back-off has a timer of its own."""
    row = flown(books)
    books.settle(row, ReleaseOutcome.REFUSED)
    released = a_row("a/web", "cpu=600m", uid="u2")
    books.see_pod(running(row))
    books.lose_pod("a", "web")
    books.see_pod(released)
    assert releases(books) == [released]
    books.settle(released, ReleaseOutcome.LIFTED)

    books.advance(NOW_S + BACKOFF_SECONDS)
    assert releases(books) == []
    books.advance(NOW_S + RETRY_SECONDS)
    assert releases(books) == [released]


def test_a_pod_that_was_said_to_be_gone_and_is_there_is_released(books):
    """Something between the controller and the API server may have given the answer."""
    row = flown(books)
    books.settle(row, ReleaseOutcome.GONE)
    other = a_row("a/other", "cpu=600m")
    books.see_pod(other)
    assert releases(books) == []

    books.advance(NOW_S + RETRY_SECONDS)
    assert releases(books) == [row]
    books.settle(row, ReleaseOutcome.LIFTED)
    books.see_pod(running(row))

    assert (cpu(books), releases(books)) == ((600, 0), [])


def test_a_patch_without_an_answer_keeps_the_room_and_is_repeated_ever_more_rarely(books):
    row, now_s, pauses = flown(books), NOW_S, []
    for _ in range(8):
        books.settle(row, ReleaseOutcome.UNANSWERED, "a webhook is down")
        assert (cpu(books), waits(books)) == ((0, 600), {"web": Reason.RELEASE_REFUSED})
        pauses.append(0)
        while not releases(books):
            now_s, pauses[-1] = now_s + 1, pauses[-1] + 1
            books.advance(now_s)

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (UNANSWERED_SECONDS, RETRY_SECONDS)
    books.see_pod(running(row))
    assert (cpu(books), books.pending_release_count) == ((600, 0), 0)


def test_a_clear_answer_lets_the_next_missing_one_be_repeated_soon(books):
    row = flown(books)
    for _ in range(3):
        books.settle(row, ReleaseOutcome.UNANSWERED)
    books.settle(row, ReleaseOutcome.CHANGED)
    assert books.next_due_s == NOW_S + UNANSWERED_SECONDS
    books.advance(NOW_S + UNANSWERED_SECONDS)

    books.settle(row, ReleaseOutcome.UNANSWERED)

    assert books.next_due_s == NOW_S + 2 * UNANSWERED_SECONDS


def test_an_unclear_answer_keeps_the_room_and_is_asked_again(books):
    row = flown(books)
    books.settle(row, ReleaseOutcome.CHANGED)
    books.see_pod(row)
    assert (cpu(books), releases(books)) == ((0, 600), [])

    books.advance(NOW_S + RETRY_SECONDS)

    assert releases(books) == [row]
    assert cpu(books) == (0, 600)
    assert books.next_due_s == NOW_S + 2 * RETRY_SECONDS


def test_a_refusal_after_an_unclear_answer_frees_nothing(books):
    """The earlier try may have come through."""
    row = flown(books)
    books.settle(row, ReleaseOutcome.CHANGED)
    books.advance(NOW_S + RETRY_SECONDS)
    assert releases(books) == [row]

    books.settle(row, ReleaseOutcome.REFUSED, "no")

    assert (cpu(books), books.pending_release_count) == ((0, 600), 1)
    books.see_pod(running(row))
    assert (cpu(books), books.pending_release_count) == ((600, 0), 0)


@pytest.mark.parametrize("is_seen_first", [True, False])
def test_a_pod_that_has_changed_is_judged_anew(books, is_seen_first):
    row = flown(books)
    later = changed(row)
    if is_seen_first:
        books.see_pod(later)
        assert cpu(books) == (0, 600)
        books.settle(row, ReleaseOutcome.CHANGED)
    else:
        books.settle(row, ReleaseOutcome.CHANGED)
        books.see_pod(later)

    assert cpu(books) == (0, 0)
    assert releases(books) == [later]


def test_an_alarm_for_what_has_passed_rings_for_nobody(books):
    row = a_row("a/web", "cpu=800m", created_s=NOW_S)
    books.see_pod(a_row("a/other", "cpu=700m", gates=UNGATED))
    books.see_pod(row)
    assert releases(books) == []
    books.lose_pod("a", "other")
    assert releases(books) == [row]
    books.settle(row, ReleaseOutcome.CHANGED)
    books.see_pod(running(row))

    books.advance(NOW_S + 2 * PATIENCE_SECONDS)

    assert (releases(books), books.next_due_s) == ([], None)


def test_an_answer_that_comes_too_late_changes_nothing(books):
    row = flown(books)
    books.settle(row, ReleaseOutcome.CHANGED)
    books.see_pod(changed(row))
    assert releases(books) == [changed(row)]

    books.settle(row, ReleaseOutcome.GONE)

    assert (cpu(books), books.pending_release_count) == ((0, 600), 1)


# ------------------------------------------------------------------ what comes first


def test_a_pod_whose_namespace_is_not_known_is_put_aside(books):
    books.see_quota(a_quota("b/q", "cpu=1"))
    books.see_pod(a_row("b/web", "cpu=2"))
    books.see_pod(a_row("b/db", "cpu=300m", gates=UNGATED))
    assert waits(books) == {"web": Reason.NAMESPACE_UNKNOWN}

    books.see_namespace(a_namespace("b"))

    assert not list(books.blocked())
    assert waits(books) == {"web": Reason.QUOTA_TOO_SMALL}
    assert cpu(books, "b/q") == (300, 0)
    books.lose_namespace("b")
    assert waits(books) == {"web": Reason.NAMESPACE_UNKNOWN}
    assert cpu(books, "b/q") == (0, 0)
    books.lose_namespace("b")


def test_what_could_go_uncounted_waits_again_when_its_namespace_is_gone(books, unready):
    unready.add("web")
    books.see_namespace(a_namespace("a", is_targeted=False))
    books.see_pod(a_row("a/web", "cpu=600m"))

    books.lose_namespace("a")

    decisions = books.decide()
    assert decisions.releases == []
    assert [wait.refusals[0].reason for wait in decisions.waits] == [Reason.NAMESPACE_UNKNOWN]


# ------------------------------------------------------------------ quotas that change


def test_a_quota_seen_twice_is_seen_once(books):
    books.ledger.touched.clear()
    books.see_quota(a_quota("a/q", "cpu=1"))
    assert not books.ledger.touched

    books.see_quota(a_quota("a/q", "cpu=2"))

    assert books.ledger.touched == {a_key("a/q")}


def test_a_raised_limit_lets_pods_go(books):
    row = a_row("a/web", "cpu=1500m")
    books.see_pod(row)
    assert waits(books) == {"web": Reason.QUOTA_TOO_SMALL}

    books.see_quota(a_quota("a/q", "cpu=2"))

    assert releases(books) == [row]


def test_a_new_quota_counts_what_runs_and_what_is_being_released(books):
    row = flown(books)
    books.see_pod(a_row("a/other", "cpu=200m", gates=UNGATED))

    books.see_quota(a_quota("wide", "cpu=4"))

    assert cpu(books, "wide") == (200, 600)
    books.see_pod(running(row))
    assert cpu(books, "wide") == (800, 0)
    books.lose_quota(a_key("wide"))
    assert (cpu(books), books.coverage.quota(a_key("wide"))) == ((800, 0), None)


def test_a_quota_is_to_be_reported_when_a_namespace_leaves_it(books):
    books.see_quota(a_quota("wide", "cpu=4"))
    books.see_quota(a_quota("red", "cpu=4", selector="team=red"))
    books.ledger.touched.clear()

    books.see_namespace(a_namespace("a", "team=red"))
    assert a_key("red") in books.ledger.touched
    books.ledger.touched.clear()
    books.see_namespace(a_namespace("a"))

    assert a_key("red") in books.ledger.touched


def test_nothing_is_due_in_empty_books():
    assert Books(NativeCounter().count).next_due_s is None
