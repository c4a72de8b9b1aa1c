"""Counters: pods that cannot be counted yet, and pods whose cost changes."""

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.quota.account import Charge, greater_charge
from bursar.core.quota.counting import NotReady
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import RETRY_SECONDS, ReleaseOutcome
from support.builders.pods import parsed
from support.builders.quota_books import (
    NOW_S,
    UNGATED,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    changed,
    cpu,
    open_books,
    releases,
    running,
    with_facts,
)


def test_a_pod_that_cannot_be_counted_waits_until_it_can(books, unready):
    unready.add("web")
    web = a_row("a/web", "cpu=600m")
    books.see_pod(web)
    books.see_pod(a_row("a/web2", "cpu=900m"))
    books.decide()
    [blocked] = books.blocked()
    assert blocked.refusals[0].message() == "what the pod costs is not known yet: its machine"

    unready.clear()
    books.lose_pod("a", "web2")
    books.recount_pod(web)
    books.recount_pod(a_row("a/nobody"))

    assert [row.name for row in releases(books)] == ["web"]


def test_what_a_waiting_pod_costs_may_change(books, unready):
    books.see_pod(a_row("a/other", "cpu=700m", gates=UNGATED))
    books.see_pod(a_row("a/web", "cpu=600m"))
    books.decide()
    unready.add("web")
    books.recount_pod(a_row("a/web", "cpu=600m"))
    books.lose_pod("a", "other")

    decisions = books.decide()

    assert decisions.releases == []
    assert decisions.waits[0].refusals[0].reason is Reason.NOT_COUNTED


def test_a_running_pod_that_cannot_be_counted_is_charged_for_the_time_being(books, unready):
    unready.add("web")
    books.see_pod(a_row("a/web", "cpu=600m", gates=UNGATED))

    assert cpu(books) == (600, 0)


@pytest.fixture
def prices():
    """Milli-CPUs by name of the pod; a pod without a price cannot be counted."""
    return {}


@pytest.fixture
def priced(prices):
    def count(row):
        if row.name in prices:
            return Charge(parsed(f"cpu={prices[row.name]}m"))
        return NotReady(detail="no price", provisional=Charge(parsed("cpu=999m")))

    return open_books(count)


def test_a_charged_pod_keeps_its_charge_until_it_can_be_counted_again(priced, prices):
    web = a_row("a/web", gates=UNGATED)
    prices["web"] = 300
    priced.see_pod(web)
    del prices["web"]

    priced.see_pod(changed(web))
    priced.recount_pod(changed(web))
    assert cpu(priced) == (300, 0)
    prices["web"] = 200
    priced.recount_pod(changed(web))

    assert cpu(priced) == (200, 0)


def test_a_pod_that_cannot_be_counted_when_its_release_shows_is_charged_what_was_promised(
    priced, prices
):
    prices["web"] = 300
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == [web]
    del prices["web"]

    priced.see_pod(running(web))

    assert cpu(priced) == (300, 0)


def test_a_resize_that_is_stored_is_charged_as_promised_even_if_it_cannot_be_counted_now(
    priced, prices
):
    web = a_row("a/web", "memory=1", gates=UNGATED)
    larger = changed(web, profile=with_facts(web.profile, requests="memory=2"))
    prices["web"] = 300
    priced.see_pod(web)
    prices["web"] = 500
    assert priced.resize(larger, web, until_s=NOW_S + 9) == ()
    del prices["web"]

    priced.see_pod(changed(web))
    assert cpu(priced) == (300, 200)
    priced.see_pod(larger)

    assert cpu(priced) == (500, 0)


@pytest.mark.parametrize(("price", "charged"), [(300, 999), (1_500, 1_500)])
def test_a_resize_without_a_promise_costs_the_greater_charge_until_it_can_be_counted(
    priced, prices, price, charged
):
    """A pod that no quota limits may have more resizes under way than there are promises."""
    web = a_row("a/web", "memory=1", gates=UNGATED)
    other = changed(web, profile=with_facts(web.profile, requests="memory=2"))
    prices["web"] = price
    priced.see_pod(web)
    del prices["web"]

    priced.see_pod(other)
    assert cpu(priced) == (charged, 0)
    priced.see_pod(changed(other))
    assert cpu(priced) == (charged, 0)
    prices["web"] = 200
    priced.recount_pod(changed(other))

    assert cpu(priced) == (200, 0)


def test_the_greater_of_two_charges_has_the_greater_amount_under_each_name():
    greater = greater_charge(Charge(parsed("cpu=1 memory=1Gi")), Charge(parsed("cpu=2 pods=1")))

    assert not greater.is_wide
    assert greater.amounts == Charge(parsed("cpu=2 memory=1Gi pods=1")).amounts


