"""Metrics of the controller: waiting pods, releases, the ledger, informers and the API client.

Each function turns the counters of one part into metric families. The families of the
books exist only on the replica that leads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Final, Protocol

from bursar.adapters.telemetry.event_families import event_families
from bursar.adapters.telemetry.exposition import (
    Family,
    Kind,
    Sample,
    counter,
    gauge,
    histogram,
)
from bursar.adapters.telemetry.quota_families import quota_families
from bursar.app.cluster.events.recorder import Drop
from bursar.app.cluster.informer.informer import InformerCounters
from bursar.app.cluster.observe import RunningInformer
from bursar.app.quota.drift import Drift
from bursar.app.quota.lifting import LiftCounters
from bursar.app.quota.quota_loop import RELEASE_BOUNDS, QuotaCounters
from bursar.core.quota.account import to_quantity
from bursar.core.quota.books import Books
from bursar.core.quota.names import unit_of
from bursar.core.quota.queue import count_waiting
from bursar.core.quota.quota import QuotaObject


class Limited(Protocol):
    """What metrics read of the API client's limiter."""

    limit: int
    in_flight: int
    throttled_total: int

    @property
    def waiting(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TermView:
    """What metrics read of a term: it exists while this replica leads."""

    books: Books
    loop: QuotaCounters
    lifts: LiftCounters
    quotas: Sequence[QuotaObject]
    drift: Drift | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """What metrics read of a controller, gathered for each scrape."""

    is_leader: bool
    informers: Sequence[RunningInformer]
    limiter: Limited
    dropped_events: Mapping[Drop, int]
    waiting_events: int = 0
    term: TermView | None = None


def controller_families(view: ControllerView) -> Iterator[Family]:
    yield gauge("bursar_leader", "1 if this replica leads, else 0.", Sample(int(view.is_leader)))
    yield from informer_families(view.informers)
    yield from limiter_families(view.limiter)
    yield from event_families(view.dropped_events, view.waiting_events)
    if view.term is not None:
        yield from term_families(view.term)


def term_families(term: TermView) -> Iterator[Family]:
    return chain(
        release_families(term.loop),
        lift_families(term.lifts),
        books_families(term.books),
        drift_families(term.drift),
        quota_families(term.quotas),
    )


# ------------------------------------------------------------------ decisions


def release_families(loop: QuotaCounters) -> Iterator[Family]:
    yield counter(
        "bursar_released_total", "Pods whose quota gate was removed.", Sample(loop.released)
    )
    yield counter(
        "bursar_freed_total",
        "Released pods whose namespace is no longer targeted by quotas.",
        Sample(loop.exempt),
    )
    yield histogram(
        "bursar_release_seconds",
        "Time from a pod's creation to its release, in seconds.",
        bounds=RELEASE_BOUNDS,
        counts=loop.release_seconds,
        total=loop.release_seconds_sum,
    )
    yield counter(
        "bursar_refusals_total",
        "Pods refused release, by reason.",
        *(Sample(count, {"reason": reason.value}) for reason, count in loop.refusals.items()),
    )
    yield counter(
        "bursar_decision_rounds_total",
        "Rounds of deciding about waiting pods.",
        Sample(loop.decisions),
    )


def lift_families(lifts: LiftCounters) -> Iterator[Family]:
    yield counter(
        "bursar_api_writes_total", "Requests sent to remove a gate.", Sample(lifts.writes)
    )
    yield counter(
        "bursar_api_write_retries_total",
        "Requests to remove a gate that were repeated after no clear answer.",
        Sample(lifts.retries),
    )
    yield counter(
        "bursar_lifts_total",
        "Tries to remove a gate, by outcome.",
        *(Sample(count, {"answer": each.value}) for each, count in lifts.outcomes.items()),
    )


def books_families(books: Books) -> Iterator[Family]:
    waiting = count_waiting(books)
    yield gauge(
        "bursar_waiting_pods",
        "Pods that wait at the gate, by reason. Of several reasons the most severe one counts.",
        *(Sample(count, {"reason": why.value}) for why, count in waiting.by_reason.items()),
    )
    yield gauge(
        "bursar_undecided_pods",
        "Waiting pods that the next round decides about.",
        Sample(waiting.undecided),
    )
    yield gauge(
        "bursar_releases_in_flight",
        "Pods whose gate is being removed.",
        Sample(books.pending_release_count),
    )
    yield gauge("bursar_ledger_pods", "Pods charged to a quota.", Sample(books.ledger.pod_count))
    yield gauge(
        "bursar_ledger_reservations",
        "Reservations in the ledger: releases in flight and resizes.",
        Sample(books.ledger.reservation_count),
    )
    yield Family(
        name="bursar_ledger_debt",
        kind=Kind.GAUGE,
        help="Amount by which a quota is overdrawn, for example after its limit was lowered.",
        samples=_debts(books),
    )


def _debts(books: Books) -> Iterator[Sample]:
    for covered in books.coverage.quotas():
        key = covered.quota.key
        for name, account in covered.accounts.items():
            if account.debt:
                labels = {
                    "kind": key.kind.value,
                    "namespace": key.namespace,
                    "quota": key.name,
                    "resource": name,
                    "unit": unit_of(name).value,
                }
                yield Sample(to_quantity(account.debt, account.format), labels)


def drift_families(drift: Drift | None) -> Iterator[Family]:
    if drift is None:
        return
    yield gauge(
        "bursar_ledger_drift_accounts",
        "Accounts whose ledger balance differs from a recount of all pods. Expected: 0.",
        Sample(drift.accounts),
    )
    yield gauge(
        "bursar_ledger_drift",
        "Largest difference between ledger and recount.",
        *(Sample(amount, {"unit": unit.value}) for unit, amount in drift.largest.items()),
    )
    yield gauge(
        "bursar_ledger_recount_seconds",
        "Duration of the latest recount of all pods, in seconds.",
        Sample(drift.count_seconds),
    )


# ------------------------------------------------------------------ informers and API client


_INFORMER_HELP: Final = {
    "events": "Watch events received.",
    "duplicates": "Watch events that changed nothing.",
    "bookmarks": "Watch bookmarks received.",
    "relists": "Full lists after the first one.",
    "watch_restarts": "Watches resumed after the previous one ended.",
    "expired": "Times that the resourceVersion of a watch or list had expired.",
    "failures": "Lists and watches that failed.",
    "decode_failures": "Objects that could not be decoded.",
    "over_limit": "Times that a list had more objects than the cache holds.",
}


def informer_families(informers: Sequence[RunningInformer]) -> Iterator[Family]:
    labels = [{"resource": str(each.resource)} for each in informers]
    yield gauge(
        "bursar_informer_staleness_seconds",
        "Seconds since the cache was last known to be current; infinite before the first sync.",
        *(Sample(each.staleness_seconds, labels[index]) for index, each in enumerate(informers)),
    )
    yield gauge(
        "bursar_informer_objects",
        "Objects in the cache.",
        *(Sample(len(each), labels[index]) for index, each in enumerate(informers)),
    )
    for field in fields(InformerCounters):
        yield counter(
            f"bursar_informer_{field.name}_total",
            _INFORMER_HELP[field.name],
            *(
                Sample(getattr(each.counters, field.name), labels[index])
                for index, each in enumerate(informers)
            ),
        )


def limiter_families(limiter: Limited) -> Iterator[Family]:
    yield gauge("bursar_limiter_limit", "Maximum API requests in flight.", Sample(limiter.limit))
    yield gauge("bursar_limiter_in_flight", "API requests in flight.", Sample(limiter.in_flight))
    yield gauge(
        "bursar_limiter_waiting", "API requests that wait for the limiter.", Sample(limiter.waiting)
    )
    yield counter(
        "bursar_limiter_throttled_total",
        "Times that the API server answered 429 or asked to retry later.",
        Sample(limiter.throttled_total),
    )
