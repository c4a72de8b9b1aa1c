"""Metrics of the agent about local ephemeral storage, made from its last report."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bursar.adapters.telemetry.exposition import Family, Sample, by, table
from bursar.app.storage.accounting import StorageCounts
from bursar.app.storage.ports import DiskCounts
from bursar.app.storage.report import NodeReport, over_limits
from bursar.core.storage.usage import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskView:
    """What metrics read of the accounting, gathered for each scrape."""

    counts: StorageCounts
    scans: DiskCounts
    report: NodeReport | None
    """None before the first round has ended."""


def disk_families(view: DiskView) -> Iterator[Family]:
    counts, scans = view.counts, view.scans
    yield from table(
        "bursar_disk_",
        rounds_total=counts.rounds,
        failures_total=(
            Sample(counts.disk_failures, {"source": "disk"}),
            Sample(counts.summary_failures, {"source": "summary"}),
        ),
        looks_total=scans.looks,
        scan_seconds_total=scans.seconds,
        folders=scans.folders,
        scans_unfinished=scans.unfinished,
    )
    if view.report is not None:
        yield from _report_families(view.report)


def _report_families(report: NodeReport) -> Iterator[Family]:
    rows = report.rows
    volumes = [measure for row in rows for measure in row.use.volumes.values()]
    ways = Counter(each.way for each in volumes)
    soon = [row.seconds_left for row in rows if row.seconds_left is not None]
    return table(
        "bursar_disk_",
        pods=len(rows),
        used_bytes=(
            Sample(sum(row.use.volume_bytes for row in rows), {"kind": "volumes"}),
            Sample(sum(row.use.logs for row in rows), {"kind": "logs"}),
            Sample(sum(row.use.writable for row in rows), {"kind": "writable"}),
            Sample(sum(row.use.other for row in rows), {"kind": "other"}),
        ),
        requested_bytes=report.requested,
        allocatable_bytes=_known(report.allocatable),
        pods_over_limit=by("limit", over_limits(report)),
        eviction_seconds=_known(min(soon, default=None)),
        signal_available=(
            Sample(each.state.available, {"signal": each.state.signal.value})
            for each in report.signals
        ),
        signal_threshold=(
            Sample(each.state.threshold.whole_units, {"signal": each.state.signal.value})
            for each in report.signals
        ),
        volumes=by("way", {way: ways[way] for way in Way}),
        volumes_incomplete=sum(not each.is_complete for each in volumes),
        age_seconds=max((each.age_ms for each in volumes), default=0) / 1000,
    )


def _known(value: int | None) -> Iterable[Sample]:
    return () if value is None else (Sample(value),)
