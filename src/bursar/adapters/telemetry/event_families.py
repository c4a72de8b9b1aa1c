"""Metrics of recorded Kubernetes events."""

from collections.abc import Iterator, Mapping

from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.app.cluster.events.recorder import Drop


def event_families(dropped: Mapping[Drop, int], waiting: int) -> Iterator[Family]:
    return table(
        "bursar_event_",
        dropped_total=(
            "Events that were not written, by reason.",
            [Sample(dropped.get(each, 0), {"reason": each.name}) for each in Drop],
        ),
        waiting=("Events that wait to be written.", waiting),
    )
