"""Changes of the quotas of one namespace hold up the pods of this namespace, and no others."""

from random import Random

import pytest

from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.waiting_pods.steps import STEPS_AT_ONCE, TURN_STEPS
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
from support.seeds import one_quick

MANY = 2 * STEPS_AT_ONCE
SLICE = 100
OWN_LIMITS = ("cpu=6", "cpu=6 pods=4", "pods=3", "cpu=9 memory=1")


def books_with(*quotas):
    books = Books(NativeCounter().count)
    books.advance(NOW_S)
    for name in "ab":
        books.see_namespace(a_namespace(name))
    for quota in quotas:
        books.see_quota(quota)
    return books


def change_quota(books, number):
    """A change that has all pods of the namespace billed again."""
    books.see_quota(a_quota("a/q", "cpu=0 pods=0" if number % 2 else "cpu=0"))


def released_in_slices(books, number_of_slices):
    """Who is released if the quota of namespace a changes again before each slice."""
    released = []
    for number in range(number_of_slices):
        change_quota(books, number)
        released += [each.row.name for each in books.decide(SLICE).releases]
    return released


def test_a_quota_that_changes_all_the_time_holds_up_no_other_namespace():
    books = books_with(a_quota("wide", f"cpu={MANY}"), a_quota("b/q", "cpu=1"))
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number}", f"cpu={number + 1}m"))
    books.see_pod(a_row("b/victim", "cpu=1"))

    assert released_in_slices(books, 3) == ["victim"]


def test_running_pods_that_are_billed_all_the_time_hold_up_no_other_namespace():
    books = books_with(a_quota("wide", f"cpu={MANY + 1}"))
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number}", "cpu=1", gates=UNGATED))
    for name in ("first", "second"):
        books.see_pod(a_row(f"b/{name}", "cpu=1", created_s=len(name)))

    assert released_in_slices(books, 6) == ["first"]
    assert cpu(books, "wide") == (MANY * 1_000, 1_000)


def test_many_limits_that_are_freed_all_the_time_hold_up_no_other_namespace():
    limits = [a_quota(f"a/q{number}", "cpu=1") for number in range(2 * SLICE)]
    books = books_with(a_quota("b/q", "cpu=1"), *limits)
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number}", "cpu=1", gates=UNGATED))
    books.see_pod(a_row("a/waits", "cpu=1"))
    books.decide()
    books.see_pod(a_row("b/victim", "cpu=1"))

    assert released_in_slices(books, 3) == ["victim"]


def test_two_namespaces_take_turns_to_have_their_quotas_entered():
    books = books_with(a_quota("b/q", "cpu=0"))
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number}", f"cpu={number + 1}m"))
        books.see_pod(a_row(f"b/p{number}", f"cpu={number + 1}m", created_s=number))
    books.decide()
    books.see_quota(a_quota("b/q", "cpu=1m pods=9"))

    assert "p0" in released_in_slices(books, 4 * MANY // SLICE)


def test_a_namespace_with_many_pods_holds_up_no_other_whose_quota_changes_as_well():
    books = books_with(a_quota("a/q", "cpu=0"), a_quota("b/q", "cpu=0"))
    for number in range(3 * TURN_STEPS):
        books.see_pod(a_row(f"a/p{number}", "cpu=1", gates=UNGATED))
    books.see_pod(a_row("b/victim", "cpu=1"))
    books.decide()

    change_quota(books, 1)
    books.see_quota(a_quota("b/q", "cpu=1 pods=1"))
    released = []
    for _ in range(3 * TURN_STEPS // SLICE):
        released += [each.row.name for each in books.decide(SLICE).releases]

    assert released == ["victim"]
    assert books.is_catching_up("a")


def test_only_the_namespace_whose_quota_changes_is_behind():
    books = books_with()
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number}", "cpu=1", gates=UNGATED))

    change_quota(books, 0)

    assert [books.is_catching_up(name) for name in "ab"] == [True, False]
    books.see_quota(a_quota("wide", "cpu=1"))
    assert books.is_catching_up("b")
    books.decide()
    assert not books.is_catching_up("a")


def test_pods_go_in_order_when_the_quota_of_their_namespace_is_entered():
    books = books_with(a_quota("a/q", "cpu=0"))
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number:04}", f"cpu={number + 1}m", created_s=MANY - number))
    books.decide()

    books.see_quota(a_quota("a/q", f"cpu={MANY}m memory=1"))
    books.see_pod(a_row("a/new", "cpu=1m", priority=9))
    books.lose_pod("a", f"p{MANY - 1:04}")

    assert [row.name for row in releases(books)] == ["new", f"p{MANY - 2:04}"]


