"""Coverage: which quotas a pod is billed for, and that bills are worked out once."""

from dataclasses import replace

import pytest

from bursar.core.quota import coverage
from bursar.core.quota.account import Charge
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Coverage, Namespace
from bursar.core.quota.quota import NamespaceSelector, Quota, QuotaKey, QuotaKind
from bursar.core.quota.scopes import ScopeRule
from support.builders.pods import parsed
from support.builders.quota_books import a_key, a_namespace, a_profile, a_quota, a_row
from support.looks import Looks

CPU = Charge(parsed("cpu=1 pods=1"))


@pytest.fixture
def covering():
    made = Coverage()
    made.put_namespace(a_namespace("a", "team=red"))
    made.put_namespace(a_namespace("b"))
    return made


def billed(covering, namespace="a", charge=CPU, **facts):
    """What a pod is billed for, as `quota:resource`."""
    bill = covering.bill(a_profile(namespace, **facts), charge)
    return [f"{account.quota.name}:{account.resource}" for account, _, _ in bill.items]


def test_a_pod_is_billed_by_the_quotas_of_its_namespace_then_by_those_of_the_cluster(covering):
    covering.put_quota(a_quota("all", "pods=9"))
    covering.put_quota(a_quota("red", "pods=9", selector="team=red"))
    covering.put_quota(a_quota("a/two", "pods=1"))
    covering.put_quota(a_quota("a/one", "pods=1 cpu=4 memory=1 services=1"))

    assert billed(covering) == ["one:cpu", "one:pods", "two:pods", "all:pods", "red:pods"]
    assert billed(covering, "b") == ["all:pods"]
    assert billed(covering, "unknown") == []
    assert [each.quota.key.name for each in covering.quotas()] == ["all", "red", "two", "one"]


def test_a_quota_that_was_there_first_covers_a_namespace_that_comes_later(covering):
    assert covering.put_quota(a_quota("c/q", "pods=1")) == []
    assert covering.put_namespace(a_namespace("c"))

    assert billed(covering, "c") == ["q:pods"]
    assert not covering.put_namespace(a_namespace("c", "team=blue"))
    assert covering.namespace("c") == a_namespace("c", "team=blue")


def test_a_change_of_a_quota_looks_at_no_other_quota(covering):
    """There can be a hundred cluster-wide quotas, and each of ten thousand namespaces has some."""
    covering.put_quota(a_quota("all", "pods=9"))
    for number in range(20):
        covering.put_quota(a_quota(f"other{number}", "pods=9", selector=f"team=other{number}"))
    labels = Labels({"team": "red"})
    covering.put_namespace(Namespace(name="c", labels=labels))

    for change, wanted, looks in (
        (lambda: covering.put_quota(a_quota("q", "pods=9", selector="team=red")), ["a", "c"], 1),
        (lambda: covering.put_quota(a_quota("q", "cpu=9", selector="team=red")), ["a", "c"], 1),
        (
            lambda: covering.put_quota(a_quota("q", "cpu=9", selector="team!=red")),
            ["a", "b", "c"],
            1,
        ),
        (
            lambda: covering.put_quota(a_quota("q", "cpu=9", selector="team=red")),
            ["a", "b", "c"],
            1,
        ),
        (lambda: covering.drop_quota(a_key("q")), ["a", "c"], 0),
    ):
        labels.looks = 0
        assert change() == wanted
        assert labels.looks == looks
    assert billed(covering) == ["all:pods"]
    assert billed(covering, "c") == ["all:pods"]


def test_a_namespace_with_the_same_labels_is_compared_with_no_quota(covering):
    """All namespaces are looked at again when the policies that gate pods change."""
    covering.put_quota(a_quota("q", "pods=9", selector="team=red"))
    labels = Labels({"team": "red"})
    covering.put_namespace(Namespace(name="c", labels=labels))

    labels.looks = 0
    changed = Namespace(name="c", labels=labels, dispute="no policy selects it")
    assert not covering.put_namespace(changed)
    assert (covering.namespace("c"), labels.looks) == (changed, 0)


