"""Metrics of recorded Kubernetes events."""

from collections.abc import Iterator, Mapping

from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.app.cluster.events.recorder import Drop


def event_families(dropped: Mapping[Drop, int], waiting: int) -> Iterator[Family]:
    return table(
        "bursar_event_",
        dropped_total=[Sample(dropped.get(each, 0), {"reason": each.name}) for each in Drop],
        waiting=waiting,
    )
