"""What every process says of itself: version, uptime and memory."""

from pathlib import Path
from resource import getpagesize
from typing import Final

from bursar import __version__
from bursar.adapters.serving.status_page import Value

PROC: Final = Path("/proc")


def process_section(uptime_s: float, proc: Path = PROC) -> dict[str, Value]:
    """Memory and open files are unknown where there is no /proc."""
    return {
        "version": __version__,
        "uptime_seconds": int(uptime_s),
        "resident_bytes": resident_bytes(proc),
        "open_files": _open_files(proc),
    }


def resident_bytes(proc: Path = PROC) -> int | None:
    try:
        return int((proc / "self/statm").read_text().split()[1]) * getpagesize()
    except OSError:
        return None


def bytes_per_pod(resident: int | None, pods: int) -> int | None:
    """Memory of the whole process by the number of pods that it knows; None without pods."""
    return None if resident is None or not pods else resident // pods


def _open_files(proc: Path) -> int | None:
    try:
        return sum(1 for _ in (proc / "self/fd").iterdir())
    except OSError:
        return None
