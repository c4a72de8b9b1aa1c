"""Promises to running pods that want to grow: to whom, how much, how many, and how long."""

import pytest

from bursar.core.model.pod_row import Deletion, Extras
from bursar.core.model.quantity import ZERO
from bursar.core.quota.account import ASKED_MAX, Charge
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.growth.promises import (
    NAMESPACE_IS_BUSY,
    NAMESPACE_PROMISES_MAX,
    POD_IS_BUSY,
    POD_PROMISES_MAX,
    UNKNOWN_POD,
    RecordedPromise,
)
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.refusal import Reason, explanation
from support.builders.pods import parsed
from support.builders.quota_books import (
    NOW_S,
    UNGATED,
    a_namespace,
    a_quota,
    a_row,
    changed,
    counting_all_but,
    cpu,
    open_books,
    releases,
    with_facts,
)

LATER_S = NOW_S + 70
HOUR_S = 3600
MILLI = 10**6


@pytest.fixture
def books():
    return open_books(NativeCounter().count)


def sized(row, requests):
    """The pod as the webhook gets it: another size, and the resourceVersion that it replaces."""
    return row._replace(profile=with_facts(row.profile, requests=requests))


def stored(row, requests):
    return changed(row, profile=with_facts(row.profile, requests=requests))


def running(name, requests, **facts):
    return a_row(f"a/{name}", requests, gates=UNGATED, **facts)


@pytest.fixture
def web(books):
    row = running("web", "cpu=300m")
    books.see_pod(row)
    return row


# ------------------------------------------------------------------ how much


def test_a_resize_is_promised_what_it_adds(books, web):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()
    assert cpu(books) == (300, 500)

    [refusal] = books.resize(sized(web, "cpu=1100m"), web, until_s=LATER_S)
    assert refusal.reason is Reason.QUOTA_EXCEEDED

    books.see_pod(stored(web, "cpu=800m"))
    assert cpu(books) == (800, 0)
    assert books.ledger.reservation_count == len(books.growth) == 0


def test_a_dry_run_reserves_nothing(books, web):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S, is_dry_run=True) == ()
    assert cpu(books) == (300, 0)
    assert books.resize(sized(web, "cpu=2"), web, until_s=LATER_S, is_dry_run=True) != ()


@pytest.mark.parametrize("facts", [{}, {"gates": UNGATED, "phase": "Succeeded"}])
def test_a_pod_that_is_not_charged_may_become_what_it_likes(books, facts):
    row = a_row("a/web", "cpu=5", **facts)

    assert books.resize(row, row, until_s=LATER_S) == ()
    assert books.ledger.reservation_count == 0


def test_a_pod_that_no_quota_limits_is_never_refused(books):
    books.see_namespace(a_namespace("b"))
    row = a_row("b/web", "cpu=5", gates=UNGATED)
    books.see_pod(row)

    for number in range(POD_PROMISES_MAX + 1):
        assert books.resize(sized(row, f"cpu={number + 6}"), row, until_s=LATER_S) == ()

    assert list(books.growth.recorded()) == []
    books.see_quota(a_quota("b/q", "cpu=20"))
    assert cpu(books, "b/q") == (5000, 1000 * POD_PROMISES_MAX)


def test_a_pod_that_cannot_be_counted_is_refused_if_a_quota_limits_it():
    books = open_books(counting_all_but({"web"}))
    row, free = running("web", "cpu=100m"), a_row("b/web", "cpu=1", gates=UNGATED)

    [refusal] = books.resize(sized(row, "cpu=200m"), row, until_s=LATER_S)

    assert refusal.reason is Reason.NOT_COUNTED
    assert books.resize(sized(free, "cpu=5"), free, until_s=LATER_S) == ()


def test_only_the_size_of_the_request_is_believed(books, web):
    """A forged request cannot move its promise to the quotas of another scope."""
    books.see_quota(a_quota("a/gold", "cpu=1", scopes="PriorityClass"))
    books.see_quota(a_quota("a/jobs", "cpu=1", scopes="Terminating"))
    forged = web._replace(
        profile=with_facts(
            web.profile, requests="cpu=800m", priority_class="gold", priority=9, deadline_s=60
        ),
        phase="Succeeded",
    )

    assert books.resize(forged, web, until_s=LATER_S) == ()

    assert cpu(books) == (300, 500)
    assert (cpu(books, "a/gold"), cpu(books, "a/jobs")) == ((0, 0), (0, 0))


