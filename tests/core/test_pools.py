"""Pools: who gets what, what a hold is, and what a hostile tenant cannot do."""

from bursar.core.pools.holds import HOLD_SECONDS, LAPSE_SECONDS, LAPSES_MAX, HoldState
from bursar.core.pools.refusal import PoolReason, PoolRefusal
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.refusal import explanation
from support.builders.quota_books import a_row, changed
from support.extender.pools import (
    a_pool,
    a_share,
    a_space,
    account,
    books_of,
    bound,
    ended,
    licensed,
    reasons,
)

# ------------------------------------------------------------------ shares


def test_the_account_of_a_share_goes_with_its_namespace():
    shares = (a_share("all", "", 4), a_share("each", "", 3, is_per_namespace=True))
    books = books_of(a_pool(shares=shares))
    charged, held = bound(licensed("a/charged")), licensed("b/held")
    books.see_pod(charged)
    books.filter(held, 0)
    together, of_a, of_b = ("all", ""), ("each", "a"), ("each", "b")
    assert set(books.states[0].shares) == {together, of_a, of_b}

    books.lose_namespace("a")
    books.lose_namespace("b")
    assert set(books.states[0].shares) == {together, of_a, of_b}
    books.lose_pod(charged)
    assert set(books.states[0].shares) == {together, of_b}
    books.expire(HOLD_SECONDS + 1)
    assert set(books.states[0].shares) == {together}


def test_the_account_of_a_share_stays_with_its_namespace():
    share = a_share("each", "", 3, is_per_namespace=True)
    books = books_of(a_pool(shares=(share,)))
    charged = bound(licensed("a/charged"))
    books.see_pod(charged)
    books.lose_pod(charged)
    assert set(books.states[0].shares) == {("each", "a")}


# ------------------------------------------------------------------ filter


def test_a_pod_that_fits_holds_its_part():
    books = books_of(a_pool(capacity=2))

    assert books.filter(licensed("a/x"), 0) == ()
    assert account(books) == ("0", "1", "1")


def test_the_same_pod_asked_twice_holds_once():
    books = books_of(a_pool(capacity=1))

    assert books.filter(licensed("a/x"), 0) == ()
    assert books.filter(licensed("a/x"), 1) == ()
    assert account(books) == ("0", "1", "0")


def test_a_pod_that_does_not_fit_is_told_what_is_missing():
    books = books_of(a_pool(capacity=5))
    books.see_pod(bound(licensed("b/other", 4)))

    refusals = books.filter(licensed("a/x", 3), 0)

    assert explanation(refusals) == (
        "PoolExhausted: ClusterResource pool has 1 of 5 example.com/licence free and the pod "
        "requests 3 (missing 2)"
    )
    assert account(books) == ("4", "0", "1")


def test_a_pod_larger_than_the_pool_is_told_that_it_never_runs():
    refusals = books_of(a_pool(capacity=5)).filter(licensed("a/x", 6), 0)

    assert explanation(refusals) == (
        "PoolTooSmall: ClusterResource pool has 5 example.com/licence and the pod requests 6; "
        "it can never run unless that is raised"
    )


def test_a_huge_request_is_refused_as_any_other():
    refusals = books_of(a_pool(capacity=5)).filter(licensed("a/x", 10**17), 0)

    assert reasons(refusals) == [PoolReason.TOO_SMALL]


def test_a_pod_that_names_the_resource_with_0_needs_nothing():
    books = books_of(a_pool(capacity=0))

    assert books.filter(licensed("a/x", 0), 0) == ()
    assert len(books.holds) == 0


def test_a_namespace_that_is_not_selected_gets_nothing():
    books = books_of(a_pool(selector="team=cfd"), spaces=(a_space("a"), a_space("b", "team=cfd")))

    assert explanation(books.filter(licensed("a/x"), 0)) == (
        "NamespaceNotAllowed: ClusterResource pool is not for this namespace (example.com/licence)"
    )
    assert books.filter(licensed("b/x"), 0) == ()


def test_a_pod_of_an_unknown_namespace_waits():
    assert explanation(books_of(a_pool()).filter(licensed("new/x"), 0)) == (
        "NamespaceUnknown: the namespace has not been seen yet"
    )


