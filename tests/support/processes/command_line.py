"""The `bursar` command, run as a process of its own."""

import atexit
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.processes.warm_command import READ_AT_START, WarmCommand

COMMAND = Path(sys.executable).parent / "bursar"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def run_bursar(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    """Run it in a fork that need not import it. `start_bursar` starts it as a user does."""
    if any(name.startswith(READ_AT_START) for name in environment):
        return start_bursar(*arguments, stdin=stdin, **environment)
    code, out, err = _warm_command().run(arguments, stdin, {**os.environ, **environment})
    return Ran(code, out.decode(), err.decode())


def start_bursar(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    done = subprocess.run(
        [str(COMMAND), *arguments],
        input=stdin,
        capture_output=True,
        timeout=180,
        check=False,
        env={**os.environ, **environment},
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@cache
def _warm_command() -> WarmCommand:
    """One for the whole run. It is closed at the end."""
    command = WarmCommand()
    atexit.register(command.close)
    return command
