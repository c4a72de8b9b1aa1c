"""Commands inside a virtual machine, through a port that `guest/init.sh` serves."""

import base64
import shlex
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from real_node import RealNodeError

PATIENCE_SECONDS = 600
"""A machine without hardware support is slow, and one on a busy machine more so."""


class GuestChannel:
    """The socket of the port. A second client waits until the first one is served."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(
        self,
        command: Sequence[str],
        given: Path | None = None,
        seconds: float = PATIENCE_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine, with the content of a file as its input."""
        size = given.stat().st_size if given else 0
        encoded = base64.b64encode(shlex.join(command).encode()).decode()
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(seconds)
                line.connect(str(self.path))
                line.sendall(f"{size} {encoded}\n".encode())
                if given:
                    with given.open("rb") as content:
                        line.sendfile(content)
                code, output, errors = _answer(line)
        except OSError as error:
            raise RealNodeError(f"no answer of the virtual machine: {error}") from error
        done = subprocess.CompletedProcess(list(command), code, output, errors)
        if code != 0:
            raise RealNodeError(f"{Path(command[0]).name} failed: {errors.strip()}")
        return done


def _answer(line: socket.socket) -> tuple[int, str, str]:
    with line.makefile("rb") as stream:
        head = stream.readline().split()
        if not head:
            raise ConnectionResetError("it ended")
        code, output_size, errors_size = map(int, head)
        output, errors = stream.read(output_size), stream.read(errors_size)
    return code, output.decode(errors="replace"), errors.decode(errors="replace")