def test_the_greater_of_two_charges_counts_further_names_if_one_of_them_does():
    first, second, none = (f"requests.example.com/{name}" for name in "abc")

    def amounts_in(names):
        asked = {first: Quantity.of(3), second: Quantity.of(1)}
        return {name: amount for name, amount in asked.items() if name in names}

    narrow = Charge(parsed(f"cpu=500m {first}=2 {second}=2"))
    greater = greater_charge(Charge(parsed("cpu=1"), amounts_in), narrow)

    assert greater.is_wide
    expected = Charge(parsed(f"cpu=1 {first}=3 {second}=2")).amounts
    assert greater.amounts_of([first, second, none]) == expected


def test_a_resize_of_a_pod_that_cannot_be_counted_is_refused_where_a_quota_limits_it(priced):
    limited, free = a_row("a/web", gates=UNGATED), a_row("b/web", gates=UNGATED)
    priced.see_namespace(a_namespace("b"))

    [refusal] = priced.resize(limited, limited, until_s=NOW_S + 9)
    assert (refusal.reason, refusal.detail) == (Reason.NOT_COUNTED, "no price")
    assert priced.resize(free, free, until_s=NOW_S + 9) == ()


def test_a_recount_releases_pods_that_fit_now(priced, prices):
    prices.update(web=900, db=900)
    for name in ("web", "db"):
        priced.see_pod(a_row(f"a/{name}", created_s=NOW_S))
    priced.decide()
    priced.see_pod(running(a_row("a/db", created_s=NOW_S)))
    assert releases(priced) == []

    prices["db"] = 100
    priced.recount_pod(a_row("a/db", gates=UNGATED))

    assert [row.name for row in releases(priced)] == ["web"]


# ------------------------------------------------------------------ while a decision is carried out


def test_a_release_in_flight_holds_what_the_pod_costs_now(priced, prices):
    prices |= {"web": 300, "other": 600}
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == [web]
    prices["web"] = 500
    priced.recount_pod(web)
    priced.see_pod(a_row("a/other"))

    assert releases(priced) == []
    assert cpu(priced) == (0, 500)
    priced.see_pod(running(web))
    assert cpu(priced) == (500, 0)


def test_a_release_in_flight_may_exceed_the_limit_by_a_change_of_mind(priced, prices):
    prices["web"] = 300
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == [web]
    prices["web"] = 5_000
    priced.recount_pod(web)

    assert cpu(priced) == (0, 5_000)


def test_a_resize_that_was_promised_is_counted_again(priced, prices):
    prices["web"] = 300
    web = a_row("a/web", gates=UNGATED)
    priced.see_pod(web)
    assert priced.resize(web, web, until_s=NOW_S + 30) == ()
    prices["web"] = 400
    priced.recount_pod(web)

    assert cpu(priced) == (400, 0)


def test_the_promise_of_a_resize_ends_with_the_pod(priced, prices):
    prices["web"] = 300
    web = a_row("a/web", gates=UNGATED)
    priced.see_pod(web)
    assert priced.resize(web, web, until_s=NOW_S + 30) == ()
    priced.see_pod(changed(web, phase="Succeeded"))

    assert cpu(priced) == (0, 0)


def test_a_pod_that_becomes_uncounted_holds_up_no_others_in_strict_order(priced, prices):
    prices |= {"first": 900, "second": 200, "runs": 500}
    priced.see_quota(a_quota("a/q", "cpu=1", order="strict"))
    priced.see_pod(a_row("a/runs", gates=UNGATED))
    first, second = a_row("a/first", created_s=1), a_row("a/second", created_s=2)
    priced.see_pod(first)
    priced.see_pod(second)
    assert releases(priced) == []
    del prices["first"]
    priced.recount_pod(first)

    assert releases(priced) == [second]


def test_a_release_in_flight_keeps_its_promise_while_the_pod_cannot_be_counted(priced, prices):
    prices["web"] = 300
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == [web]
    del prices["web"]
    priced.recount_pod(web)

    assert cpu(priced) == (0, 300)


# ------------------------------------------------------------------ no quota


def test_a_pod_that_no_quota_limits_waits_for_no_counter(priced):
    priced.lose_quota(a_key("a/q"))
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == [web]

    priced.see_pod(running(web))
    assert priced.resize(running(web), running(web), until_s=NOW_S + 30) == ()


def test_an_uncounted_pod_goes_when_the_last_quota_that_limits_it_goes(priced):
    priced.see_quota(a_quota("a/ending", "cpu=1", scopes="Terminating"))
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == []
    priced.lose_quota(a_key("a/q"))

    assert releases(priced) == [web]


# ------------------------------------------------------------------ retries


def test_a_release_that_has_ended_is_not_retried(priced, prices):
    prices["web"] = 300
    web = a_row("a/web")
    priced.see_pod(web)
    assert releases(priced) == [web]
    priced.settle(web, ReleaseOutcome.CHANGED)
    priced.advance(NOW_S + RETRY_SECONDS)
    priced.lose_pod("a", "web", web.stamp.uid)

    assert releases(priced) == []
