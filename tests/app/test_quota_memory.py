"""What a tenant writes does not stay: caches are bounded, or live no longer than their pods.

Memory is counted as the caches count it. `benchmarks/hostile_pods.py` measures the process.
"""

import json
from dataclasses import replace

import pytest

from bursar.core.model.pod_row import NAMES_MAX
from bursar.core.quota import coverage
from bursar.core.quota.account import ASKED_MAX
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE
from bursar.core.quota.waiting_pods.timers import STALE_MAX, PodTimers
from bursar.wire.model import pod_row
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.manifests import pod_manifest
from support.builders.quota_books import NOW_S, UNGATED, a_namespace, a_quota, a_row

UPDATES = 10_000
NAMES = {f"example.com/r{number:05}": "1" for number in range(3000)}


class Controller:
    """The parts of a leader that keep something of pods."""

    def __init__(self) -> None:
        self.decoder = PodRowDecoder()
        self.counter = NativeCounter()
        self.books = Books(self.counter.count)
        self.books.advance(NOW_S)
        self.books.see_namespace(a_namespace("a"))
        self.books.see_quota(a_quota("a/q", "pods=5 requests.cpu=5 requests.example.com/r00007=9"))

    def see(self, version: int, *gates: str, name: str = "web", **fields) -> None:
        metadata = {"resourceVersion": str(version), "uid": f"uid-{name}"} | fields.pop("meta", {})
        raw = pod_manifest(f"a/{name}", *gates, metadata=metadata, **fields)
        self.books.see_pod(self.decoder.decode(json.dumps(raw).encode()))
        self.books.decide()

    def kept(self) -> dict[str, int]:
        """Entries that live as long as pods, by cache."""
        bills = self.books.coverage._bills.get("a", ())
        return {
            "profiles": len(self.decoder._profiles),
            "charges": len(self.counter._charges),
            "bills": len(bills),
        }

    def check_bounds(self) -> None:
        decoder, recent = self.decoder, self.books.coverage._recent
        assert decoder._texts.weight <= 2 * pod_row.TEXTS_BYTES_MAX
        assert decoder._demands.weight <= 2 * pod_row.DEMANDS_BYTES_MAX
        assert len(recent) <= 2 * coverage.RECENT_BILLS
        assert recent.weight <= 2 * coverage.RECENT_BILLS_BYTES


@pytest.fixture
def controller():
    return Controller()


def resources(requests):
    return [{"name": "c", "resources": {"requests": requests, "limits": requests}}]


def test_labels_of_one_pod_that_change_are_bounded(controller):
    for version in range(UPDATES):
        labels = {f"key-{version}": "x" * 60, "app": f"value-{version}"}
        controller.see(version, meta={"labels": labels})

    controller.check_bounds()
    assert controller.kept() == {"profiles": 1, "charges": 1, "bills": 1}


def test_thousands_of_labels_of_one_pod_that_change_are_bounded(controller):
    for version in range(60):
        labels = {f"key-{number}": f"{version}" for number in range(3000)}
        controller.see(version, meta={"labels": labels})

        controller.check_bounds()


def test_resources_of_one_pod_that_change_are_bounded(controller):
    for version in range(UPDATES):
        controller.see(version, requests=f"cpu={version + 1}m memory=1Gi")

    controller.check_bounds()
    bound = 2 * coverage.RECENT_BILLS + 2
    assert max(controller.kept().values()) <= 2 * pod_row.DEMANDS_MAX + bound
    assert controller.kept()["bills"] <= bound


def test_very_many_names_of_one_pod_that_change_are_bounded(controller):
    for version in range(150):
        names = {**NAMES, f"example.com/x{version}": "1"}
        controller.see(version, containers=resources(names))

        controller.check_bounds()


def test_very_many_names_that_stay_are_kept_once(controller):
    for version in range(50):
        controller.see(version, containers=resources(NAMES), meta={"labels": {"v": f"{version}"}})

    assert controller.kept() == {"profiles": 1, "charges": 1, "bills": 1}
    used = controller.books.coverage.quota(a_quota("a/q", "").key).accounts
    assert str(used["requests.example.com/r00007"].used) == "1"
    assert len(NAMES) > NAMES_MAX


