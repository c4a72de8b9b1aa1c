"""Metrics of the operator: the status of the AAQ object, and writes to the installation."""

from collections.abc import Iterator
from itertools import chain

from bursar.adapters.telemetry.certificates.served import ServedCertificate, served_families
from bursar.adapters.telemetry.controller.families import (
    Limited,
    informer_families,
    limiter_families,
)
from bursar.adapters.telemetry.event_families import event_families
from bursar.adapters.telemetry.exposition import Family, Sample, exposition, table
from bursar.adapters.telemetry.process import process_families, trace_families
from bursar.app.operator.operator import Operator
from bursar.app.operator.term import OperatorTerm
from bursar.app.tracing import TraceCounts
from bursar.core.operator.conditions import Phase


def operator_metrics(
    operator: Operator,
    limiter: Limited,
    served: ServedCertificate | None,
    traces: TraceCounts | None = None,
) -> bytes:
    """Metrics in Prometheus's text format. `served` is the certificate of this process."""
    term, now = operator.term, operator.clock.now()
    return exposition(
        chain(
            table("bursar_", leader=operator.election.is_leader),
            () if term is None else term_families(term),
            () if term is None else informer_families(term.informers()),
            limiter_families(limiter),
            event_families(operator.recorder),
            () if served is None else served_families(served, now),
            trace_families(traces),
            process_families(),
        )
    )


def term_families(term: OperatorTerm) -> Iterator[Family]:
    """Families of an operator that leads."""
    view, judgement = term.view, term.view.judgement
    conditions = () if judgement is None else judgement.conditions
    phase = None if judgement is None else judgement.phase
    return table(
        "bursar_operator_",
        condition=[
            Sample(int(each.is_true), {"type": each.type, "reason": each.reason.value})
            for each in conditions
        ],
        phase=[Sample(int(each is phase), {"phase": each.value}) for each in Phase],
        ready_replicas=[Sample(each.ready, {"deployment": each.name}) for each in view.workloads],
        wanted_replicas=[Sample(each.wanted, {"deployment": each.name}) for each in view.workloads],
        unwanted_objects=view.unwanted,
        writes_total=[
            Sample(count, {"outcome": outcome})
            for outcome, count in sorted(term.applied.writes.items())
        ],
        passes_total=term.passes,
    )
