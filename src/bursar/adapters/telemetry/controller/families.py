"""Metrics of the controller: waiting pods, releases, the ledger, informers and the API client.

Each function turns the counters of one part into metric families. The families of the
books exist only on the replica that leads.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Final, Protocol

from bursar.adapters.telemetry.catalogue.controller import INFORMER_COUNTERS
from bursar.adapters.telemetry.controller.quota_families import quota_families
from bursar.adapters.telemetry.event_families import event_families
from bursar.adapters.telemetry.exposition import Family, Sample, by, histogram, table
from bursar.app.cluster.events.recorder import EventCounts
from bursar.app.cluster.observe import RunningInformer
from bursar.app.quota.departed_quotas import DepartedQuotas
from bursar.app.quota.drift import Drift
from bursar.app.quota.quota_loop import RELEASE_BOUNDS, QuotaCounters
from bursar.app.quota.refused_writes import RefusedWrites
from bursar.app.quota.release.lifting import LiftCounters
from bursar.app.quota.sources import EVERY_KIND
from bursar.app.quota.status_document import READY, ConditionReason
from bursar.core.quota.account import to_quantity
from bursar.core.quota.books import Books
from bursar.core.quota.names import unit_of
from bursar.core.quota.quota import QuotaObject
from bursar.core.quota.views.queue import count_waiting


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
    refused: RefusedWrites | None = None
    departed: DepartedQuotas | None = None
    mismatches: Mapping[str, bool] = field(default_factory=dict)
    """By installed policy or webhook configuration: whether it gates other namespaces."""
    full_queues: int = 0
    """Namespaces in which no more pods may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """What metrics read of a controller, gathered for each scrape."""

    is_leader: bool
    informers: Sequence[RunningInformer]
    limiter: Limited
    recorders: Sequence[EventCounts]
    term: TermView | None = None


def controller_families(view: ControllerView) -> Iterator[Family]:
    yield from table("bursar_", leader=view.is_leader)
    yield from informer_families(view.informers)
    yield from limiter_families(view.limiter)
    yield from event_families(*view.recorders)
    if view.term is not None:
        yield from term_families(view.term)


def term_families(term: TermView) -> Iterator[Family]:
    return chain(
        release_families(term.loop),
        lift_families(term.lifts),
        books_families(term.books),
        drift_families(term.drift),
        table(
            "bursar_",
            full_queues=term.full_queues,
        ),
        enforcement_families(term),
        quota_families(term.quotas),
    )


def enforcement_families(term: TermView) -> Iterator[Family]:
    """Quotas that look enforced and are not."""
    reasons = Counter(filter(None, map(_reason_not_ready, term.quotas)))
    yield from table(
        "bursar_",
        quotas_not_counted=reasons[ConditionReason.NOT_COUNTED.value],
        quotas_not_ready=by("reason", {reason: reasons[reason.value] for reason in NOT_READY}),
        quotas_unreadable=sum(bool(each.quota.problem) for each in term.quotas),
        gating_mismatch=[
            Sample(value, {"object": name}) for name, value in term.mismatches.items()
        ],
    )
    if term.refused is not None:
        yield from table(
            "bursar_",
            refused_writes=by("object", term.refused.counts()),
            refused_writes_total=by("object", term.refused.totals),
        )
    if term.departed is not None:
        yield from table(
            "bursar_",
            quotas_departed=len(term.departed),
            quota_kind_missing=by(
                "kind", {kind: kind in term.departed.missing for kind in EVERY_KIND}
            ),
        )


NOT_READY: Final = (
    ConditionReason.UNREADABLE,
    ConditionReason.WRITE_REFUSED,
    ConditionReason.INVALID,
    ConditionReason.NOT_ENFORCED,
    ConditionReason.NOT_GATED,
    ConditionReason.NOT_COUNTED,
)


def _reason_not_ready(quota: QuotaObject) -> str | None:
    conditions = quota.reported_conditions
    return next((each.reason for each in conditions if (each.type, each.status) == NOT_TRUE), None)


NOT_TRUE: Final = (READY, "False")


# ------------------------------------------------------------------ decisions


def release_families(loop: QuotaCounters) -> Iterator[Family]:
    yield from table(
        "bursar_",
        released_total=loop.released,
        freed_total=loop.exempt,
    )
    yield histogram(
        "bursar_release_seconds",
        bounds=RELEASE_BOUNDS,
        counts=loop.release_seconds,
        total=loop.release_seconds_sum,
    )
    yield from table(
        "bursar_",
        refusals_total=by("reason", loop.refusals),
        decision_rounds_total=loop.decisions,
    )


def lift_families(lifts: LiftCounters) -> Iterator[Family]:
    return table(
        "bursar_",
        api_writes_total=lifts.writes,
        api_write_retries_total=lifts.retries,
        lifts_total=by("answer", lifts.outcomes),
    )


def books_families(books: Books) -> Iterator[Family]:
    waiting = count_waiting(books)
    return table(
        "bursar_",
        waiting_pods=by("reason", waiting.by_reason),
        undecided_pods=waiting.undecided,
        releases_in_flight=books.pending_release_count,
        ledger_pods=books.ledger.pod_count,
        ledger_reservations=books.ledger.reservation_count,
        ledger_debt=_debts(books),
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
        return iter(())
    return table(
        "bursar_ledger_",
        drift_accounts=drift.accounts,
        drift=by("unit", drift.largest),
        recount_seconds=drift.count_seconds,
    )


# ------------------------------------------------------------------ informers and API client


def informer_families(informers: Sequence[RunningInformer]) -> Iterator[Family]:
    """Counters of informers by resource.

    If several informers watch single objects of one resource, they are added up in one series.
    """
    by_resource: dict[str, list[RunningInformer]] = {}
    for informer in informers:
        by_resource.setdefault(str(informer.resource), []).append(informer)

    def each(
        read: Callable[[RunningInformer], float],
        combine: Callable[[Iterable[float]], float] = sum,
    ) -> Iterator[Sample]:
        return (
            Sample(combine([read(one) for one in found]), {"resource": resource})
            for resource, found in by_resource.items()
        )

    return table(
        "bursar_informer_",
        staleness_seconds=each(attrgetter("staleness_seconds"), max),
        objects=each(len),
        **{f"{name}_total": each(attrgetter(f"counters.{name}")) for name in INFORMER_COUNTERS},
    )


def limiter_families(limiter: Limited) -> Iterator[Family]:
    return table(
        "bursar_limiter_",
        limit=limiter.limit,
        in_flight=limiter.in_flight,
        waiting=limiter.waiting,
        throttled_total=limiter.throttled_total,
    )
