"""The limits of the quotas of one namespace are bounded: beyond the bound its pods wait."""

import pytest

from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import OWN_LIMITS_MAX, TOO_MANY_LIMITS
from bursar.core.quota.refusal import Reason
from support.builders.quota_books import NOW_S, a_key, a_namespace, a_quota, a_row, releases


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


def test_quotas_without_limits_of_pods_count_as_one_each(books):
    for number in range(OWN_LIMITS_MAX + 1):
        books.see_quota(a_quota(f"a/q{number:03}", "services=1"))

    assert problem_of(books, f"q{OWN_LIMITS_MAX - 1:03}") == ""
    assert problem_of(books, f"q{OWN_LIMITS_MAX:03}") == TOO_MANY_LIMITS


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
