"""Pods that wait for a pool, and refused pods that the scheduler does not try again by itself."""

import pytest

from support.extender.pools import a_pool, a_share, books_of, bound, ended, licensed


def test_pods_that_wait_are_those_that_hold_nothing():
    books = books_of(a_pool(capacity=2, shares=(a_share("all", "", 9),)))
    books.see_pod(bound(licensed("a/bound")))
    books.see_pod(licensed("a/waits", 2))
    books.see_pod(licensed("a/gated", gates=("g",)))
    books.see_pod(ended(licensed("a/ended")))
    held = licensed("a/held")
    books.see_pod(held)
    books.filter(held, 0)

    found = {name: [row.name for row, _ in rows] for name, rows in books.waiting_pods().items()}
    assert found == {"pool": ["waits"]}
    assert [(row.name, nanos) for row, nanos in books.bound_pods()["pool"]] == [("bound", 10**9)]


def test_a_refused_pod_that_would_fit_is_overlooked_once():
    books = books_of(a_pool(capacity=1))
    first, second, third = (licensed(f"a/{name}") for name in "xyz")
    for pod in (first, second, third):
        books.see_pod(pod)
    books.filter(first, 0)
    books.filter(second, 0)
    books.filter(third, 0)
    books.filter(licensed("a/unseen"), 0)
    assert books.take_overlooked(9) == []

    books.see_pool(a_pool(capacity=9, generation=2))

    assert [row.name for row in books.take_overlooked(1)] == ["y"]
    assert [row.name for row in books.take_overlooked(9)] == ["z"]
    assert books.take_overlooked(9) == []


def test_each_look_for_overlooked_pods_takes_the_next_ones():
    """However many refused pods there are, a look costs a bounded time."""
    books = books_of(a_pool(capacity=3))
    books.see_pod(bound(licensed("b/other", 3)))
    pods = [licensed(f"a/{name}", size) for name, size in (("big", 9), ("small", 1), ("last", 1))]
    for pod in pods:
        books.see_pod(pod)
        books.filter(pod, 0)
    books.lose_pod(bound(licensed("b/other", 3)))

    looks = [[row.name for row in books.take_overlooked(1)] for _ in range(4)]

    assert looks == [[], ["small"], ["last"], []]


@pytest.mark.parametrize("step", ["filter", "bind", "end", "delete"])
def test_a_pod_that_is_served_or_gone_is_not_overlooked(step):
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    books.see_pod(pod)
    books.see_pod(bound(licensed("b/other")))
    books.filter(pod, 0)
    books.lose_pod(bound(licensed("b/other")))
    {
        "filter": lambda: books.filter(pod, 1),
        "bind": lambda: books.see_pod(bound(pod)),
        "end": lambda: books.see_pod(ended(pod)),
        "delete": lambda: books.lose_pod(pod),
    }[step]()

    assert books.take_overlooked(9) == []