def test_a_pod_whose_resources_no_pool_has_is_refused_by_name():
    books = books_of(a_pool())
    names = " ".join(f"example.com/r{number}=1" for number in range(5))

    assert explanation(books.filter(a_row("a/x", "example.com/other=1"), 0)) == (
        "NoClusterResource: no ClusterResource provides: example.com/other"
    )
    assert explanation(books.filter(a_row("a/y", names), 0)).endswith(
        "example.com/r0 and example.com/r1 and example.com/r2 and 2 more"
    )
    assert "a resource that it requests" in explanation(books.filter(a_row("a/z", "cpu=1"), 0))


def test_an_invalid_pool_gives_nothing():
    books = books_of(a_pool(problem="capacity: a whole number of at least 0 is expected"))

    assert explanation(books.filter(licensed("a/x"), 0)) == (
        "PoolInvalid: ClusterResource pool is invalid (example.com/licence)"
    )


def test_of_two_pools_of_one_resource_the_older_is_in_use():
    older = a_pool("z", 1, created_at="2026-01-01T00:00:00Z")
    books = books_of(a_pool("a", 9, created_at="2026-02-01T00:00:00Z"), older)
    books.filter(licensed("a/x"), 0)

    assert [(each.pool.name, each.rival, each.is_in_use) for each in books.states] == [
        ("a", "z", False),
        ("z", "", True),
    ]
    assert account(books, "z") == ("0", "1", "0")


# ------------------------------------------------------------------ shares


def test_a_share_limits_its_namespaces_together():
    pool = a_pool(shares=(a_share("few", "team=web", 1),))
    spaces = (a_space("a", "team=web"), a_space("b", "team=web"), a_space("c"))
    books = books_of(pool, spaces=spaces)

    assert books.filter(licensed("a/x"), 0) == ()
    refusals = books.filter(licensed("b/y"), 0)
    assert explanation(refusals) == (
        "ShareExhausted: share few of ClusterResource pool has 0 of 1 example.com/licence free "
        "and the pod requests 1 (missing 1)"
    )
    assert books.filter(licensed("c/z"), 0) == ()


def test_a_share_per_namespace_limits_each():
    books = books_of(a_pool(shares=(a_share("each", "", 1, is_per_namespace=True),)))

    assert books.filter(licensed("a/x"), 0) == ()
    assert books.filter(licensed("b/y"), 0) == ()
    assert reasons(books.filter(licensed("a/z"), 0)) == [PoolReason.SHARE_EXHAUSTED]
    assert reasons(books.filter(licensed("a/big", 2), 0)) == [PoolReason.SHARE_TOO_SMALL]


