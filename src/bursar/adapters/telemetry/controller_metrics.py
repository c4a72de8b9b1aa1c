"""All metrics of a controller, as they are when somebody asks."""

from itertools import chain

from bursar.adapters.telemetry.controller_families import (
    ControllerView,
    Limited,
    TermView,
    controller_families,
)
from bursar.adapters.telemetry.exposition import CONTENT_TYPE, exposition
from bursar.adapters.telemetry.process import process_families
from bursar.app.quota.controller import Controller, Term

__all__ = ["CONTENT_TYPE", "controller_metrics"]


def controller_metrics(controller: Controller, limiter: Limited) -> bytes:
    """In Prometheus's text format."""
    term, recorder = controller.term, controller.recorder
    view = ControllerView(
        is_leader=controller.election.is_leader,
        informers=() if term is None else term.sources.informers(),
        limiter=limiter,
        dropped_events=recorder.dropped,
        waiting_events=recorder.waiting,
        term=None if term is None else _term_view(term),
    )
    return exposition(chain(controller_families(view), process_families()))


def _term_view(term: Term) -> TermView:
    return TermView(
        books=term.books,
        desk=term.desk.counters,
        lifts=term.lifter.counters,
        quotas=[
            seen.item
            for informer in term.sources.books.quotas
            for seen in informer.snapshot().objects()
        ],
        drift=term.drift.latest,
    )
