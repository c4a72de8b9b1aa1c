"""Several counters as one: sums, native counting of the rest, and pods that must wait."""

import pytest

from bursar.core.counting.counter import Pending, fact_of
from bursar.core.counting.counters import CountedPart, Counters, PendingPart
from bursar.core.model.pod_row import Extras
from bursar.core.quota.account import FORMATS, to_quantity
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NotReady
from bursar.core.quota.ledger import PodKey
from support.builders.pods import parsed
from support.builders.quota_books import NOW_S, UNGATED, a_namespace, a_quota, a_row, cpu
from support.counting.table_counter import TableCounter


@pytest.fixture
def one():
    return TableCounter("one", names=("cpu/vmi",))


@pytest.fixture
def two():
    return TableCounter("two", names=("instances/notebook",))


@pytest.fixture
def counters(one, two):
    return Counters((one, two))


def amounts(charge) -> dict[str, str]:
    return {
        name: str(to_quantity(nanos, FORMATS[style]))
        for name, (nanos, style) in charge.amounts.items()
    }


def test_a_pod_that_no_counter_counts_costs_what_kubernetes_counts(counters):
    row = a_row("a/web", "cpu=1 memory=1Gi")

    assert counters.count(row) is counters.count(a_row("a/other", "cpu=1 memory=1Gi"))
    assert amounts(counters.count(row))["requests.memory"] == "1Gi"
    [part] = counters.explain(row)
    assert (part.counter, part.reason) == ("native", "requests and limits of the pod")


def test_counters_add_up_and_native_counting_is_left_out(counters, one, two):
    one.table["web"], two.table["web"] = "cpu=500m memory=1Gi", "cpu=2 instances/notebook=1"
    row = a_row("a/web", "cpu=64")

    assert amounts(counters.count(row)) == {
        "cpu": "2500m",
        "memory": "1Gi",
        "instances/notebook": "1",
    }
    assert counters.explain(row) == (
        CountedPart("one", "one says so", parsed("cpu=500m memory=1Gi")),
        CountedPart("two", "two says so", parsed("cpu=2 instances/notebook=1")),
    )


def test_a_counter_may_charge_nothing(counters, one):
    one.table["helper"] = ""

    assert amounts(counters.count(a_row("a/helper", "cpu=1"))) == {}


@pytest.fixture
def extra():
    return TableCounter("extra", is_addition=True)


def test_an_addition_comes_on_top_of_native_counting(extra, one):
    counters = Counters((extra, one))
    extra.table["web"] = "gpu/koordinator=500m cpu=1"
    row = a_row("a/web", "cpu=2")

    assert amounts(counters.count(row)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "3",
        "requests.cpu": "2",
        "gpu/koordinator": "500m",
    }
    native, added = counters.explain(row)
    assert native.counter == "native"
    assert added == CountedPart(
        "extra", "extra says so", parsed("gpu/koordinator=500m cpu=1"), is_addition=True
    )


def test_an_addition_comes_on_top_of_what_takes_the_place_of_native_counting(extra, one):
    counters = Counters((extra, one))
    extra.table["web"], one.table["web"] = "gpu/koordinator=1", "cpu/vmi=4"

    charge = counters.count(a_row("a/web", "cpu=2"))

    assert amounts(charge) == {"gpu/koordinator": "1", "cpu/vmi": "4"}


def test_a_pod_that_waits_costs_its_additions_for_the_time_being(extra, one):
    counters = Counters((extra, one))
    extra.table["web"], one.table["web"] = "cpu=1 gpu/koordinator=1", Pending("no VM")
    row = a_row("a/web", "cpu=2")

    answer = counters.count(row)

    assert isinstance(answer, NotReady)
    assert amounts(answer.provisional)["cpu"] == "3"
    assert amounts(answer.provisional)["gpu/koordinator"] == "1"
    assert [type(each) for each in counters.explain(row)] == [CountedPart, PendingPart]


def test_pods_that_cost_the_same_share_one_charge(counters, one):
    one.table |= {"a": "cpu=1", "b": "cpu=1", "c": "cpu=1000m"}

    first, *others = [counters.count(a_row(f"a/{name}", "memory=1Ki")) for name in "abc"]

    assert all(each is first for each in others)


