"""Metrics of the reconcile loops: how often they ran, wrote and failed."""

from collections.abc import Iterator, Mapping

from bursar.adapters.telemetry.exposition import Family, Sample, counter
from bursar.app.cluster.reconcile import ReconcileCounters


def reconcile_families(loops: Mapping[str, ReconcileCounters]) -> Iterator[Family]:
    """The counters of each loop, by its name."""
    yield counter(
        "bursar_reconciles_total",
        "Comparisons of an object with what it should be.",
        *(Sample(each.reconciles, {"loop": name}) for name, each in loops.items()),
    )
    yield counter(
        "bursar_reconcile_writes_total",
        "Objects written because they differed.",
        *(Sample(each.writes, {"loop": name}) for name, each in loops.items()),
    )
    yield counter(
        "bursar_reconcile_gone_total",
        "Writes to an object that did not exist any more.",
        *(Sample(each.gone, {"loop": name}) for name, each in loops.items()),
    )
    yield counter(
        "bursar_reconcile_failures_total",
        "Reconciles that failed and are retried, by the class of the error.",
        *(
            Sample(count, {"loop": name, "error": error})
            for name, each in loops.items()
            for error, count in sorted(each.failures_by_class.items())
        ),
    )
