"""Metrics of the reconcile loops: how often they ran, wrote and failed."""

from collections.abc import Iterator, Mapping

from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.app.cluster.reconcile import ReconcileCounters


def reconcile_families(loops: Mapping[str, ReconcileCounters]) -> Iterator[Family]:
    """The counters of each loop, by its name."""

    def each(field: str) -> Iterator[Sample]:
        return (Sample(getattr(each, field), {"loop": name}) for name, each in loops.items())

    return table(
        "bursar_",
        reconciles_total=(
            "Comparisons of an object with what it should be.",
            each("reconciles"),
        ),
        reconcile_writes_total=("Objects written because they differed.", each("writes")),
        reconcile_gone_total=("Writes to an object that did not exist any more.", each("gone")),
        reconcile_failures_total=(
            "Reconciles that failed and are retried, by the class of the error.",
            (
                Sample(count, {"loop": name, "error": error})
                for name, counters in loops.items()
                for error, count in sorted(counters.failures_by_class.items())
            ),
        ),
    )
