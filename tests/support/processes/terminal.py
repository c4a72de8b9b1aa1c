"""The `bursar` command in a pseudo-terminal of a chosen width, as a person sees it."""

import contextlib
import fcntl
import os
import re
import struct
import subprocess
import termios
from dataclasses import dataclass
from pathlib import Path

from support.processes.command_line import COMMAND, run_bursar

ROWS = 24
HIDDEN = ("COLUMNS", "LINES", "NO_COLOR")
"""Variables that would win over the size of the terminal, or refuse styles."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Screen:
    text: str
    """What standard output received, with escape sequences."""
    code: int

    @property
    def plain(self) -> str:
        """The text without styles."""
        return STYLES.sub("", self.text)


def run_in_terminal(
    *arguments: str, columns: int, folder: Path, stdin: bytes = b"", **environment: str
) -> Screen:
    """Run the command with standard output on a terminal of so many columns."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    program = subprocess.Popen(
        [str(COMMAND), *arguments],
        stdin=subprocess.PIPE,
        stdout=slave,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**_without_widths(), "TERM": "xterm-256color", **environment},
    )
    os.close(slave)
    try:
        assert program.stdin is not None
        program.stdin.write(stdin)
        program.stdin.close()
        text = _read_all(master).decode()
        return Screen(text.replace("\r\n", "\n"), program.wait(timeout=180))
    finally:
        os.close(master)
        if program.poll() is None:
            program.kill()
            program.wait()


def run_in_pipe(*arguments: str, folder: Path, stdin: bytes = b"", **environment: str) -> Screen:
    """Run the command with standard output on no terminal."""
    with contextlib.chdir(folder):
        # A variable that is empty counts as one that is not set.
        ran = run_bursar(*arguments, stdin=stdin, **dict.fromkeys(HIDDEN, ""), **environment)
    return Screen(ran.out, ran.code)


def _without_widths() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in HIDDEN}


def _read_all(master: int) -> bytes:
    """All that arrives until the program has closed its end."""
    pieces = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            # Linux answers EIO once the last process has closed the terminal.
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)