def test_what_the_request_says_about_gates_is_not_believed(books, web):
    gated = web._replace(profile=with_facts(web.profile, requests="cpu=5", gates=("other",)))

    assert books.resize(gated, web, until_s=LATER_S) != ()


def test_facts_of_the_new_size_and_a_pending_deletion_are_kept(books):
    seen = []
    books = open_books(lambda row: seen.append(row) or NativeCounter().count(row))
    web = running("web", "cpu=300m", deletion=(NOW_S + 5, 5))
    asked = sized(web, "cpu=400m")._replace(extras=Extras(None, "two devices"))

    assert books.resize(asked, web, until_s=LATER_S) == ()

    assert seen[-1].extras == Extras(Deletion(NOW_S + 5, 5), "two devices")
    assert books.resize(sized(web, "cpu=500m"), web, until_s=LATER_S) == ()
    assert seen[-1].extras == Extras(Deletion(NOW_S + 5, 5), None)


# ------------------------------------------------------------------ to whom


@pytest.mark.parametrize(
    "known",
    [
        None,
        running("web", "cpu=1m", uid="another"),
        running("db", "cpu=1m", uid="uid-of-web"),
        a_row("b/web", "cpu=1m", gates=UNGATED),
    ],
)
def test_a_pod_that_is_not_known_is_promised_nothing_and_told_nothing(books, web, known):
    refusals = books.resize(sized(web, "cpu=1000"), known, until_s=LATER_S)

    assert refusals == (UNKNOWN_POD,)
    assert not any(letter.isdigit() for letter in explanation(refusals))
    assert books.resize(sized(web, "cpu=400m"), known, until_s=LATER_S) == (UNKNOWN_POD,)
    assert cpu(books) == (300, 0)


# ------------------------------------------------------------------ how many


def test_a_pod_holds_the_greatest_of_its_promises_and_not_their_sum(books, web):
    """Two resizes are admitted at once; the API server stores one of them."""
    for size in ("cpu=500m", "cpu=700m", "cpu=600m", "cpu=500m"):
        assert books.resize(sized(web, size), web, until_s=LATER_S) == ()

    assert cpu(books) == (300, 400)
    assert books.ledger.reservation_count == 3
    books.see_pod(stored(web, "cpu=600m"))
    assert cpu(books) == (600, 0)
    assert len(books.growth) == 0


def test_the_sizes_that_a_pod_is_promised_at_once_are_bounded(books, web):
    sizes = [f"cpu={400 + number}m" for number in range(POD_PROMISES_MAX + 1)]
    for size in sizes[:-1]:
        assert books.resize(sized(web, size), web, until_s=LATER_S) == ()

    assert books.resize(sized(web, sizes[-1]), web, until_s=LATER_S) == (POD_IS_BUSY,)
    assert books.resize(sized(web, sizes[0]), web, until_s=LATER_S) == ()
    assert books.ledger.reservation_count == POD_PROMISES_MAX


def test_the_promises_of_a_namespace_are_bounded(books):
    books.see_quota(a_quota("a/q", "cpu=1000"))
    books.see_namespace(a_namespace("b"))
    books.see_quota(a_quota("b/q", "cpu=1"))
    rows = [running(f"p{number}", "cpu=10m") for number in range(NAMESPACE_PROMISES_MAX + 1)]
    for row in rows:
        books.see_pod(row)
    asked = [books.resize(sized(row, "cpu=20m"), row, until_s=LATER_S) for row in rows]
    assert asked == [()] * NAMESPACE_PROMISES_MAX + [(NAMESPACE_IS_BUSY,)]
    other = a_row("b/p", "cpu=10m", gates=UNGATED)
    assert books.resize(sized(other, "cpu=20m"), other, until_s=LATER_S) == ()

    books.lose_pod("a", "p0", rows[0].stamp.uid)

    assert books.resize(sized(rows[-1], "cpu=20m"), rows[-1], until_s=LATER_S) == ()


# ------------------------------------------------------------------ how long


def test_a_promise_ends_when_the_pod_has_changed(books, web):
    """Whatever was admitted over the older state cannot be stored any more."""
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()

    books.see_pod(web)
    assert cpu(books) == (300, 500)
    books.see_pod(changed(web))

    assert cpu(books) == (300, 0)


