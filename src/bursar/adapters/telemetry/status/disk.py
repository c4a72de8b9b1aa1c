"""The section of the agent's status report about local ephemeral storage. It names no pod."""

from collections.abc import Mapping

from bursar.adapters.serving.status_page import Value
from bursar.adapters.telemetry.disk.families import DiskView


def disk_section(view: DiskView, age_s: float | None) -> Mapping[str, Value]:
    """The section about local storage. `age_s`: seconds since the last round; None before one."""
    report = view.report
    return {
        "pods": None if report is None else len(report.rows),
        "rounds": view.counts.rounds,
        "last_round_seconds_ago": age_s,
        "problem": "none" if report is None or not report.problem else report.problem,
        "pods_over_limit": None
        if report is None
        else sum(row.evicted_for is not None for row in report.rows),
        "folders_remembered": view.scans.folders,
        "scans_unfinished": view.scans.unfinished,
        "scan_seconds": view.scans.seconds,
    }