def test_a_namespace_that_gets_other_labels_counts_in_other_shares():
    books = books_of(a_pool(shares=(a_share("few", "team=web", 1),)))
    books.see_pod(bound(licensed("a/x")))
    books.filter(licensed("a/y"), 0)
    books.see_namespace(a_space("a", "team=web"))

    few = books.states[0].shares["few", ""]
    assert (few.charged // 10**9, few.promised // 10**9) == (1, 1)
    assert reasons(books.filter(licensed("a/z"), 0)) == [PoolReason.SHARE_EXHAUSTED]


# ------------------------------------------------------------------ from filter to a bound pod


def test_from_filter_to_the_watch_the_part_is_counted_once():
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    steps = []
    books.see_pod(pod)
    books.filter(pod, 0)
    steps.append(account(books))
    assert books.begin_binding(pod, "node", 1) == ()
    steps.append(account(books))
    books.binding_stored("uid-of-x")
    books.see_pod(changed(pod))  # An older state arrives late.
    steps.append(account(books))
    books.see_pod(bound(pod))
    steps.append(account(books))

    assert steps == [("0", "1", "0")] * 3 + [("1", "0", "0")]
    assert len(books.holds) == 0
    assert books.is_charged(PodKey("a", "x"), "uid-of-x")


def test_a_bound_pod_passes_filter_and_bind_again():
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    books.see_pod(bound(pod))

    assert books.filter(pod, 0) == ()
    assert books.begin_binding(pod, "node", 0) == ()
    assert account(books) == ("1", "0", "0")


def test_a_hold_expires_without_a_bind_and_bind_checks_again():
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    books.filter(pod, 0)

    assert reasons(books.filter(licensed("a/y"), HOLD_SECONDS - 1)) == [PoolReason.EXHAUSTED]
    assert books.filter(licensed("a/y"), HOLD_SECONDS) == ()
    assert reasons(books.begin_binding(pod, "node", HOLD_SECONDS)) == [PoolReason.EXHAUSTED]
    assert books.lapsed == 1


def test_a_hold_that_is_asked_for_again_lasts_longer():
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    books.filter(pod, 0)
    books.filter(pod, HOLD_SECONDS - 1)

    assert not books.expire(HOLD_SECONDS)
    assert books.expire(2 * HOLD_SECONDS - 1)


def test_a_binding_in_flight_does_not_expire():
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    books.filter(pod, 0)
    books.begin_binding(pod, "node", 0)
    books.filter(pod, 1)

    assert not books.expire(1_000)
    assert explanation(books.begin_binding(pod, "node", 0)) == (
        "BindingInProgress: the pod is being bound by another call"
    )


def test_a_failed_binding_returns_its_part_and_an_uncertain_one_does_not():
    books, pod = books_of(a_pool(capacity=1)), licensed("a/x")
    books.begin_binding(pod, "node", 0)
    books.binding_uncertain("uid-of-x")
    assert account(books) == ("0", "1", "0")
    assert [hold.state for hold in books.holds] == [HoldState.UNCERTAIN]

    books.binding_failed("uid-of-x", 0)
    books.binding_failed("uid-of-x", 0)
    books.binding_uncertain("uid-of-x")

    assert account(books) == ("0", "0", "1")


def test_the_end_of_a_pod_returns_its_part_bound_or_not():
    books = books_of(a_pool(capacity=3))
    one, two, three = (licensed(f"a/{name}") for name in "xyz")
    for pod in (one, two, three):
        books.see_pod(pod)
        books.filter(pod, 0)
    books.see_pod(bound(one))
    books.see_pod(ended(bound(one)))
    books.lose_pod(two)
    books.see_pod(ended(three))

    assert account(books) == ("0", "0", "3")
    assert len(books.holds) == 0


def test_a_pod_of_the_same_name_takes_the_place_of_the_one_before():
    books = books_of(a_pool(capacity=1))
    old, new = licensed("a/x"), licensed("a/x", uid="new")
    books.see_pod(bound(old))

    assert books.filter(new, 0) == ()
    assert account(books) == ("1", "0", "0")
    books.see_pod(new)
    assert account(books) == ("0", "1", "0")
    books.lose_pod(old)
    assert account(books) == ("0", "1", "0")
    books.see_pod(bound(new))
    assert account(books) == ("1", "0", "0")


def test_pods_bound_past_the_extender_are_a_debt():
    books = books_of(a_pool(capacity=1))
    for name in "xyz":
        books.see_pod(bound(licensed(f"a/{name}")))

    assert explanation(books.filter(licensed("b/w"), 0)) == (
        "PoolExhausted: ClusterResource pool has 0 of 1 example.com/licence free and the pod "
        "requests 1 (missing 3); overdrawn by 2"
    )


def test_a_pod_without_extended_resources_is_not_kept():
    books = books_of(a_pool())
    books.see_pod(a_row("a/x", "cpu=1"))

    assert books.find_pod(PodKey("a", "x"), "uid-of-x") is None


def test_a_pod_is_found_by_its_hold_or_by_the_watch():
    books, pod = books_of(a_pool()), licensed("a/x")
    books.filter(pod, 0)
    assert books.find_pod(PodKey("a", "x"), "uid-of-x") is pod

    books.see_pod(licensed("a/y"))
    assert books.find_pod(PodKey("a", "y"), "uid-of-y") is not None
    assert books.find_pod(PodKey("a", "y"), "another") is None


# ------------------------------------------------------------------ pools that change


def test_pods_that_were_there_before_the_pool_are_charged():
    books, other = books_of(), "example.com/other"
    books.see_pod(bound(licensed("a/x", 2)))
    books.see_pool(a_pool(capacity=5))
    books.see_pool(a_pool("second", 5, other))

    assert account(books) == ("2", "0", "3")
    assert account(books, "second") == ("0", "0", "5")


def test_a_lowered_capacity_is_a_debt_and_holds_stay():
    books = books_of(a_pool(capacity=3))
    books.see_pod(bound(licensed("a/x", 2)))
    books.filter(licensed("a/y"), 0)
    books.see_pool(a_pool(capacity=1, generation=2))

    assert account(books) == ("2", "1", "-2")


def test_a_pool_that_is_seen_again_unchanged_changes_nothing():
    books = books_of(a_pool())
    books.filter(licensed("a/x"), 0)
    before = books.states[0].account
    books.see_pool(a_pool())

    assert books.states[0].account is before


def test_a_deleted_pool_leaves_its_resource_to_the_next_oldest():
    books = books_of(a_pool("a", 1), a_pool("b", 9))
    books.see_pod(bound(licensed("a/x")))
    books.lose_pool("a")
    books.lose_pool("unknown")

    assert account(books, "b") == ("1", "0", "8")


def test_a_namespace_that_is_seen_again_unchanged_changes_nothing():
    books = books_of(a_pool())
    books.see_pod(bound(licensed("a/x")))
    books.see_namespace(a_space("a"))

    assert account(books) == ("1", "0", "4")


def test_a_lost_namespace_is_unknown_again():
    books = books_of(a_pool())
    books.lose_namespace("a")

    assert reasons(books.filter(licensed("a/x"), 0)) == [PoolReason.NAMESPACE_UNKNOWN]


# ------------------------------------------------------------------ preemption


def test_a_preemption_is_useful_only_where_its_victims_free_the_pool():
    books = books_of(a_pool(capacity=2))
    for name in ("holder", "second"):
        books.see_pod(bound(licensed(f"b/{name}")))
    books.see_pod(bound(a_row("b/plain", "cpu=1 example.com/other=1")))
    victims = {
        "in-vain": ["uid-of-plain", "uid-of-stranger"],
        "one": ["uid-of-holder"],
        "both": ["uid-of-holder", "uid-of-second", "uid-of-holder"],
    }

    assert books.useful_nodes(licensed("a/x"), victims) == ["one", "both"]
    assert books.useful_nodes(licensed("a/y", 2), victims) == ["both"]
    assert books.useful_nodes(licensed("a/z", 3), victims) == []


def test_a_preemption_is_useful_everywhere_if_the_pool_is_not_short():
    books = books_of(a_pool(capacity=1))
    victims = {"node": ["uid-of-plain"]}
    assert books.useful_nodes(licensed("a/x"), victims) == ["node"]

    books.filter(licensed("a/x"), 0)
    assert books.useful_nodes(licensed("a/x"), victims) == ["node"]
    assert books.useful_nodes(licensed("b/y"), victims) == []


def test_a_preemption_is_useless_for_a_pod_that_may_not_use_the_pool():
    books = books_of(a_pool(selector="team=cfd"))

    assert books.useful_nodes(licensed("a/x"), {"node": []}) == []


def test_a_pod_of_the_same_name_that_is_still_charged_counts_as_freed():
    books = books_of(a_pool(capacity=1))
    books.see_pod(bound(licensed("a/x")))

    assert books.useful_nodes(licensed("a/x", uid="new"), {"node": []}) == ["node"]


# ------------------------------------------------------------------ hostile tenants


def test_a_namespace_whose_pods_are_never_bound_gets_no_holds_for_a_while():
    books = books_of(a_pool(capacity=LAPSES_MAX))
    for number in range(LAPSES_MAX):
        books.filter(licensed(f"a/trick-{number}"), 0)
    assert reasons(books.filter(licensed("b/honest"), 1)) == [PoolReason.EXHAUSTED]
    now = HOLD_SECONDS

    assert books.filter(licensed("a/next"), now) == ()
    assert account(books)[1] == "0", "it passes filter and holds nothing"
    for number in range(LAPSES_MAX):
        assert books.filter(licensed(f"b/honest-{number}"), now) == ()
    assert reasons(books.begin_binding(licensed("a/next"), "node", now)) == [PoolReason.EXHAUSTED]
    assert books.lapsed == LAPSES_MAX


def test_a_namespace_gets_holds_again_when_its_lapses_are_long_ago():
    books = books_of(a_pool(capacity=LAPSES_MAX))
    for number in range(LAPSES_MAX):
        books.filter(licensed(f"a/trick-{number}"), 0)
    books.expire(HOLD_SECONDS)
    later = HOLD_SECONDS + LAPSE_SECONDS
    books.filter(licensed("a/x"), later)
    assert account(books)[1] == "1"

    books.expire(later + HOLD_SECONDS)
    books.filter(licensed("a/y"), later + HOLD_SECONDS)
    assert account(books)[1] == "1", "lapses of long ago are not added"


def test_a_message_names_no_pod_and_no_namespace():
    books = books_of(a_pool(capacity=1))
    books.see_pod(bound(licensed("b/secret-project")))

    text = explanation(books.filter(licensed("a/x"), 0))

    assert "secret" not in text
    assert PoolRefusal(reason=PoolReason.NOT_LEADING, detail="why").message() == (
        "NotLeading: this replica cannot decide now: why"
    )
