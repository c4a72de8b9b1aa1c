"""`make test`: three parts of the tests side by side.

One part computes; the other two mostly wait for a real control plane, each for one of its own.
Side by side they take as long as the longest of them. The first is shown as it runs; the
others are printed when they have ended.
"""

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=20"]
COMPUTING = [sys.executable, "-m", "coverage", "run", *PYTEST[1:]]
PATIENT = ["tests/contracts", "tests/integration/test_quota_crashes.py"]
"""Those that wait longest: for faults to pass, for leases to run out."""
HEARTBEAT_SECONDS = 60
NOTHING_TO_RUN = 5
"""How pytest ends where there is no Go toolchain to build a control plane with."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bursar-integration-") as folder:
        waiting = [
            _Part(Path(folder, "patient.log"), PATIENT),
            _Part(Path(folder, "others.log"), [f"--ignore={path}" for path in PATIENT]),
        ]
        computing = subprocess.Popen([*COMPUTING, "-m", "not integration"])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _end(computing, *(part.process for part in waiting)))
        code = computing.wait()
        print("\nwaiting for the parts that run against a real control plane ...", flush=True)
        for part in waiting:
            code = part.end() or code
    return code


class _Part:
    """Tests against a control plane, in a process of their own that writes to a file."""

    def __init__(self, log: Path, chosen: Sequence[str]) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*PYTEST, "-m", "integration", *chosen], stdout=file, stderr=subprocess.STDOUT
            )

    def end(self) -> int:
        """Wait for it, and print all that it wrote."""
        ended = threading.Event()
        threading.Thread(target=self._tell, args=(ended,), daemon=True).start()
        code = self.process.wait()
        ended.set()
        print(self._text(), flush=True)
        return 0 if code == NOTHING_TO_RUN else code

    def _tell(self, ended: threading.Event) -> None:
        """Say now and then how far the log has come: a long silence looks like a hang."""
        while not ended.wait(HEARTBEAT_SECONDS):
            lines = self._text().splitlines()
            print(lines[-1] if lines else "...", flush=True)

    def _text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


def _end(*parts: subprocess.Popen[bytes]) -> None:
    for part in parts:
        part.terminate()


if __name__ == "__main__":
    sys.exit(main())
