"""Metrics that several processes print: those of the process itself, and of its traces."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar import __version__
from bursar.adapters.telemetry.exposition import Family, Sample, by, table

if TYPE_CHECKING:
    # A process that does not trace must not load this module.
    from bursar.app.tracing import TraceCounts

PROC: Final = Path("/proc")


def process_families(proc: Path = PROC) -> Iterator[Family]:
    """Read the metrics from /proc. Without /proc, only the version is returned."""
    info = [Sample(1, {"version": __version__})]
    yield from table("bursar_", build_info=info)
    try:
        fields = (proc / "self/stat").read_text().rpartition(")")[2].split()
        boot_s = _boot_s(proc)
        open_files = sum(1 for _ in (proc / "self/fd").iterdir())
    except OSError:
        return
    ticks = os.sysconf("SC_CLK_TCK")
    # Field numbers as in proc(5); field 3, the state, is the first after the name.
    user, system, start, virtual, pages = (int(fields[n - 3]) for n in (14, 15, 22, 23, 24))
    yield from table(
        "process_",
        cpu_seconds_total=(user + system) / ticks,
        start_time_seconds=boot_s + start / ticks,
        virtual_memory_bytes=virtual,
        resident_memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        open_fds=open_files,
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def _boot_s(proc: Path) -> int:
    for line in (proc / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0


def trace_families(counts: "TraceCounts | None") -> Iterator[Family]:
    """Metrics of traces; no family if the process does not trace (`counts` is None)."""
    if counts is None:
        return iter(())
    return table(
        "bursar_trace_spans_",
        exported_total=counts.exported,
        dropped_total=by("reason", counts.dropped),
    )