def test_a_deleted_quota_holds_up_its_namespace_alone():
    books = books_with(a_quota("a/q", "cpu=0"))
    for number in range(MANY):
        books.see_pod(a_row(f"a/p{number}", "cpu=1"))
    books.decide()
    books.see_pod(a_row("b/web", "cpu=1"))

    books.lose_quota(a_key("a/q"))

    assert [each.row.name for each in books.decide(SLICE).releases] == ["web"]
    assert len(releases(books)) == MANY


# ------------------------------------------------------------------ any order of events


class World:
    """Two namespaces under a shared quota, whose own quotas change between slices."""

    def __init__(self, seed):
        self.random = Random(seed)  # noqa: S311 - a script, not a secret
        self.books = books_with(a_quota("wide", "cpu=14"))
        self.limits = {}
        self.waiting, self.running = {}, {}
        self.ids = 0
        # Pods that never fit, so that changes are entered in several slices.
        for number in range(STEPS_AT_ONCE + 20):
            for namespace in "ab":
                self.books.see_pod(a_row(f"{namespace}/large{number}", "cpu=15"))
        self.books.decide()

    def step(self):
        match self.random.randrange(5):
            case 0 | 1:
                self.ids += 1
                size = self.random.randint(1, 4)
                row = a_row(f"{self.random.choice('ab')}/p{self.ids}", f"cpu={size}")
                self.waiting[row.name] = (row, size)
                self.books.see_pod(row)
            case 2 if self.running:
                row, _ = self.running.pop(self.random.choice(list(self.running)))
                self.books.lose_pod(row.namespace, row.name)
            case 3:
                namespace, hard = self.random.choice("ab"), self.random.choice(OWN_LIMITS)
                self.limits[namespace] = dict(each.split("=") for each in hard.split())
                self.books.see_quota(a_quota(f"{namespace}/q", hard))
            case 4 if self.limits and self.random.random() < 0.5:
                namespace, _ = self.limits.popitem()
                self.books.lose_quota(a_key(f"{namespace}/q"))
        self.decide(self.random.choice((2, 5, 20)))

    def decide(self, steps):
        decisions = self.books.decide(steps)
        for release in decisions.releases:
            row, size = self.waiting.pop(release.row.name)
            assert self.fits(row.namespace, size), "a quota is overshot"
            self.running[row.name] = (row, size)
            self.books.see_pod(running(row))
        return decisions.is_done

    def fits(self, namespace, size):
        own = [each for row, each in self.running.values() if row.namespace == namespace]
        total = sum(each for _, each in self.running.values())
        limits = self.limits.get(namespace, {})
        return (
            total + size <= 14
            and sum(own) + size <= int(limits.get("cpu", 99))
            and len(own) + 1 <= int(limits.get("pods", 99))
        )


@pytest.mark.parametrize("seed", one_quick(range(20)))
def test_no_quota_is_overshot_and_no_pod_that_fits_is_left(seed):
    world = World(seed)
    for _ in range(300):
        world.step()
    while not world.decide(5):
        pass

    assert len(world.running) > 0
    left = [row.name for row, size in world.waiting.values() if world.fits(row.namespace, size)]
    assert left == []
    assert cpu(world.books, "wide") == (sum(each for _, each in world.running.values()) * 1_000, 0)