def test_quotas_that_list_other_names_all_the_time_leave_few_in_the_charge_of_a_pod(controller):
    controller.see(1, containers=resources(NAMES))
    [(charge, _)] = controller.counter._charges.entries.values()
    for version in range(20):
        unknown = [f"requests.example.com/x{version}-{number}=1" for number in range(150)]
        known = [f"requests.example.com/r{number:05}=1" for number in range(version, version + 9)]
        controller.books.see_quota(a_quota("a/q", " ".join([*unknown, *known])))
        controller.books.decide()

    covered = controller.books.coverage.quota(a_quota("a/q", "").key)
    used = {name: str(each.used) for name, each in covered.accounts.items() if each.charged}
    assert used == {f"requests.example.com/r{number:05}": "1" for number in range(19, 28)}
    assert len(charge._asked) <= ASKED_MAX
    assert len(charge.amounts) < 200


def test_a_pod_of_many_containers_is_counted_once_for_all_its_updates(controller):
    amounts = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    containers = [{"name": f"c{number}", "resources": amounts} for number in range(100)]
    for version in range(50):
        controller.see(version, containers=containers)

    assert controller.kept() == {"profiles": 1, "charges": 1, "bills": 1}


def test_pods_that_come_and_go_leave_nothing_but_what_is_bounded(controller):
    for version in range(3000):
        name = f"web-{version}"
        controller.see(version, GATE, name=name, requests=f"cpu={version}m")
        controller.books.lose_pod("a", name)

    controller.check_bounds()
    assert len(controller.books.waiting) == 0
    assert len(controller.books._steady_timers) <= STALE_MAX


def test_pods_deleted_with_a_grace_period_of_years_leave_no_timer(controller):
    books = controller.books
    for number in range(1000):
        books.see_pod(a_row(f"a/{number}", gates=UNGATED, deletion=(NOW_S + 10**9, 10**9)))
        books.lose_pod("a", str(number))

    assert len(books._wall_timers) <= STALE_MAX
    assert len(books._wall_timers._due_s) == 0


def test_pods_that_come_and_go_behind_one_that_waits_are_forgotten(controller):
    books = controller.books
    books.see_pod(a_row("a/first", "cpu=100", created_s=1))
    for number in range(1000):
        books.see_pod(a_row(f"a/{number}", "cpu=100", created_s=2))
        books.decide()
        books.lose_pod("a", str(number))

    group = books.waiting.group_of(PodKey("a", "first"))
    assert group.head().name == "first"
    assert len(group._arrivals) < 100


def fired(timers, now_s):
    return iter(lambda: timers.pop_due(now_s), None)


def test_timers_fire_in_order_once_and_not_if_they_are_cancelled():
    timers = PodTimers()
    pods = {number: PodKey("a", f"{number:03}") for number in range(200)}
    for number, pod in pods.items():
        timers.set(1000 - number, pod)
        timers.set(2000, pod)
    for number in range(190):
        timers.cancel(pods[number])
        timers.cancel(pods[number])

    assert timers.next_due_s == 801
    assert list(fired(timers, 805)) == [pods[number] for number in range(199, 194, -1)]
    timers.set(806, pods[199])
    assert list(fired(timers, 806)) == [pods[194], pods[199]]
    assert len(timers) < 100


def test_a_charge_of_a_demand_that_is_gone_is_not_that_of_another_one():
    """Charges are found by the address of the demand, and addresses are used again."""
    counter = NativeCounter()
    row = a_row("a/web", "cpu=1")
    for cores in range(1, 300):
        amounts = {"cpu": next(iter(row.demand.quota_requests.values())) * cores}
        demand = replace(row.demand, quota_requests=amounts, quota_limits={})
        charge = counter.count(row._replace(profile=replace(row.profile, demand=demand)))

        assert charge.amounts["requests.cpu"][0] == cores * 10**9
        del demand


def test_groups_that_change_before_they_are_tried_leave_nothing(controller):
    """A quota that changes all the time leaves no time for a decision."""
    books = controller.books
    for number in range(20):
        books.see_pod(a_row(f"a/{number}", f"cpu={number + 1}m"))
    for number in range(200):
        books.see_quota(a_quota("a/q", "cpu=0" if number % 2 else "cpu=0 pods=0"))

    assert len(books.waiting.groups_in("a")) == 20
    assert len(books.waiting._lines["a"]._untried) <= 2 * 20 + STALE_MAX


def test_a_group_whose_first_pod_changes_before_it_is_tried_is_kept_once(controller):
    books = controller.books
    books.see_pod(a_row("a/stays", "cpu=10"))
    for _ in range(200):
        books.see_pod(a_row("a/older", "cpu=10", created_s=-1))
        books.lose_pod("a", "older")

    assert len(books.waiting._lines["a"]._untried) <= 2 + STALE_MAX
    assert [each.row.name for each in books.decide().waits] == ["stays"]
