"""All metrics of an agent, gathered for each scrape."""

from collections.abc import Iterable
from itertools import chain

from bursar.adapters.telemetry.event_families import event_families
from bursar.adapters.telemetry.exposition import Family, exposition
from bursar.adapters.telemetry.process import process_families
from bursar.app.cluster.events.recorder import EventCounts


def agent_metrics(families: Iterable[Family], events: EventCounts | None) -> bytes:
    """Metrics in Prometheus's text format. `events` is None if the agent writes no events."""
    told = () if events is None else event_families(events)
    return exposition(chain(families, told, process_families()))
