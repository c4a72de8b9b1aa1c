"""The controller at work: what waits and why, what was released, and how well it is informed.

Each function turns the counters of one part into families. The parts of a term of
leadership are missing on a replica that does not lead, and so are their families.
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
from bursar.adapters.telemetry.waiting import count_waiting
from bursar.app.cluster.events.recorder import Drop
from bursar.app.cluster.informer.informer import InformerCounters
from bursar.app.cluster.ports import Resource
from bursar.app.quota.desk import RELEASE_BOUNDS, DeskCounters
from bursar.app.quota.drift import Drift
from bursar.app.quota.lifting import LiftCounters
from bursar.core.quota.account import shown
from bursar.core.quota.books import Books
from bursar.core.quota.names import unit_of
from bursar.core.quota.reported import QuotaObject


class Followed(Protocol):
    """An informer, as far as metrics go."""

    resource: Resource
    counters: InformerCounters

    @property
    def staleness_seconds(self) -> float: ...

    def __len__(self) -> int: ...


class Limited(Protocol):
    """A client's limiter, as far as metrics go."""

    limit: int
    in_flight: int
    throttled_total: int

    @property
    def waiting(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TermView:
    """What there is while we lead."""

    books: Books
    desk: DeskCounters
    lifts: LiftCounters
    quotas: Sequence[QuotaObject]
    drift: Drift | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """The controller at one moment; made when metrics are asked for."""

    is_leader: bool
    informers: Sequence[Followed]
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
        release_families(term.desk),
        lift_families(term.lifts),
        books_families(term.books),
        drift_families(term.drift),
        quota_families(term.quotas),
    )


# ------------------------------------------------------------------ decisions


def release_families(desk: DeskCounters) -> Iterator[Family]:
    yield counter("bursar_released_total", "Pods whose gate was lifted.", Sample(desk.released))
    yield counter(
        "bursar_freed_total",
        "Of those released, the ones whose namespace is no longer held back.",
        Sample(desk.freed),
    )
    yield histogram(
        "bursar_release_seconds",
        "How long released pods had waited since they were created.",
        bounds=RELEASE_BOUNDS,
        counts=desk.release_seconds,
        total=desk.release_seconds_sum,
    )
    yield counter(
        "bursar_decisions_total",
        "Times that a pod was told to wait, by why.",
        *(Sample(count, {"reason": reason.value}) for reason, count in desk.refusals.items()),
    )
    yield counter(
        "bursar_decision_rounds_total", "Times that the books were asked.", Sample(desk.rounds)
    )


def lift_families(lifts: LiftCounters) -> Iterator[Family]:
    yield counter("bursar_api_writes_total", "Writes sent to lift a gate.", Sample(lifts.writes))
    yield counter(
        "bursar_api_write_retries_total",
        "Of those, the ones sent again for want of a plain answer.",
        Sample(lifts.retries),
    )
    answers = {
        "lifted": lifts.lifted,
        "changed": lifts.changed,
        "gone": lifts.gone,
        "refused": lifts.refused,
    }
    yield counter(
        "bursar_lifts_total",
        "Tries to lift a gate, by how they ended.",
        *(Sample(count, {"answer": answer}) for answer, count in answers.items()),
    )


def books_families(books: Books) -> Iterator[Family]:
    waiting = count_waiting(books)
    yield gauge(
        "bursar_waiting_pods",
        "Pods behind the gate, by why. Of several reasons the worst counts.",
        *(Sample(count, {"reason": why.value}) for why, count in waiting.by_reason.items()),
    )
    yield gauge(
        "bursar_undecided_pods", "Pods that the next decision is about.", Sample(waiting.undecided)
    )
    yield gauge("bursar_flights", "Gates on their way to being lifted.", Sample(books.flight_count))
    yield gauge("bursar_ledger_pods", "Pods that are charged.", Sample(books.ledger.pod_count))
    yield gauge(
        "bursar_ledger_reservations",
        "Promises, gates on their way included.",
        Sample(books.ledger.reservation_count),
    )
    yield Family(
        name="bursar_ledger_debt",
        kind=Kind.GAUGE,
        help="By how much a quota is overdrawn, as after its limit was lowered. None: no sample.",
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
                yield Sample(shown(account.debt, account.format), labels)


def drift_families(drift: Drift | None) -> Iterator[Family]:
    if drift is None:
        return
    yield gauge(
        "bursar_ledger_drift_accounts",
        "Accounts in which the ledger differs from counting all pods anew. Should be 0.",
        Sample(drift.accounts),
    )
    yield gauge(
        "bursar_ledger_drift",
        "The largest such difference, whichever way.",
        *(Sample(amount, {"unit": unit.value}) for unit, amount in drift.largest.items()),
    )
    yield gauge(
        "bursar_ledger_recount_seconds",
        "How long the latest count of all pods took.",
        Sample(drift.count_seconds),
    )


# ------------------------------------------------------------------ what decisions rest on


_INFORMER_HELP: Final = {
    "events": "Events received.",
    "duplicates": "Events that repeated what was known.",
    "bookmarks": "Bookmarks received.",
    "relists": "Times everything was listed again, after the first.",
    "watch_restarts": "Watches taken up where one before had ended.",
    "expired": "Moments that the server no longer knew.",
    "failures": "Lists and watches that ended with an error.",
    "decode_failures": "Objects that could not be read.",
    "over_limit": "Times that there were too many objects to hold.",
}


def informer_families(informers: Sequence[Followed]) -> Iterator[Family]:
    labels = [{"resource": str(each.resource)} for each in informers]
    yield gauge(
        "bursar_informer_staleness_seconds",
        "How long ago we last had proof of being up to date; infinite before the first.",
        *(Sample(each.staleness_seconds, labels[index]) for index, each in enumerate(informers)),
    )
    yield gauge(
        "bursar_informer_objects",
        "Objects held.",
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
    yield gauge(
        "bursar_limiter_limit", "Requests that may be under way at once.", Sample(limiter.limit)
    )
    yield gauge("bursar_limiter_in_flight", "Requests under way.", Sample(limiter.in_flight))
    yield gauge("bursar_limiter_waiting", "Requests that wait their turn.", Sample(limiter.waiting))
    yield counter(
        "bursar_limiter_throttled_total",
        "Times that the API server asked us to slow down.",
        Sample(limiter.throttled_total),
    )
