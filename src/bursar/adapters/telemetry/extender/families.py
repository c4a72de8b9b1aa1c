"""Metrics of the extender: what pools have, and what the scheduler was answered."""

from collections.abc import Iterator, Mapping
from itertools import chain

from bursar.adapters.telemetry.certificates.served import ServedCertificate, served_families
from bursar.adapters.telemetry.controller.families import (
    Limited,
    informer_families,
    limiter_families,
)
from bursar.adapters.telemetry.event_families import event_families
from bursar.adapters.telemetry.exposition import Family, Sample, by, exposition, table
from bursar.adapters.telemetry.process import process_families
from bursar.app.extender.extender import Extender
from bursar.app.extender.term import ExtenderTerm
from bursar.core.model.quantity import Format
from bursar.core.pools.holds import HoldState
from bursar.core.pools.refusal import PoolReason
from bursar.core.quota.account import to_quantity


def extender_metrics(
    extender: Extender,
    requests: Mapping[tuple[str, str], int],
    limiter: Limited,
    served: ServedCertificate | None,
) -> bytes:
    """Metrics in Prometheus's text format. `served` is the certificate of this process."""
    term = extender.term
    return exposition(
        chain(
            table("bursar_", leader=extender.election.is_leader),
            table(
                "bursar_extender_",
                requests_total=[
                    Sample(count, {"verb": verb, "end": end})
                    for (verb, end), count in sorted(requests.items())
                ],
                refusals_total=by("reason", {each: extender.refusals[each] for each in PoolReason}),
            ),
            () if term is None else term_families(term),
            () if term is None else informer_families(term.informers),
            limiter_families(limiter),
            event_families(extender.pool_recorder, extender.pod_recorder),
            () if served is None else served_families(served, extender.clock.now()),
            process_families(),
        )
    )


def term_families(term: ExtenderTerm) -> Iterator[Family]:
    """Families of an extender that leads."""
    found = term.books.states
    labels = [
        {"cluster_resource": each.pool.name, "resource": each.pool.resource} for each in found
    ]
    accounts = [each.account for each in found]
    # Waiting pods are not counted here: that takes the longer the more pods there are.
    waiting = {each.state.pool.name: each.waiting_pods for each in term.statuses.latest}

    def amounts(nanos: list[int]) -> list[Sample]:
        return [
            Sample(to_quantity(each, Format.DECIMAL_SI), own)
            for each, own in zip(nanos, labels, strict=True)
        ]

    states = dict.fromkeys(HoldState, 0)
    for hold in term.books.holds:
        states[hold.state] += 1
    yield from table(
        "bursar_cluster_resource_",
        capacity=amounts([each.hard for each in accounts]),
        used=amounts([each.charged for each in accounts]),
        reserved=amounts([each.promised for each in accounts]),
        overdrawn=amounts([each.debt for each in accounts]),
        waiting_pods=[
            Sample(waiting.get(each.pool.name, 0), own)
            for each, own in zip(found, labels, strict=True)
        ],
        in_use=[Sample(each.is_in_use, own) for each, own in zip(found, labels, strict=True)],
    )
    yield from table(
        "bursar_extender_",
        holds=by("state", states),
        lapsed_holds_total=term.books.lapsed,
        scheduler_signals_total=term.signal.count,
    )
