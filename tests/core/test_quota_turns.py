"""Namespaces that share a quota take turns: none of them keeps the others waiting for ever."""

import pytest

from bursar.core.quota.quota import GATE
from bursar.core.quota.refusal import explanation
from bursar.core.quota.releases import ReleaseOutcome
from bursar.core.quota.waiting_pods.turns import HOLD_SECONDS, REST_FACTOR, Turns
from support.builders.quota_books import (
    GATED,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    changed,
    with_facts,
)
from support.builders.shared_quota import (
    NOW_S,
    PATIENCE_S,
    holding,
    released,
    run,
    shared_books,
    wait,
)

# ------------------------------------------------------------------ what holds up others


def test_a_pod_that_its_own_namespace_keeps_from_fitting_holds_up_nobody_else():
    books = shared_books()
    run(books, "mallory/tiny", "1m")
    wait(books, "mallory/plug", "100", created_s=NOW_S - 5_000)
    books.decide()
    books.advance(NOW_S + PATIENCE_S + 1)
    wait(books, "alice/web", "1")
    wait(books, "mallory/small", "1")

    assert released(books) == ["web"]
    assert holding(books) is None


def test_it_holds_up_others_as_soon_as_only_they_keep_it_from_fitting():
    books = shared_books()
    run(books, "mallory/tiny", "1m")
    run(books, "bob/web", "1")
    wait(books, "mallory/plug", "100")
    books.decide()
    books.advance(NOW_S + PATIENCE_S)
    books.decide()
    assert holding(books) is None

    books.lose_pod("mallory", "tiny")
    wait(books, "alice/web", "1")

    assert (released(books), holding(books)) == ([], "mallory")


def test_a_pod_that_waits_for_a_quota_of_its_own_namespace_holds_up_nobody_else():
    books = shared_books()
    books.see_quota(a_quota("mallory/own", "cpu=50"))
    run(books, "mallory/tiny", "1m")
    run(books, "bob/web", "60")
    wait(books, "mallory/plug", "50")
    books.decide()
    books.advance(NOW_S + PATIENCE_S)
    wait(books, "alice/web", "1")

    assert (released(books), holding(books)) == (["web"], None)


def test_a_pod_keeps_those_of_its_own_namespace_from_passing_for_as_long_as_it_waits():
    books = shared_books()
    run(books, "bob/web", "60")
    wait(books, "alice/large", "50")
    books.decide()
    now_s = NOW_S + PATIENCE_S
    books.advance(now_s)
    wait(books, "alice/small", "1")
    assert released(books) == []

    for _ in range(20):
        now_s += HOLD_SECONDS
        books.advance(now_s)
        assert released(books) == []


# ------------------------------------------------------------------ age


def test_age_saved_up_behind_another_gate_does_not_count():
    books = shared_books()
    run(books, "bob/web", "1")
    row = wait(books, "mallory/plug", "100", created_s=0, gates=("own", GATE))
    books.decide()
    books.see_pod(changed(row, profile=with_facts(row.profile, gates=GATED)))
    wait(books, "alice/web", "1")

    assert (released(books), holding(books)) == (["web"], None)
    books.advance(NOW_S + PATIENCE_S)
    books.decide()
    assert holding(books) == "mallory"


def test_a_pod_is_as_old_as_the_time_since_its_last_other_gate_went():
    books = shared_books("cpu=1", order="fifo")
    late = wait(books, "alice/late", "1", created_s=0, gates=("own", GATE))
    wait(books, "alice/early", "1", created_s=NOW_S - 1)
    books.see_namespace(a_namespace("alice", is_targeted=False))
    books.see_namespace(a_namespace("alice"))

    books.see_pod(changed(late, profile=with_facts(late.profile, gates=GATED)))

    assert released(books) == ["early"]
    assert books.ages.age_s(late) == NOW_S
    books.lose_pod("alice", "late")
    assert books.ages.age_s(late) == 0


def test_after_a_restart_patience_counts_from_the_restart():
    """The books of the next leader know when pods were created, and not since when they wait."""
    books = shared_books()
    run(books, "bob/web", "1")
    wait(books, "mallory/plug", "100", created_s=0)
    books.decide()

    assert books.next_due_s == NOW_S + PATIENCE_S
    assert holding(books) is None


def test_a_pod_whose_release_was_refused_keeps_its_age():
    books = shared_books()
    row = wait(books, "alice/web", "1")
    books.decide()
    books.advance(NOW_S + 100)

    books.settle(row, ReleaseOutcome.REFUSED, "no")
    books.advance(NOW_S + 200)

    assert books.ages.waiting_since_s(row) == NOW_S
    assert released(books) == ["web"]


