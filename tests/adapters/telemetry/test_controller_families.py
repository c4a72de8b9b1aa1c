"""The controller's own families: read from the books and counters as they are."""

from dataclasses import fields, replace

import pytest

from assets import ROOT
from bursar.adapters.kube.limiter import Limiter
from bursar.adapters.telemetry.controller.capacity_families import CapacityView, capacity_families
from bursar.adapters.telemetry.controller.families import (
    ControllerView,
    TermView,
    books_families,
    controller_families,
    drift_families,
    term_families,
)
from bursar.adapters.telemetry.exposition import exposition
from bursar.adapters.telemetry.process import process_families
from bursar.app.capacity.usage import usage_of
from bursar.app.cluster.events.recorder import Drop
from bursar.app.cluster.informer.informer import InformerCounters
from bursar.app.cluster.kinds import PODS
from bursar.app.quota.drift import Drift
from bursar.app.quota.quota_loop import RELEASE_BOUNDS, QuotaCounters
from bursar.app.quota.release.lifting import LiftCounters
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.capacity import CapacityNode
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.names import Unit
from bursar.core.quota.quota import QuotaObject, ReportedCondition
from bursar.core.quota.refusal import Reason
from bursar.core.quota.releases import ReleaseOutcome
from support.builders.quota_books import a_namespace, a_quota, a_row, running
from support.metrics.every_metric import Told
from support.metrics.printed_metrics import samples

METRICS_PAGE = ROOT / "docs" / "reference" / "metrics.md"


class Followed:
    resource = PODS

    def __init__(self, staleness_seconds: float) -> None:
        self.staleness_seconds = staleness_seconds
        self.counters = InformerCounters(events=7, decode_failures=1)

    def __len__(self) -> int:
        return 42


def some_books() -> Books:
    books = Books(NativeCounter().count)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/q", "pods=1 requests.cpu=2"))
    return books


def a_term(books: Books | None = None, **parts: object) -> TermView:
    known = {"loop": QuotaCounters(), "lifts": LiftCounters(), "quotas": ()}
    return TermView(**{"books": books or some_books(), **known, **parts})


def a_view(**parts: object) -> ControllerView:
    limiter = Limiter(floor=2, ceiling=32, growth_after=20)
    known = {"is_leader": True, "informers": (), "limiter": limiter, "recorders": ()}
    return ControllerView(**{**known, **parts})


def shown_in(families: object) -> dict[str, str]:
    return samples(exposition(families).decode())


# ------------------------------------------------------------------ what waits


def waiting(books: Books) -> dict[str, str]:
    shown = shown_in(books_families(books))
    prefix = 'bursar_waiting_pods{reason="'
    found = {
        name.removeprefix(prefix).removesuffix('"}'): count
        for name, count in shown.items()
        if name.startswith(prefix)
    }
    assert set(found) == {reason.value for reason in Reason}
    return {reason: count for reason, count in found.items() if count != "0"}


def test_pods_are_counted_by_why_they_wait():
    books = some_books()
    books.see_pod(running(a_row("a/first", "cpu=1")))
    for name in ("second", "third"):
        books.see_pod(a_row(f"a/{name}", "cpu=1"))
    books.see_pod(a_row("a/huge", "cpu=3"))
    books.see_pod(a_row("elsewhere/web", "cpu=1"))
    books.decide()

    assert waiting(books) == {
        "QuotaExceeded": "2",
        "QuotaTooSmall": "1",
        "NamespaceUnknown": "1",
    }


def test_quotas_whose_names_nothing_counts_are_counted():
    uncounted = ReportedCondition(
        type="Ready",
        status="False",
        reason="NotCounted",
        message="",
        changed_at=None,
        observed_generation=1,
    )
    quotas = [
        QuotaObject(quota=a_quota("a/q", "cpu/vmi=1"), reported_conditions=(uncounted,)),
        QuotaObject(quota=a_quota("a/r", "pods=1")),
    ]

    assert shown_in(term_families(a_term(quotas=quotas)))["bursar_quotas_not_counted"] == "1"


def test_who_may_not_pass_is_counted_as_behind_another():
    books = some_books()
    books.see_quota(a_quota("a/q", "requests.cpu=2", order="fifo"))
    books.see_pod(running(a_row("a/first", "cpu=1")))
    books.see_pod(a_row("a/large", "cpu=2", created_s=1))
    books.see_pod(a_row("a/small", "cpu=1", created_s=2))
    books.decide()

    assert waiting(books) == {"QuotaExceeded": "1", "BehindAnother": "1"}


