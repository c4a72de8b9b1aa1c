"""A sidecar in Go on AAQ's protocol, and AAQ's way to ask one: controlplane/aaq-sidecar."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from assets import ensure
from program import Program


class GoSidecar:
    """It counts pods with the label `label-app` twice, unless its mode says otherwise."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.sockets = folder / "sockets"
        self.sockets.mkdir(mode=0o755)
        self._mode = folder / "mode"
        self.set_mode("double")
        command = [
            *(str(ensure("aaq-sidecar")), "serve"),
            f"--sockets={self.sockets}",
            f"--mode={self._mode}",
            *options,
        ]
        log = folder / "sidecar.log"
        self.program = Program("sidecar", command, log=log, is_ready=lambda: bool(self.living()))

    def set_mode(self, mode: str) -> None:
        """From the next call on. Replaced at once, because the sidecar may be reading it."""
        new = self._mode.with_suffix(".new")
        new.write_text(mode)
        new.replace(self._mode)

    def living(self) -> list[Path]:
        return sorted(self.sockets.glob("sidecar-????.sock"))

    def start(self) -> None:
        self.program.start()
        self.program.wait_ready()


@contextmanager
def go_sidecar(*options: str) -> Iterator[GoSidecar]:
    """In a folder with a short path: the path of a socket has at most 107 bytes."""
    with TemporaryDirectory(prefix="sidecar-") as folder:
        sidecar = GoSidecar(Path(folder), *options)
        sidecar.start()
        try:
            yield sidecar
        finally:
            sidecar.program.stop()


def ask_as_aaq(socket: Path, pod: Any, *existing: Any) -> Any:
    """The answer that AAQ's controller would get."""
    ran = subprocess.run(
        [str(ensure("aaq-sidecar")), "ask", f"--socket={socket}"],
        input=json.dumps({"pod": pod, "existing": existing}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