class Labels(dict):
    """Labels that count how often one of them is looked up."""

    looks = 0

    def get(self, key, default=None):
        self.looks += 1
        return super().get(key, default)


def test_annotations_select_to_the_letter(covering):
    key = QuotaKey(QuotaKind.CLUSTER, "", "noted")
    selector = NamespaceSelector(annotations={"unit": "7"})
    covering.put_quota(Quota(key=key, hard=parsed("pods=1"), selector=selector))
    assert billed(covering) == []

    assert covering.put_namespace(Namespace(name="a", annotations={"unit": "7"}))

    assert billed(covering) == ["noted:pods"]


def test_scopes_leave_pods_out(covering):
    covering.put_quota(a_quota("a/jobs", "pods=1", scopes="Terminating"))
    covering.put_quota(a_quota("wide", "pods=1", scopes="Terminating"))

    assert billed(covering) == []
    assert billed(covering, deadline_s=5) == ["jobs:pods", "wide:pods"]
    assert covering.bill(a_profile("a"), CPU).shares == ()


def test_a_pod_is_compared_with_few_scopes_however_many_are_written(covering):
    """Each new pod is compared with them, and a tenant can write 256 such quotas."""
    looks = Looks()
    classes = tuple(looks.name(f"class{number}") for number in range(500))
    rule = ScopeRule("PriorityClass", "NotIn", classes)
    quota = a_quota("a/one", "pods=1", scopes="NotTerminating " * 500)
    covering.put_quota(replace(quota, scopes=(*quota.scopes, rule, rule)))

    looks.count = 0
    assert billed(covering, priority_class="gold") == ["one:pods"]
    assert looks.count < 10
    [covered] = covering.covering("a")
    assert len(covered.scopes) == 2


def test_only_cluster_wide_quotas_have_shares(covering):
    covering.put_quota(a_quota("a/own", "pods=1"))
    covering.put_quota(a_quota("wide", "pods=5 cpu=9"))

    bill = covering.bill(a_profile("a"), CPU)

    assert [account.resource for account, _, _ in bill.shares] == ["cpu", "pods"]
    assert covering.quota(a_key("wide")).shares.keys() == {"a"}


def test_alike_pods_share_a_bill(covering):
    covering.put_quota(a_quota("a/q", "pods=1"))
    profile = a_profile("a")

    assert covering.bill(profile, CPU) is covering.bill(profile, CPU)
    assert covering.bill(profile, Charge({})) is not covering.bill(profile, CPU)


def test_new_limits_change_no_bill(covering):
    covering.put_quota(a_quota("a/q", "pods=1"))
    bill = covering.bill(a_profile("a"), CPU)

    assert covering.put_quota(a_quota("a/q", "pods=7")) == []
    assert covering.bill(a_profile("a"), CPU) is bill
    assert bill.items[0][0].hard == 7 * 10**9


@pytest.mark.parametrize(
    "changed",
    [
        a_quota("wide", "pods=1 cpu=1", selector="team"),
        a_quota("wide", "pods=1", selector="team", order="fifo"),
        a_quota("wide", "pods=1", selector="team", scopes="NotTerminating"),
        a_quota("wide", "pods=1"),
        a_quota("wide", "pods=1", selector="tier"),
    ],
    ids=["names", "order", "scopes", "wider", "elsewhere"],
)
def test_other_names_scopes_orders_and_selectors_change_bills(covering, changed):
    covering.put_quota(a_quota("wide", "pods=1", selector="team"))
    bill = covering.bill(a_profile("a"), CPU)

    assert "a" in covering.put_quota(changed)
    assert covering.bill(a_profile("a"), CPU) is not bill


def test_an_account_that_stays_keeps_what_is_charged(covering):
    covering.put_quota(a_quota("wide", "pods=1 cpu=2"))
    bill = covering.bill(a_profile("a"), CPU)
    bill.charge_once()
    covered = covering.quota(a_key("wide"))
    pods = covered.accounts["pods"]

    covering.put_quota(a_quota("wide", "pods=4"))

    assert covered.accounts == {"pods": pods}
    assert pods.charged == 10**9
    assert covered.shares["a"].keys() == {"pods"}


