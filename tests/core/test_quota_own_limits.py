"""The limits of the quotas of one namespace are bounded: beyond the bound its pods wait."""

from dataclasses import replace
from random import Random

import pytest

from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import OTHERS_PER_LIMIT, OWN_LIMITS_MAX, TOO_MANY_LIMITS
from bursar.core.quota.refusal import Reason
from support.builders.quota_books import (
    NOW_S,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    releases,
    running,
)


@pytest.fixture
def books():
    books = Books(NativeCounter().count)
    books.advance(NOW_S)
    for name in "ab":
        books.see_namespace(a_namespace(name))
    return books


def limits(number, of="example.com/r"):
    return " ".join(f"requests.{of}{each}=1" for each in range(number))


def problem_of(books, name):
    return books.coverage.quota(a_key(f"a/{name}")).quota.problem


def test_as_many_limits_as_the_bound_are_entered(books):
    books.see_quota(a_quota("a/one", limits(OWN_LIMITS_MAX - 1)))
    books.see_quota(a_quota("a/two", "pods=1"))
    row = a_row("a/web")
    books.see_pod(row)

    assert releases(books) == [row]


def test_with_more_limits_the_pods_of_the_namespace_wait_and_are_told_why(books):
    books.see_quota(a_quota("a/one", limits(OWN_LIMITS_MAX)))
    books.see_quota(a_quota("a/two", "pods=1"))
    mine, theirs = a_row("a/web"), a_row("b/web")
    books.see_pod(mine)
    books.see_pod(theirs)
    decisions = books.decide()
    assert [each.row for each in decisions.releases] == [theirs]
    [wait] = decisions.waits
    [refusal] = wait.refusals
    assert refusal.reason is Reason.QUOTA_UNREADABLE
    assert refusal.message().endswith(f"ApplicationAwareResourceQuota a/two: {TOO_MANY_LIMITS}")

    books.lose_quota(a_key("a/one"))
    assert problem_of(books, "two") == ""
    assert releases(books) == [mine]


def test_a_quota_with_fewer_limits_makes_room_for_the_one_that_waited_longest(books):
    books.see_quota(a_quota("a/large", limits(OWN_LIMITS_MAX - 1)))
    books.see_quota(a_quota("a/one", "pods=1 cpu=1"))
    books.see_quota(a_quota("a/two", "pods=1"))
    books.see_quota(a_quota("a/three", "pods=1"))
    assert [problem_of(books, name) for name in ("one", "two", "three")] == [
        TOO_MANY_LIMITS,
        "",
        TOO_MANY_LIMITS,
    ]

    books.see_quota(a_quota("a/large", limits(OWN_LIMITS_MAX - 3)))
    assert [problem_of(books, name) for name in ("one", "two", "three")] == [
        "",
        "",
        TOO_MANY_LIMITS,
    ]
    books.see_quota(a_quota("a/one", "cpu=1"))
    assert problem_of(books, "three") == ""


def test_a_quota_that_grows_beyond_the_bound_holds_its_pods(books):
    books.see_quota(a_quota("a/q", "pods=1"))
    books.see_quota(a_quota("a/q", limits(OWN_LIMITS_MAX + 1)))
    books.see_pod(a_row("a/web"))
    assert releases(books) == []

    books.lose_quota(a_key("a/q"))
    assert [row.name for row in releases(books)] == ["web"]


def test_a_quota_that_cannot_be_read_holds_pods_after_it_was_beyond_the_bound(books):
    books.see_quota(a_quota("a/many", limits(OWN_LIMITS_MAX)))
    books.see_quota(replace(a_quota("a/broken", ""), problem="spec.hard[pods]: no"))
    assert problem_of(books, "broken") == f"{TOO_MANY_LIMITS}; spec.hard[pods]: no"
    books.lose_quota(a_key("a/many"))
    row = a_row("a/web")
    books.see_pod(row)
    assert problem_of(books, "broken") == "spec.hard[pods]: no"
    assert releases(books) == []

    books.lose_quota(a_key("a/broken"))
    assert releases(books) == [row]


