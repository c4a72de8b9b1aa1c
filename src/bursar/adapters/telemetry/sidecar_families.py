"""Metrics of counting by sidecars."""

from collections.abc import Iterable, Iterator

from bursar.adapters.telemetry.exposition import Family, by, table
from bursar.app.counting.feeds import CounterFeed
from bursar.app.counting.sidecar_ports import SidecarView


def sidecar_families(feeds: Iterable[CounterFeed]) -> Iterator[Family]:
    """Nothing without sidecars."""
    for feed in feeds:
        if isinstance(feed, SidecarView):
            yield from _families(feed)


def _families(feed: SidecarView) -> Iterator[Family]:
    counters, counter = feed.counters, feed.counter
    return table(
        "bursar_sidecar_",
        connected=("Sidecars that are connected.", feed.connected),
        expected=("Sidecars that are expected.", len(counter.slots)),
        calls_total=("Questions sent to sidecars, each about one pod.", counters.calls),
        sweep_calls_total=(
            "Questions that were repeated because other pods of the namespace changed.",
            counters.swept,
        ),
        failures_total=("Questions without a good answer.", by("failure", counters.failures)),
        call_seconds_total=("Time of all questions, in seconds.", counters.call_seconds),
        sent_bytes_total=("Bytes sent to sidecars.", counters.bytes_sent),
        held_pods=("Pods that wait for the answer of a sidecar.", counter.count_held()),
        left_out_pods=(
            "Pods counted without a sidecar that failed (--sidecar-failure native).",
            counter.count_left_out(),
        ),
    )
