"""What the status of a quota should say."""

import pytest

from bursar.core.quota.account import Charge
from bursar.core.quota.coverage import Coverage, CoveredQuota, Namespace
from bursar.core.quota.quota import (
    NamespaceSelector,
    Quota,
    QuotaKey,
    QuotaKind,
    QuotaObject,
    Reported,
)
from bursar.core.quota.scopes import ScopeRule
from bursar.core.quota.views.statement import (
    SUMMARY_LENGTH_MAX,
    ManagedUsage,
    delegated,
    statement_of,
    used_in,
)
from support.builders.pods import listed, parsed, texts
from support.builders.quota_books import a_profile

OWN = QuotaKey(QuotaKind.NAMESPACED, "blue", "q")
WIDE = QuotaKey(QuotaKind.CLUSTER, "", "q")


def quota(hard: str, key: QuotaKey = OWN, **fields) -> Quota:
    fields = {"selector": NamespaceSelector() if key.kind.is_cluster_wide else None, **fields}
    return Quota(key=key, hard=parsed(hard), **fields)


class Ledger:
    """Quotas and namespaces, and pods charged to them."""

    def __init__(self, subject: Quota, *namespaces: str) -> None:
        self.coverage = Coverage()
        self.coverage.put_quota(subject)
        for name in namespaces or ("blue",):
            self.coverage.put_namespace(Namespace(name=name))
        self._key = subject.key

    def charge(self, usage: str, namespace: str = "blue") -> None:
        self.coverage.bill(a_profile(namespace), Charge(parsed(usage))).charge_once()

    @property
    def covered(self) -> CoveredQuota:
        found = self.coverage.quota(self._key)
        assert found is not None
        return found


def test_each_limit_is_stated_with_its_use():
    books = Ledger(quota("pods=5 requests.cpu=2 requests.memory=4Gi"))
    for _ in range(2):
        books.charge("pods=1 requests.cpu=250m requests.memory=1Gi limits.cpu=1")
    total = statement_of(books.covered).total

    assert texts(total.hard) == listed("pods=5 requests.cpu=2 requests.memory=4Gi")
    assert texts(total.used) == listed("pods=2 requests.cpu=500m requests.memory=2Gi")


def test_nothing_in_use_is_zero():
    books = Ledger(quota("pods=5 requests.memory=4Gi services=3"))

    assert texts(statement_of(books.covered).total.used) == listed(
        "pods=0 requests.memory=0 services=0"
    )


def test_names_no_longer_limited_are_not_stated():
    books = Ledger(quota("pods=5 requests.cpu=2", WIDE))
    books.charge("pods=1 requests.cpu=1")
    books.coverage.put_quota(quota("pods=5", WIDE))
    statement = statement_of(books.covered)

    assert texts(statement.total.used) == {"pods": "1"}
    assert texts(statement.namespaces["blue"].used) == {"pods": "1"}
    assert texts(statement.namespaces["blue"].hard) == {"pods": "5"}


def test_cluster_wide_quota_states_all_its_namespaces_in_order():
    books = Ledger(quota("pods=5", WIDE), "green", "blue", "amber")
    books.charge("pods=1", "green")
    books.charge("pods=1", "blue")
    books.charge("pods=1", "blue")
    statement = statement_of(books.covered)

    assert texts(statement.total.used) == {"pods": "3"}
    parts = [(name, texts(part.used)["pods"]) for name, part in statement.namespaces.items()]
    assert parts == [("amber", "0"), ("blue", "2"), ("green", "1")]


def test_only_the_namespaces_asked_for_are_stated():
    books = Ledger(quota("pods=5", WIDE), "green", "blue")
    books.charge("pods=1", "green")
    statement = statement_of(books.covered, namespaces=("blue", "unknown"))

    assert list(statement.namespaces) == ["blue"]
    assert texts(statement.total.used) == {"pods": "1"}


def test_quota_of_one_namespace_states_no_others():
    assert statement_of(Ledger(quota("pods=5")).covered).namespaces == {}


# ------------------------------------------------------------------ what Kubernetes counts


def managed(used: str, hard: str = "services=3", **fields) -> QuotaObject:
    key = QuotaKey(QuotaKind.NATIVE, "blue", "q-managed")
    return QuotaObject(quota=quota(hard, key, **fields), reported_used=parsed(used))