def test_a_promise_is_kept_while_only_older_states_are_seen(books, web):
    """The books hear of the pod later than the cache from which the question was answered."""
    newer = changed(changed(web))
    assert books.resize(sized(newer, "cpu=800m"), newer, until_s=LATER_S) == ()

    books.see_pod(changed(web))
    assert cpu(books) == (300, 500)
    books.see_pod(newer)
    assert cpu(books) == (300, 500)
    books.see_pod(stored(newer, "cpu=800m"))
    assert cpu(books) == (800, 0)


def test_a_repeated_question_about_a_newer_state_prolongs_the_promise(books, web):
    newer = changed(web)
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()
    assert books.resize(sized(newer, "cpu=800m"), newer, until_s=LATER_S + 10) == ()

    books.see_pod(newer)

    assert cpu(books) == (300, 500)
    [promise] = books.growth
    assert (promise.until_s, books.growth.next_due_s) == (LATER_S + 10, LATER_S + 10)


def test_a_repeated_question_never_shortens_a_promise(books, web):
    """A stranger repeats what somebody has asked, with an older state."""
    newer = changed(web)
    assert books.resize(sized(newer, "cpu=800m"), newer, until_s=LATER_S) == ()
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S - 60) == ()

    books.see_pod(newer)

    assert cpu(books) == (300, 500)
    assert books.growth.overdue(LATER_S - 1) == []


def test_resource_versions_that_are_not_numbers_end_no_promise(books):
    web = running("web", "cpu=300m", version="x")
    books.see_pod(web)
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()

    books.see_pod(running("web", "cpu=300m", version="y"))
    books.see_pod(running("web", "cpu=300m", version="7"))

    assert cpu(books) == (300, 500)


def test_time_alone_ends_no_promise(books, web):
    """The watch may be silent. The caller ends what is overdue when the watch has shown more."""
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()

    books.advance(LATER_S + HOUR_S)
    [promise] = books.growth.overdue(LATER_S + HOUR_S)
    assert cpu(books) == (300, 500)

    books.growth.end(promise)
    books.growth.end(promise)
    assert cpu(books) == (300, 0)
    assert books.growth.next_due_s is None


def test_a_step_of_the_wall_clock_ends_no_promise(books, web):
    db = running("db", "cpu=300m")
    books.see_pod(db)
    books.advance(NOW_S + HOUR_S, NOW_S)
    assert books.resize(sized(web, "cpu=600m"), web, until_s=LATER_S) == ()

    books.advance(NOW_S + 10, NOW_S + 10)

    assert books.growth.overdue(NOW_S + 10) == []
    assert books.resize(sized(db, "cpu=600m"), db, until_s=LATER_S) != ()


def test_what_was_promised_to_a_pod_goes_with_it(books, web):
    books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S)

    books.lose_pod("a", "web")

    assert cpu(books) == (0, 0)
    assert books.ledger.reservation_count == 0


def test_what_was_promised_to_another_of_the_same_name_stays(books, web):
    """The cache knows it already; the books have not heard of the end of the first one."""
    heir = running("web", "cpu=100m", uid="heir")
    assert books.resize(sized(heir, "cpu=600m"), heir, until_s=LATER_S) == ()

    books.see_pod(changed(changed(web)))
    books.lose_pod("a", "web", web.stamp.uid)

    assert cpu(books) == (0, 600)
    books.lose_pod("a", "web", "heir")
    assert cpu(books) == (0, 0)


# ------------------------------------------------------------------ changes of leader


def successor(books, *rows):
    """The books of the next leader, which has listed these pods."""
    next_books = open_books(NativeCounter().count)
    known = {PodKey(row.namespace, row.name): row for row in rows}
    for row in rows:
        next_books.see_pod(row)
    for recorded in books.growth.recorded():
        next_books.growth.restore(recorded, known.get(recorded.pod), until_s=LATER_S)
    return next_books


def test_the_next_leader_keeps_the_promise(books, web):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()
    later = successor(books, web, a_row("a/next", "cpu=300m"))
    assert cpu(later) == (300, 500)
    assert releases(later) == []

    later.see_pod(stored(web, "cpu=800m"))

    assert cpu(later) == (800, 0)
    assert releases(later) == []


def test_the_next_leader_releases_into_what_a_failed_resize_was_promised(books, web):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()
    waiting = a_row("a/next", "cpu=300m")
    later = successor(books, web, waiting)
    assert releases(later) == []

    for promise in later.growth.overdue(LATER_S):
        later.growth.end(promise)

    assert releases(later) == [waiting]


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [running("web", "cpu=300m", version=2)],
        [running("web", "cpu=800m", version=2)],
        [running("web", "cpu=300m", uid="another")],
        [running("web", "cpu=300m", phase="Failed")],
    ],
)
def test_the_next_leader_keeps_no_promise_that_the_list_shows_to_be_over(books, web, listed):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()

    assert len(successor(books, *listed).growth) == 0