def test_a_quota_that_is_dropped_covers_nothing(covering):
    covering.put_quota(a_quota("wide", "pods=1"))
    covering.put_quota(a_quota("a/own", "pods=1"))

    assert sorted(covering.drop_quota(a_key("wide"))) == ["a", "b"]
    assert covering.drop_quota(a_key("wide")) == []
    assert covering.quota(a_key("wide")) is None
    assert billed(covering) == ["own:pods"]
    assert covering.drop_quota(a_key("a/own")) == ["a"]


def test_a_namespace_that_is_dropped_is_covered_by_nothing(covering):
    covering.put_quota(a_quota("wide", "pods=1", selector="team"))
    covering.bill(a_profile("a"), CPU)

    assert covering.drop_namespace("a")
    assert not covering.drop_namespace("a")
    assert not covering.drop_namespace("b")
    assert covering.covering("a") == ()
    assert billed(covering) == []
    covered = covering.quota(a_key("wide"))
    assert (covered.namespaces, covered.shares) == (set(), {})


def test_a_namespace_that_leaves_takes_its_share_along(covering):
    covering.put_quota(a_quota("wide", "pods=1", selector="team"))
    covering.bill(a_profile("a"), CPU)

    assert covering.put_namespace(a_namespace("a"))

    covered = covering.quota(a_key("wide"))
    assert (covered.namespaces, covered.shares) == (set(), {})


def test_few_bills_are_kept_after_their_last_pod(covering):
    covering.put_quota(a_quota("a/q", "pods=1"))
    profile = a_profile("a")
    first = covering.bill(profile, CPU)
    for _ in range(2 * coverage.RECENT_BILLS + 1):
        covering.bill(profile, Charge({}))

    assert covering.bill(profile, CPU) is first
    assert len(covering._bills["a"]) <= 2 * coverage.RECENT_BILLS + 1
    assert len(covering._recent) <= 2 * coverage.RECENT_BILLS


def test_few_bytes_are_kept_in_bills_after_their_last_pod(covering):
    many = " ".join(f"requests.example.com/{number}=1" for number in range(1000))
    covering.put_quota(a_quota("a/q", many))
    profile = a_profile("a")
    for _ in range(200):
        bill = covering.bill(profile, Charge(parsed(many)))

    assert bill.weigh() > 100_000
    assert covering._recent.weight <= 2 * coverage.RECENT_BILLS_BYTES
    assert len(covering._bills["a"]) < 100


def test_no_bill_is_kept_for_a_namespace_that_is_not_known(covering):
    covering.bill(a_profile("unknown"), CPU)

    assert "unknown" not in covering._bills


# ------------------------------------------------------------------ the native counter


def test_pods_that_ask_for_the_same_have_one_charge():
    count = NativeCounter().count
    row = a_row("a/web", "cpu=1", "cpu=2")

    assert count(row) is count(a_row("b/db", "cpu=1", "cpu=2"))
    assert {name: nanos // 10**9 for name, (nanos, _) in count(row).amounts.items()} == {
        "count/pods": 1,
        "pods": 1,
        "cpu": 1,
        "requests.cpu": 1,
        "limits.cpu": 2,
    }


def test_a_charge_is_kept_as_long_as_a_pod_has_its_demand():
    counter = NativeCounter()
    row = a_row("a/web", "cpu=1")
    first, profile = counter.count(row), row.profile
    for _ in range(1000):
        counter.count(row._replace(profile=replace(profile, demand=replace(profile.demand))))

    assert counter.count(row) is first
    assert len(counter._charges) == 1


def test_nothing_is_remembered_of_a_namespace_whose_quotas_are_gone(covering):
    for where in ("a/one", "a/two", "all"):
        covering.put_quota(a_quota(where, "pods=9"))
    for where in ("a/one", "a/two", "all"):
        covering.drop_quota(a_key(where))

    assert (covering._own, covering._cluster_wide) == ({}, {})
