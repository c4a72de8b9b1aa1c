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
        reconciles_total=each("reconciles"),
        reconcile_writes_total=each("writes"),
        reconcile_gone_total=each("gone"),
        reconcile_failures_total=(
            Sample(count, {"loop": name, "error": error})
            for name, counters in loops.items()
            for error, count in sorted(counters.failures_by_class.items())
        ),
    )
