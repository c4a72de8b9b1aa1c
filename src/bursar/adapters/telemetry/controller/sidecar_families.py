"""Metrics of counting by sidecars."""

from collections.abc import Iterable, Iterator

from bursar.adapters.telemetry.exposition import Family, by, table
from bursar.app.counting.feeds import CounterFeed
from bursar.app.counting.sidecars.ports import SidecarView


def sidecar_families(feeds: Iterable[CounterFeed]) -> Iterator[Family]:
    """Metrics of each feed that asks sidecars; none without sidecars."""
    for feed in feeds:
        if isinstance(feed, SidecarView):
            yield from _families(feed)


def _families(feed: SidecarView) -> Iterator[Family]:
    counters, counter = feed.counters, feed.counter
    return table(
        "bursar_sidecar_",
        connected=feed.connected,
        expected=len(counter.slots),
        calls_total=counters.calls,
        sweep_calls_total=counters.swept,
        failures_total=by("failure", counters.failures),
        call_seconds_total=counters.call_seconds,
        sent_bytes_total=counters.bytes_sent,
        held_pods=counter.count_held(),
        left_out_pods=counter.count_left_out(),
    )