def test_pods_nobody_has_decided_about_wait_for_no_reason_yet():
    books = some_books()
    books.see_pod(a_row("a/web", "cpu=1"))

    assert waiting(books) == {}
    assert shown_in(books_families(books))["bursar_undecided_pods"] == "1"


def test_the_ledger_is_shown_with_flights_and_debts():
    books = some_books()
    for number in range(3):
        books.see_pod(running(a_row(f"a/web-{number}", "cpu=500m")))
    books.see_quota(a_quota("a/other", "requests.cpu=9"))
    shown = shown_in(books_families(books))

    assert shown["bursar_ledger_pods"] == "3"
    labels = 'kind="ApplicationAwareResourceQuota",namespace="a",quota="q",resource="pods"'
    assert {name: value for name, value in shown.items() if "debt" in name} == {
        f'bursar_ledger_debt{{{labels},unit="count"}}': "2"
    }

    books = some_books()
    books.see_pod(a_row("a/web", "cpu=1"))
    books.decide()
    shown = shown_in(books_families(books))
    assert (shown["bursar_releases_in_flight"], shown["bursar_ledger_reservations"]) == ("1", "1")


# ------------------------------------------------------------------ counters


def test_releases_are_a_histogram_and_refusals_are_counted_by_reason():
    loop = QuotaCounters(released=5, exempt=1, release_seconds_sum=12.5, decisions=9)
    loop.release_seconds[0], loop.release_seconds[-1] = 4, 1
    loop.refusals[Reason.QUOTA_EXCEEDED] = 3

    shown = shown_in(controller_families(a_view(term=a_term(loop=loop))))

    assert (shown["bursar_released_total"], shown["bursar_freed_total"]) == ("5", "1")
    assert shown['bursar_release_seconds_bucket{le="0.1"}'] == "4"
    assert shown['bursar_release_seconds_bucket{le="3600"}'] == "4"
    assert shown['bursar_release_seconds_bucket{le="+Inf"}'] == "5"
    assert shown["bursar_release_seconds_sum"] == "12.5"
    assert sum("release_seconds_bucket" in name for name in shown) == len(RELEASE_BOUNDS) + 1
    assert shown['bursar_refusals_total{reason="QuotaExceeded"}'] == "3"
    assert shown['bursar_refusals_total{reason="BehindAnother"}'] == "0"


def test_writes_are_counted_by_how_they_ended():
    lifts = LiftCounters(writes=9, retries=2)
    lifts.outcomes[ReleaseOutcome.LIFTED] = 5

    shown = shown_in(controller_families(a_view(term=a_term(lifts=lifts))))

    assert shown["bursar_api_writes_total"] == "9"
    assert shown["bursar_api_write_retries_total"] == "2"
    assert shown['bursar_lifts_total{answer="lifted"}'] == "5"
    assert shown['bursar_lifts_total{answer="refused"}'] == "0"


def test_every_counter_of_an_informer_is_shown():
    view = a_view(informers=(Followed(1.5),))

    shown = shown_in(controller_families(view))

    for field in fields(InformerCounters):
        assert f'bursar_informer_{field.name}_total{{resource="pods"}}' in shown
    assert shown['bursar_informer_staleness_seconds{resource="pods"}'] == "1.5"
    assert shown['bursar_informer_objects{resource="pods"}'] == "42"
    assert shown['bursar_informer_events_total{resource="pods"}'] == "7"


def test_informers_of_one_resource_are_one_series():
    """Prometheus refuses two samples of the same labels."""
    shown = shown_in(controller_families(a_view(informers=(Followed(1.5), Followed(0.5)))))

    assert shown['bursar_informer_staleness_seconds{resource="pods"}'] == "1.5"
    assert shown['bursar_informer_objects{resource="pods"}'] == "84"
    assert shown['bursar_informer_events_total{resource="pods"}'] == "14"


def test_an_informer_that_never_listed_is_infinitely_stale():
    shown = shown_in(controller_families(a_view(informers=(Followed(float("inf")),))))

    assert shown['bursar_informer_staleness_seconds{resource="pods"}'] == "+Inf"


def test_events_are_dropped_for_reasons_of_the_documentation():
    view = a_view(recorders=(Told({Drop.QUEUE_FULL: 3}, 1), Told({Drop.QUEUE_FULL: 1}, 2)))

    shown = shown_in(controller_families(view))

    assert shown['bursar_event_dropped_total{reason="QUEUE_FULL"}'] == "4"
    assert shown['bursar_event_dropped_total{reason="REFUSED"}'] == "0"
    assert shown["bursar_event_waiting"] == "3"


