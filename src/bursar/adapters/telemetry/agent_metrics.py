"""All metrics of an agent, as they are when somebody asks."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Protocol

from bursar.adapters.telemetry.exposition import Family, Sample, counter, exposition, gauge
from bursar.adapters.telemetry.process import process_families
from bursar.app.event_recorder import Drop


class Events(Protocol):
    @property
    def dropped(self) -> Mapping[Drop, int]: ...

    @property
    def waiting(self) -> int: ...


def agent_metrics(families: Iterable[Family], events: Events | None) -> bytes:
    """In Prometheus's text format; `events` is None where none are written."""
    told = () if events is None else _event_families(events)
    return exposition(chain(families, told, process_families()))


def _event_families(events: Events) -> Iterator[Family]:
    """The controller's, without importing all that a controller counts: nodes are small."""
    yield counter(
        "bursar_event_dropped_total",
        "Events that people will not see, by why.",
        *(Sample(events.dropped.get(each, 0), {"reason": each.name}) for each in Drop),
    )
    yield gauge("bursar_event_waiting", "Events with something to write.", Sample(events.waiting))