def test_charges_are_forgotten_with_the_last_pod_that_has_them(counters, one):
    one.table |= {"a": "cpu=1", "b": "cpu=2"}
    first = counters.count(a_row("a/a"))
    for _ in range(1000):
        counters.count(a_row("a/b"))

    assert len(counters._charges) == 1
    assert counters.count(a_row("a/a")) is first


def test_a_pod_waits_while_one_of_its_counters_cannot_tell(counters, one, two):
    one.table["web"], two.table["web"] = Pending("VM db is not listed"), "cpu=3"
    row = a_row("a/web", "cpu=1 memory=1Gi")

    answer = counters.count(row)

    assert isinstance(answer, NotReady)
    assert answer.detail == "one: VM db is not listed"
    # A running pod whose charge is not known costs at least what is known of it.
    assert amounts(answer.provisional)["cpu"] == "3"
    assert amounts(answer.provisional)["memory"] == "1Gi"
    assert counters.explain(row)[0] == PendingPart("one", "VM db is not listed")


def test_a_pod_that_waits_costs_what_is_known_for_the_time_being(counters, one, two):
    one.table["web"] = Pending("type unknown", parsed("cpu=4 instances/notebook=1"))
    two.table["web"] = "cpu=3"
    row = a_row("a/web", "cpu=1 memory=1Gi")

    provisional = amounts(counters.count(row).provisional)

    assert (provisional["cpu"], provisional["memory"]) == ("4", "1Gi")
    assert provisional["instances/notebook"] == "1"
    one.table["web"] = Pending("type unknown", parsed("cpu=-4"))
    assert amounts(counters.count(row).provisional)["cpu"] == "3"


@pytest.mark.parametrize("absurd", ["cpu=-1", "memory=9223372036854775808", "cpu=-1n"])
def test_an_amount_that_no_pod_can_cost_is_not_charged(counters, one, absurd):
    one.table["web"] = absurd

    answer = counters.count(a_row("a/web", "cpu=1"))

    assert isinstance(answer, NotReady)
    assert "which no pod can cost" in answer.detail


def test_names_that_some_counter_charges(counters):
    charged = ["cpu", "requests.example.com/gpu", "cpu/vmi", "instances/notebook"]
    assert all(map(counters.may_charge, charged))
    assert not counters.may_charge("memory/vmi")


def test_facts_are_found_by_their_type(counters):
    assert Counters().derive_facts is None
    assert counters.derive_facts(b'{"metadata": {}}') is None

    facts = counters.derive_facts(b'{"kept": 1}')
    row = a_row("a/web")._replace(extras=Extras(None, facts))

    assert fact_of(row, bytes) == b'{"kept": 1}'
    assert fact_of(row, str) is None
    assert fact_of(a_row("a/web"), bytes) is None


class Pairs(TableCounter):
    """Charges the first pod of a namespace, whichever that is."""

    def __init__(self) -> None:
        super().__init__("pairs")
        self.rows = {}

    def see_pod(self, row):
        self.rows[row.name] = row
        return [each for each in self.rows.values() if each.name != row.name]

    def lose_pod(self, pod):
        self.rows.pop(pod.name, None)
        return list(self.rows.values())

    def count(self, row):
        self.table = dict.fromkeys(self.rows, "cpu=0")
        self.table[min(self.rows)] = "cpu=500m"
        return super().count(row)


def test_a_pod_that_comes_or_goes_changes_what_others_cost():
    counters = Counters((Pairs(),))
    books = Books(counters.count, related=counters)
    books.advance(NOW_S)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/q", "cpu=1"))

    books.see_pod(a_row("a/second", gates=UNGATED))
    assert cpu(books) == (500, 0)
    books.see_pod(a_row("a/first", gates=UNGATED))
    assert cpu(books) == (500, 0)
    assert amounts(books.ledger.bill_of(PodKey("a", "first")).charge) == {"cpu": "500m"}

    books.lose_pod("a", "first")

    assert amounts(books.ledger.bill_of(PodKey("a", "second")).charge) == {"cpu": "500m"}
    assert cpu(books) == (500, 0)
