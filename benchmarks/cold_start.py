"""How long a person waits for `bursar --help`, against starting Python to do nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ratio import Ratio, alternate

COMMAND = str(Path(sys.executable).parent / "bursar")
ROUNDS = 25


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure() -> Iterator[Ratio]:
    for what, arguments, goal in (
        ("bursar --help", ["--help"], "<= 4x"),
        ("bursar quantity 1Gi -o json", ["quantity", "1Gi", "-o", "json"], ""),
    ):
        ours, bare = alternate(
            lambda arguments=arguments: run(COMMAND, *arguments),
            lambda: run(sys.executable, "-c", "pass"),
            ROUNDS,
        )
        yield Ratio(what, ours * 1000, "python3 -c pass", bare * 1000, "ms", goal)
