"""Metrics of recorded Kubernetes events."""

from collections.abc import Iterator

from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.app.cluster.events.recorder import Drop, EventCounts


def event_families(*recorders: EventCounts) -> Iterator[Family]:
    """The sums over all recorders of a process."""
    dropped = {each: sum(one.dropped.get(each, 0) for one in recorders) for each in Drop}
    return table(
        "bursar_event_",
        dropped_total=[Sample(count, {"reason": each.name}) for each, count in dropped.items()],
        waiting=sum(one.waiting for one in recorders),
    )