def test_another_pod_under_the_same_name_has_an_age_of_its_own():
    books = shared_books("cpu=0")
    wait(books, "alice/web", "1")
    books.advance(NOW_S + 100)
    heir = wait(books, "alice/web", "1", uid="heir", created_s=NOW_S + 50)

    assert books.ages.waiting_since_s(heir) == NOW_S + 100


# ------------------------------------------------------------------ a turn to hold


def held_books():
    """Books in which mallory begins to hold the quota, and the time."""
    books = shared_books(order="backfill")
    run(books, "bob/web", "1")
    wait(books, "mallory/plug", "100")
    books.decide()
    books.advance(NOW_S + PATIENCE_S)
    wait(books, "alice/web", "1", created_s=NOW_S + 1)
    assert (released(books), holding(books)) == ([], "mallory")
    return books, NOW_S + PATIENCE_S


@pytest.mark.parametrize("seconds", [HOLD_SECONDS, 7 * 86_400])
def test_a_quota_is_held_for_a_bounded_time(seconds):
    books, began_s = held_books()
    books.advance(began_s + HOLD_SECONDS - 1)
    assert released(books) == []
    assert books.next_due_s == began_s + HOLD_SECONDS

    books.advance(began_s + seconds)

    assert (released(books), holding(books)) == (["web"], None)


def test_after_that_it_rests_for_longer_than_it_was_held():
    books, began_s = held_books()
    ended_s = began_s + HOLD_SECONDS
    books.advance(ended_s)
    assert released(books) == ["web"]
    books.advance(ended_s + REST_FACTOR * HOLD_SECONDS - 1)
    wait(books, "alice/more", "1")
    assert released(books) == ["more"]

    books.advance(ended_s + REST_FACTOR * HOLD_SECONDS)
    wait(books, "alice/last", "1")

    assert (released(books), holding(books)) == ([], "mallory")


def test_strict_order_holds_up_other_namespaces_no_longer_than_that():
    books = shared_books(order="strict")
    run(books, "bob/web", "1")
    wait(books, "mallory/plug", "100", created_s=0)
    wait(books, "alice/web", "1")
    assert (released(books), holding(books)) == ([], "mallory")

    books.advance(NOW_S + HOLD_SECONDS)

    assert released(books) == ["web"]


def test_a_turn_ends_when_its_pod_leaves():
    books, began_s = held_books()
    books.advance(began_s + 100)

    books.lose_pod("mallory", "plug")

    assert released(books) == ["web"]
    assert books.next_due_s == began_s + 100 + REST_FACTOR * 100


def test_a_turn_that_took_no_time_needs_no_rest():
    books, _ = held_books()
    books.lose_pod("mallory", "plug")
    wait(books, "alice/large", "100")

    assert released(books) == ["web"]
    assert list(books.waiting.turns.due()) == []


def test_room_that_becomes_free_goes_to_the_holder():
    books, _ = held_books()
    books.lose_pod("bob", "web")

    assert (released(books), holding(books)) == (["plug"], None)
    books.lose_pod("mallory", "plug")
    assert released(books) == ["web"]


def test_one_namespace_holds_at_a_time_and_the_others_are_next():
    books = shared_books(namespaces=("mallory", "alice", "bob", "carol"))
    run(books, "carol/web", "1")
    for name in ("mallory/plug", "mallory/plug2", "alice/large", "bob/large"):
        wait(books, name, "100")
    turns, now_s = [], NOW_S + PATIENCE_S
    for _ in range(6):
        books.advance(now_s)
        books.decide()
        turns.append(holding(books))
        now_s += HOLD_SECONDS
        books.advance(now_s)
        books.decide()
        assert holding(books) is None
        now_s += REST_FACTOR * HOLD_SECONDS

    assert turns[:3] == turns[3:]
    assert set(turns) == {"mallory", "alice", "bob"}