def test_what_pods_cannot_wait_for_is_delegated():
    hard = parsed(
        "pods=1 cpu=1 limits.memory=1 requests.nvidia.com/gpu=1 cpu/vmi=1 "
        "services=1 requests.storage=1 count/pods=1 hugepages-2Mi=1"
    )

    assert set(delegated(hard)) == {"services", "requests.storage", "count/pods", "hugepages-2Mi"}


@pytest.mark.parametrize(
    ("found", "services"),
    [
        (managed("services=1"), "1"),
        (managed("services=1 pods=9"), "1"),
        (managed("services=1", hard="services=7"), "1"),
        (managed(""), "0"),
        (managed("services=1", scopes=(ScopeRule("BestEffort", "Exists"),)), "0"),
        (None, "0"),
    ],
    ids=["U-ARQ-14", "foreign name", "limit on its way", "U-ARQ-15", "other scope", "no quota"],
)
def test_use_that_kubernetes_counts_is_passed_on(found, services):
    books = Ledger(quota("pods=5 services=3"))
    books.charge("pods=1")
    statement = statement_of(books.covered, used_in(found, books.covered.quota))

    assert texts(statement.total.used) == {"pods": "1", "services": services}


def wide_managed(used: str, **fields) -> QuotaObject:
    key = QuotaKey(QuotaKind.OPENSHIFT, "", "wide-managed")
    parts = {"blue": Reported(used=parsed(used)), "elsewhere": Reported(used=parsed("services=9"))}
    found = quota("services=3", key, **fields)
    return QuotaObject(quota=found, reported_used=parsed(used), reported_namespaces=parts)


@pytest.mark.parametrize(
    ("fields", "services"),
    [
        ({}, "1"),
        ({"selector": NamespaceSelector(annotations={"a": "b"})}, "0"),
        ({"problem": "no"}, "0"),
    ],
    ids=["same namespaces", "other namespaces", "unreadable"],
)
def test_use_that_openshift_counts_is_passed_on_with_its_parts(fields, services):
    books = Ledger(quota("pods=5 services=3", WIDE), "green", "blue")
    found = wide_managed("services=1", **fields)
    statement = statement_of(books.covered, used_in(found, books.covered.quota))

    assert texts(statement.total.used) == {"pods": "0", "services": services}
    assert {name: texts(part.used)["services"] for name, part in statement.namespaces.items()} == {
        "blue": services,
        "green": "0",
    }


# ------------------------------------------------------------------ for people


def test_summary_is_one_sorted_line():
    books = Ledger(quota("requests.cpu=2 pods=5"))
    books.charge("pods=1 requests.cpu=500m")

    assert statement_of(books.covered).summary == "pods 1/5, requests.cpu 500m/2"


def test_summary_of_no_limits_is_empty():
    assert statement_of(Ledger(quota("")).covered).summary == ""


def test_long_summary_says_how_many_more_there_are():
    hard = " ".join(f"requests.example.com/device-{number:02}=1" for number in range(40))
    summary = statement_of(Ledger(quota(hard)).covered).summary

    assert len(summary) <= SUMMARY_LENGTH_MAX
    assert summary.startswith("requests.example.com/device-00 0/1, ")
    shown = summary.count("0/1")
    assert summary.endswith(f", and {40 - shown} more")


def test_debts_are_what_is_above_its_limit():
    books = Ledger(quota("pods=5 requests.cpu=1 services=1 memory=1"))
    books.charge("pods=1 requests.cpu=2 memory=1")
    statement = statement_of(books.covered, ManagedUsage(total=parsed("services=4")))

    assert statement.exceeded == ("requests.cpu", "services")
    assert statement.debts == "requests.cpu 2/1, services 4/1"


def test_nothing_is_exceeded_at_the_limit():
    books = Ledger(quota("pods=1"))
    books.charge("pods=1")
    statement = statement_of(books.covered)

    assert (statement.exceeded, statement.debts) == ((), "")


# ------------------------------------------------------------------ kinds


def test_only_the_kinds_of_aaq_hold_pods():
    assert [kind for kind in QuotaKind if kind.holds_pods] == [
        QuotaKind.NAMESPACED,
        QuotaKind.CLUSTER,
    ]
    assert [kind for kind in QuotaKind if kind.is_cluster_wide] == [
        QuotaKind.CLUSTER,
        QuotaKind.OPENSHIFT,
    ]
