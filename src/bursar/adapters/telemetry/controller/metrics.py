"""All metrics of a controller, gathered for each scrape."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Protocol

from bursar.adapters.telemetry.certificates.kept import keeper_families
from bursar.adapters.telemetry.certificates.served import ServedCertificate, served_families
from bursar.adapters.telemetry.controller.capacity_families import CapacityView, capacity_families
from bursar.adapters.telemetry.controller.families import (
    ControllerView,
    Limited,
    TermView,
    controller_families,
)
from bursar.adapters.telemetry.controller.policy_families import policy_families
from bursar.adapters.telemetry.controller.sidecar_families import sidecar_families
from bursar.adapters.telemetry.exposition import Family, exposition
from bursar.adapters.telemetry.process import process_families, trace_families
from bursar.adapters.telemetry.reconcile_families import reconcile_families
from bursar.app.capacity.controller import CapacityController
from bursar.app.certificates.keeper import CertificateKeeper
from bursar.app.cluster.reconcile import ReconcileCounters
from bursar.app.controller.controller import Controller
from bursar.app.controller.term import Term
from bursar.app.tracing import TraceCounts
from bursar.core.counting.counters import Counters
from bursar.core.counting.policies import PolicyCounter


def controller_metrics(
    controller: Controller,
    limiter: Limited,
    served: ServedCertificate | None = None,
    traces: TraceCounts | None = None,
) -> bytes:
    """Metrics in Prometheus's text format. `served` is the certificate of this process."""
    term, keeper, now = controller.term, controller.certificates, controller.clock.now()
    view = ControllerView(
        is_leader=controller.election.is_leader,
        informers=(
            *(() if term is None else term.sources.informers()),
            *(() if keeper is None else keeper.informers()),
        ),
        limiter=limiter,
        recorders=controller.recorders,
        term=None if term is None else _term_view(term),
    )
    loops = () if term is None else reconcile_families(_loops(term, keeper))
    kept = () if term is None or term.capacity is None else _capacity(term.capacity)
    sidecars = () if term is None else sidecar_families(term.sources.books.feeds)
    policies = () if term is None else _policies(term)
    counting = chain(sidecars, policies)
    certificates = chain(
        () if served is None else served_families(served, now),
        () if keeper is None else _kept_certificates(keeper, now),
    )
    families = chain(controller_families(view), loops, kept, counting, certificates)
    return exposition(chain(families, trace_families(traces), process_families()))


def _kept_certificates(keeper: CertificateKeeper, now: datetime) -> Iterator[Family]:
    return keeper_families(keeper.counters, keeper.not_after, now)


def _policies(term: Term) -> Iterator[Family]:
    counter = term.sources.books.counter
    for part in counter.parts if isinstance(counter, Counters) else ():
        if isinstance(part, PolicyCounter):
            yield from policy_families(part.report())


class Loop(Protocol):
    """What metrics read of a reconcile loop."""

    @property
    def counters(self) -> ReconcileCounters: ...

    @property
    def pending(self) -> int: ...


def reconcilers(term: Term, keeper: CertificateKeeper | None) -> dict[str, Loop]:
    """The reconcile loops of a term, by the name that they have in metrics."""
    loops: dict[str, Loop] = {
        "status": term.statuses.reconciler,
        "managed": term.managed.reconciler,
        "applied": term.applied.reconciler,
        "gate": term.gate.reconciler,
        "queue": term.queue_limit.reconciler,
    }
    if term.capacity is not None:
        loops["capacity"] = term.capacity.reconciler.reconciler
    if keeper is not None:
        loops["certificates"] = keeper.reconciler
    return loops


def _loops(term: Term, keeper: CertificateKeeper | None) -> dict[str, ReconcileCounters]:
    return {name: each.counters for name, each in reconcilers(term, keeper).items()}


def _capacity(capacity: CapacityController) -> Iterator[Family]:
    view = CapacityView(
        nodes=(seen.item for seen in capacity.sources.nodes.snapshot().objects()),
        declared=capacity.reconciler.resources,
        usage=capacity.usage,
        healed=capacity.reconciler.healed,
    )
    return capacity_families(view)


def _term_view(term: Term) -> TermView:
    return TermView(
        books=term.books,
        loop=term.loop.counters,
        lifts=term.lifter.counters,
        quotas=[
            seen.item
            for informer in term.sources.books.quotas
            for seen in informer.snapshot().objects()
        ],
        drift=term.drift.latest,
        refused=term.refused,
        departed=term.loop.departed,
        mismatches=term.gating.mismatches(),
        full_queues=len(term.queue_limit.full.names),
    )