def test_the_limiter_is_shown():
    limiter = Limiter(floor=1, ceiling=7, growth_after=20)
    limiter.throttled_total = 2

    shown = shown_in(controller_families(a_view(limiter=limiter)))

    assert (shown["bursar_limiter_limit"], shown["bursar_limiter_in_flight"]) == ("7", "0")
    assert (shown["bursar_limiter_waiting"], shown["bursar_limiter_throttled_total"]) == ("0", "2")


def test_a_replica_that_does_not_lead_shows_nothing_of_a_term():
    shown = shown_in(controller_families(a_view(is_leader=False)))

    assert shown["bursar_leader"] == "0"
    assert not [name for name in shown if name.startswith(("bursar_ledger", "bursar_released"))]
    assert shown_in(controller_families(a_view()))["bursar_leader"] == "1"


def test_drift_is_shown_once_it_is_known():
    largest = dict.fromkeys(Unit, Quantity.of(0)) | {Unit.CORE: Quantity.parse("250m")}
    drift = Drift(accounts=1, largest=largest, count_seconds=0.25)

    assert list(drift_families(None)) == []
    assert shown_in(drift_families(drift)) == {
        "bursar_ledger_drift_accounts": "1",
        'bursar_ledger_drift{unit="bytes"}': "0",
        'bursar_ledger_drift{unit="core"}': "0.25",
        'bursar_ledger_drift{unit="count"}': "0",
        "bursar_ledger_recount_seconds": "0.25",
    }


# ------------------------------------------------------------------ the page


def test_the_documentation_lists_every_reason():
    page = METRICS_PAGE.read_text()

    assert [reason.value for reason in Reason if f"`{reason.value}`" not in page] == []


# ------------------------------------------------------------------ capacity


def asking(key: str, amount: str, **fields: object) -> PodRow:
    requests = {"example.com/a": Quantity.parse(amount)}
    row = a_row(key)
    demand = replace(row.demand, assigned_requests=requests, quota_requests=requests)
    return row._replace(profile=replace(row.profile, demand=demand, gates=()), **fields)


def test_capacity_that_we_keep_is_shown_with_its_use_and_what_waits_for_it():
    node = CapacityNode(
        name="n",
        capacity={"example.com/a": Quantity.parse("4"), "example.com/theirs": Quantity.parse("9")},
        marked={"example.com/a": 4},
    )
    behind = asking("a/gated", "3")
    gated = behind._replace(profile=replace(behind.profile, gates=("example.com/gate",)))
    use = usage_of([asking("a/p", "3", node_name="n"), asking("a/waits", "2"), gated])

    declared = frozenset({"example.com/none-yet"})
    view = CapacityView(nodes=[node], declared=declared, usage=use, healed=2)

    shown = shown_in(capacity_families(view))

    labels = '{node="n",resource="example.com/a"}'
    kept, none_yet = '{resource="example.com/a"}', '{resource="example.com/none-yet"}'
    assert shown == {
        f"bursar_node_capacity{labels}": "4",
        f"bursar_node_capacity_used{labels}": "3",
        f"bursar_capacity_waiting{kept}": "5",
        f"bursar_capacity_waiting{none_yet}": "0",
        f"bursar_capacity_waiting_pods{kept}": "2",
        f"bursar_capacity_waiting_pods{none_yet}": "0",
        f"bursar_capacity_gated_pods{kept}": "1",
        f"bursar_capacity_gated_pods{none_yet}": "0",
        "bursar_capacity_healed_total": "2",
    }


def test_the_process_is_shown_under_the_usual_names():
    shown = shown_in(process_families())

    assert float(shown["process_resident_memory_bytes"]) > 1_000_000
    assert 3 <= int(shown["process_open_fds"]) <= int(shown["process_max_fds"])
    assert float(shown["process_start_time_seconds"]) > 1_000_000_000
    assert float(shown["process_cpu_seconds_total"]) > 0
    assert float(shown["process_virtual_memory_bytes"]) > 1_000_000


@pytest.mark.parametrize("stat", ["", "btime 12\n"])
def test_where_there_is_no_proc_only_the_version_is_shown(tmp_path, stat):
    if stat:
        (tmp_path / "stat").write_text(stat)

    assert [family.name for family in process_families(tmp_path)] == ["bursar_build_info"]
