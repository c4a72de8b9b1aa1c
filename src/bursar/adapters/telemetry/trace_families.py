"""Metrics of traces: spans that were sent, and spans that were dropped."""

from collections.abc import Iterator

from bursar.adapters.telemetry.exposition import Family, by, table
from bursar.app.tracing import TraceCounts


def trace_families(counts: TraceCounts | None) -> Iterator[Family]:
    """None if the process does not trace: then there is no metric of it."""
    if counts is None:
        return iter(())
    return table(
        "bursar_trace_spans_",
        exported_total=counts.exported,
        dropped_total=by("reason", counts.dropped),
    )