def test_the_next_leader_keeps_a_promise_that_does_not_fit_any_more(books, web):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()
    other = running("other", "cpu=400m")

    later = successor(books, web, other)

    assert cpu(later) == (700, 500)


def test_only_names_that_a_quota_limits_are_recorded(books):
    web = running("web", "cpu=300m memory=1Gi")
    books.see_pod(web)
    assert books.resize(sized(web, "cpu=800m memory=2Gi"), web, until_s=LATER_S) == ()
    job = running("job", "cpu=100m", uid="j", version="opaque")
    assert books.resize(sized(job, "cpu=200m"), job, until_s=LATER_S) == ()

    assert list(books.growth.recorded()) == [
        RecordedPromise(PodKey("a", "web"), "uid-of-web", 1, {"cpu": 800 * MILLI}),
        RecordedPromise(PodKey("a", "job"), "j", None, {"cpu": 200 * MILLI}),
    ]


def many_names(number=200):
    return " ".join(f"requests.example.com/{'r' * 50}{each}=1" for each in range(number))


def test_of_very_many_names_of_own_quotas_those_are_recorded_that_grow(books):
    """Else three pods of one tenant would fill the record, and no other tenant's could grow."""
    books.see_quota(a_quota("wide", "requests.memory=9Gi"))
    books.see_quota(a_quota("a/many", many_names()))
    devices = many_names().replace("requests.", "")
    web = running("web", f"cpu=300m memory=1Gi {devices}")
    books.see_pod(web)
    larger = f"cpu=800m memory=1Gi {devices}"
    assert books.resize(sized(web, larger), web, until_s=LATER_S) == ()

    [recorded] = books.growth.recorded()
    assert recorded.amounts == {"cpu": 800 * MILLI, "requests.memory": 2**30 * 10**9}
    later = successor(books, web)
    assert cpu(later) == (300, 500)
    later.see_pod(stored(web, larger))
    assert cpu(later) == (800, 0)


def test_of_a_pod_that_is_not_charged_all_names_are_recorded(books):
    books.see_quota(a_quota("a/many", many_names()))
    web = running("web", many_names().replace("requests.", ""))
    assert books.resize(web, web, until_s=LATER_S) == ()

    [recorded] = books.growth.recorded()
    assert len(recorded.amounts) == 200


def test_names_that_a_shared_charge_has_forgotten_are_recorded():
    """Pods of other namespaces share it. If quotas ask it for many names, it forgets others."""
    amounts = parsed("cpu=300m requests.example.com/gpu=2")
    charge = Charge(amounts, lambda names: {name: amounts.get(name, ZERO) for name in names})
    books = open_books(lambda _: charge)
    books.see_quota(a_quota("a/gpus", "requests.example.com/gpu=4"))
    web = running("web", "cpu=300m")
    assert books.resize(web, web, until_s=LATER_S) == ()

    charge.amounts_of([f"requests.example.com/x{number}" for number in range(ASKED_MAX)])
    charge.amounts_of(["requests.example.com/one-more"])

    [recorded] = books.growth.recorded()
    assert recorded.amounts == {"cpu": 300 * MILLI, "requests.example.com/gpu": 2 * 10**9}


def test_a_promise_of_an_earlier_leader_is_not_counted_again(books, web):
    assert books.resize(sized(web, "cpu=800m"), web, until_s=LATER_S) == ()
    later = successor(books, web)

    later.recount_pod(web)
    assert cpu(later) == (300, 500)
    assert later.resize(sized(web, "cpu=900m"), web, until_s=LATER_S) == ()
    assert cpu(later) == (300, 600)
    assert later.ledger.reservation_count == 2


def test_a_stored_resize_that_cannot_be_counted_is_charged_as_the_earlier_leader_promised():
    unready = set()
    books = open_books(counting_all_but(unready))
    web = running("web", "cpu=300m")
    books.see_pod(web)
    recorded = RecordedPromise(PodKey("a", "web"), web.stamp.uid, 1, {"cpu": 800 * MILLI})
    books.growth.restore(recorded, web, until_s=LATER_S)
    unready.add("web")

    books.see_pod(web)
    assert cpu(books) == (300, 500)
    books.see_pod(stored(web, "cpu=800m"))

    assert cpu(books) == (800, 0)