def test_however_many_quotas_are_beyond_the_bound_each_pod_is_compared_with_few(books):
    books.see_quota(a_quota("wide", "pods=9"))
    for number in range(3 * OWN_LIMITS_MAX):
        books.see_quota(a_quota(f"a/q{number:03}", "pods=1", scopes="Terminating"))

    assert len(books.coverage.covering("a")) == OWN_LIMITS_MAX + 1
    assert problem_of(books, f"q{3 * OWN_LIMITS_MAX - 1:03}") == TOO_MANY_LIMITS


def test_all_pods_wait_for_a_quota_beyond_the_bound_whatever_its_scopes(books):
    books.see_quota(a_quota("a/one", limits(OWN_LIMITS_MAX), scopes="Terminating"))
    books.see_quota(a_quota("a/two", "pods=1", scopes="Terminating"))
    books.see_quota(a_quota("a/three", "pods=1", scopes="Terminating"))
    row = a_row("a/web")
    books.see_pod(row)
    assert releases(books) == []

    books.lose_quota(a_key("a/two"))
    assert releases(books) == []
    [wait] = books.blocked()
    assert wait.refusals[0].quota == a_key("a/three")

    books.lose_quota(a_key("a/three"))
    assert releases(books) == [row]


@pytest.mark.parametrize("seed", range(20))
def test_pods_wait_exactly_while_a_quota_is_beyond_the_bound(books, seed):
    """Quotas grow, shrink, come and go, and so does their namespace."""
    random, stored = Random(seed), set()  # noqa: S311 - chooses what changes
    for step in range(60):
        name = f"a/q{random.randrange(6)}"
        if random.random() < 0.3:
            books.lose_quota(a_key(name))
            stored.discard(name)
        elif random.random() < 0.1:
            books.lose_namespace("a")
            books.see_namespace(a_namespace("a"))
        else:
            size, scopes = random.choice((1, 60, 200)), random.choice(("", "Terminating"))
            books.see_quota(a_quota(name, limits(size, of=f"{name}."), scopes=scopes))
            stored.add(name)
        row = a_row(f"a/p{step}")
        books.see_pod(row)
        released = releases(books)
        books.see_pod(running(row))

        left_out = [each for each in stored if problem_of(books, each[2:]) == TOO_MANY_LIMITS]
        assert (row in released) is not bool(left_out)
        entered = {str(each.quota.key) for each in books.coverage.covering("a")}
        assert entered == {str(a_key(each)) for each in stored.difference(left_out)}
        assert {each.quota.key for each in books.coverage.quotas()} == set(map(a_key, stored))


def test_quotas_without_limits_of_pods_count_as_one_each(books):
    for number in range(OWN_LIMITS_MAX + 1):
        books.see_quota(a_quota(f"a/q{number:03}", "services=1"))

    assert problem_of(books, f"q{OWN_LIMITS_MAX - 1:03}") == ""
    assert problem_of(books, f"q{OWN_LIMITS_MAX:03}") == TOO_MANY_LIMITS


def test_limits_that_kubernetes_enforces_count_less(books):
    """Each write of a status judges and lists all of them."""
    many = OTHERS_PER_LIMIT * (OWN_LIMITS_MAX - 1)
    books.see_quota(a_quota("a/one", others(many) + " pods=1"))
    assert problem_of(books, "one") == ""

    books.see_quota(a_quota("a/one", others(many + OTHERS_PER_LIMIT) + " pods=1"))
    assert problem_of(books, "one") == TOO_MANY_LIMITS


def others(number):
    return " ".join(f"count/r{each}.example.com=1" for each in range(number))


def test_cluster_wide_quotas_are_not_bounded(books):
    books.see_quota(a_quota("wide", limits(OWN_LIMITS_MAX + 1)))
    row = a_row("a/web")
    books.see_pod(row)

    assert releases(books) == [row]


def test_nothing_is_remembered_of_quotas_that_are_gone(books):
    for name in ("one", "two"):
        books.see_quota(a_quota(f"a/{name}", limits(OWN_LIMITS_MAX)))
    for name in ("one", "two", "never-seen"):
        books.lose_quota(a_key(f"a/{name}"))
    books.lose_quota(a_key("b/never-seen"))

    assert books.coverage.own_limits._namespaces == {}