@pytest.mark.parametrize("order", ["strict", "fifo", "backfill"])
def test_nothing_that_a_tenant_is_told_names_others(order):
    books = shared_books(order=order)
    run(books, "bob/secret-pod", "1")
    wait(books, "mallory/secret-plug", "100")
    books.decide()
    books.advance(NOW_S + PATIENCE_S // 2)
    books.advance(NOW_S + PATIENCE_S)
    books.decide()
    wait(books, "alice/small", "1")
    wait(books, "alice/large", "100", created_s=NOW_S + 1)

    told = {each.row.name: explanation(each.refusals) for each in books.decide().waits}

    assert all(name not in text for text in told.values() for name in ("secret", "mallory", "bob"))
    if order == "backfill":
        assert told["small"] == "waiting for quota wide behind a pod of another namespace"
    assert told["large"].startswith("exceeded quota: wide, requested: cpu=100, used: cpu=")


def test_a_tenant_is_told_which_of_its_own_pods_is_ahead():
    books = shared_books(order="strict")
    run(books, "bob/web", "1")
    wait(books, "alice/large", "100", created_s=0)
    wait(books, "alice/small", "1")

    told = {each.row.name: explanation(each.refusals) for each in books.decide().waits}

    assert told["small"] == "waiting for quota wide behind alice/large"


# ------------------------------------------------------------------ the turn to release


def test_priority_orders_within_a_namespace_and_not_between_namespaces():
    books = shared_books("pods=0")
    for number in range(3):
        wait(books, f"mallory/m{number}", "1", priority=1_000 - number)
        wait(books, f"alice/a{number}", "1", priority=number, created_s=NOW_S + number)
    books.decide()
    books.see_quota(a_quota("wide", "pods=6"))

    assert released(books) == ["m0", "a2", "m1", "a1", "m2", "a0"]


def test_priority_orders_pods_of_a_namespace_of_which_only_some_share_a_quota():
    books = shared_books("memory=1Gi")
    books.see_quota(a_quota("alice/own", "pods=0"))
    books.see_pod(a_row("alice/first", "memory=1", priority=9, created_s=NOW_S))
    books.see_pod(a_row("bob/other", "memory=1", created_s=NOW_S))
    wait(books, "alice/second", "1", priority=5)
    assert released(books) == ["other"]
    books.see_pod(a_row("bob/other2", "memory=1", created_s=NOW_S))
    books.see_quota(a_quota("alice/own", "pods=1"))

    assert released(books) == ["first", "other2"]


def test_age_does_not_let_a_namespace_pass_the_others_either():
    books = shared_books("pods=6")
    for number in range(4):
        wait(books, f"mallory/m{number}", "1", created_s=number)
    for number in range(2):
        wait(books, f"alice/a{number}", "1")

    assert released(books) == ["m0", "a0", "m1", "a1", "m2", "m3"]


def test_a_namespace_that_was_idle_has_saved_up_one_turn_only():
    books = shared_books("pods=100")
    for number in range(5):
        wait(books, f"alice/a{number}", "1")
        assert released(books) == [f"a{number}"]
    for number in range(3):
        wait(books, f"mallory/m{number}", "1")
        wait(books, f"alice/late{number}", "1")

    assert released(books) == ["m0", "late0", "m1", "late1", "m2", "late2"]


def test_an_own_fifo_quota_changes_nothing_in_a_shared_one():
    books = shared_books("pods=5")
    books.see_quota(a_quota("mallory/own", "pods=100", order="fifo"))
    for number in range(3):
        wait(books, f"mallory/m{number}", "1", created_s=number)
    for number in range(2):
        wait(books, f"alice/a{number}", "1", priority=9)

    assert released(books) == ["a0", "m0", "a1", "m1", "m2"]


def test_a_release_under_another_quota_costs_no_turn():
    books = shared_books("pods=100")
    books.see_quota(a_quota("other", "memory=1Gi"))
    wait(books, "alice/first", "1")
    wait(books, "mallory/first", "1")
    assert released(books) == ["first", "first"]
    books.see_quota(a_quota("wide", "pods=0"))
    for name in ("alice", "mallory"):
        books.see_pod(a_row(f"{name}/next", "memory=1", created_s=NOW_S))
    books.decide()

    books.see_quota(a_quota("wide", "pods=3"))

    assert [release.row.namespace for release in books.decide().releases] == ["alice"]


def test_quotas_and_namespaces_that_are_gone_are_forgotten():
    turns, wide, other = Turns(), a_key("wide"), a_key("other")
    for key in (wide, other):
        turns.note_release("a", frozenset({key}))
        turns.begin(key, "a")
        turns.now_s += 1
        turns.end(key)
    assert turns.release_number("a", frozenset({wide, other})) == 1
    assert turns.last_hold(other, "a") > 0

    turns.forget_namespace("a")
    turns.forget_quota(wide)

    assert turns.release_number("a", frozenset({wide, other})) == 0
    assert (turns.last_hold(wide, "a"), turns.last_hold(other, "a")) == (0, 0)
    assert len(list(turns.due())) == 1
    assert turns.release_number("a", frozenset()) == 0
