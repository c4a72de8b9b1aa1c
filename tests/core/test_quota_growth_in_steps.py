"""Promises to pods that grow, while the change of a quota is entered in steps."""

import pytest

from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.waiting_pods.steps import OWN_STEPS_AT_ONCE
from support.builders.quota_books import (
    NOW_S,
    UNGATED,
    a_quota,
    a_row,
    cpu,
    open_books,
    with_facts,
)


@pytest.fixture
def web():
    return a_row("a/web", "cpu=300m", gates=UNGATED)


@pytest.fixture
def half_entered(web):
    """A new quota is entered for all pods, and for one of two promises to the pod."""
    books = open_books(NativeCounter().count)
    books.see_pod(web)
    for number in range(OWN_STEPS_AT_ONCE - 2):
        books.see_pod(a_row(f"a/w{number}", gates=UNGATED))
    for size in ("cpu=500m", "cpu=600m"):
        after = web._replace(profile=with_facts(web.profile, requests=size))
        assert books.resize(after, web, until_s=NOW_S + 70) == ()
    books.see_quota(a_quota("a/more", "cpu=2 pods=100"))
    assert books.is_catching_up("a")
    return books


def test_the_promises_to_a_pod_may_end_while_a_quota_is_entered(half_entered, web):
    half_entered.lose_pod("a", "web", web.stamp.uid)

    assert half_entered.decide().is_done
    assert half_entered.ledger.reservation_count == 0


def test_one_of_two_promises_may_end_while_a_quota_is_entered(half_entered):
    half_entered.growth.end(list(half_entered.growth)[1])

    assert half_entered.decide().is_done
    assert half_entered.ledger.reservation_count == 1
    assert cpu(half_entered) == cpu(half_entered, "a/more") == (300, 200)
