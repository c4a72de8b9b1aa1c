"""A scan of 100,000 files: the first one, and later ones, against `du` in the same run."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from bursar.adapters.disk.tree import FolderTree, ScanLimits
from ratio import Ratio, alternate

FOLDERS, FILES = 1_000, 100
ROUND_MS = 10_000
ROUNDS = 12


def measure() -> Iterator[Ratio]:
    folder = Path(tempfile.mkdtemp(prefix="bursar-disk-"))
    try:
        _fill(folder)
        yield from _measure(folder)
    finally:
        shutil.rmtree(folder)


def _fill(folder: Path) -> None:
    for number in range(FOLDERS):
        below = folder / f"{number % 10}" / f"folder-{number}"
        below.mkdir(parents=True)
        for file in range(FILES):
            (below / f"file-{file}.dat").write_bytes(b"x" * file * 64)


def _measure(folder: Path) -> Iterator[Ratio]:
    # Files of a benchmark are all new. A volume has few of them at a time, if any.
    limits = ScanLimits(hot_ns=0, racy_ns=0)

    def du() -> None:
        subprocess.run(["du", "-s", folder], check=True, stdout=subprocess.DEVNULL)

    du()
    ours, theirs = alternate(lambda: _scan(FolderTree(str(folder), limits), 0), du, 3)
    yield Ratio("first scan of 100,000 files", ours * 1000, "du", theirs * 1000, "ms")
    scanned, rounds = FolderTree(str(folder), limits), count(1)
    _scan(scanned, 0)
    ours, theirs = alternate(lambda: _scan(scanned, next(rounds) * ROUND_MS), du, ROUNDS)
    yield Ratio("later scan, every 10 s", ours * 1000, "du", theirs * 1000, "ms", "<= 0.2")


def _scan(scanned: FolderTree, now_ms: int) -> None:
    for _ in scanned.scan(now_ms):
        pass
