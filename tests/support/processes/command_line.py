"""The `bursar` command, run as a process of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

COMMAND = Path(sys.executable).parent / "bursar"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def run_bursar(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    done = subprocess.run(
        [str(COMMAND), *arguments],
        input=stdin,
        capture_output=True,
        timeout=180,
        check=False,
        env={**os.environ, **environment},
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
