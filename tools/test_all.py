"""`make test`: both halves of the tests side by side.

One half computes, the other mostly waits for a real control plane. Side by side they take
as long as the longer of them. The first is shown as it runs; the second is printed when
the first has ended.
"""

import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest", "-q"]
COMPUTING = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q"]
HEARTBEAT_SECONDS = 60
NOTHING_TO_RUN = 5
"""How pytest ends where there is no Go toolchain to build a control plane with."""


def main() -> int:
    with tempfile.NamedTemporaryFile(prefix="bursar-integration-", suffix=".log") as log:
        waiting = subprocess.Popen(
            [*PYTEST, "-m", "integration"], stdout=log, stderr=subprocess.STDOUT
        )
        computing = subprocess.Popen([*COMPUTING, "-m", "not integration"])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _end(waiting, computing))
        code = computing.wait()
        print("\nwaiting for the half that runs against a real control plane ...", flush=True)
        ended = threading.Event()
        threading.Thread(target=_tell, args=(Path(log.name), ended), daemon=True).start()
        integration_code = waiting.wait()
        ended.set()
        print(Path(log.name).read_text(encoding="utf-8", errors="replace"), flush=True)
    return code or (0 if integration_code == NOTHING_TO_RUN else integration_code)


def _tell(log: Path, ended: threading.Event) -> None:
    """Say now and then how far the log has come: a long silence looks like a hang."""
    while not ended.wait(HEARTBEAT_SECONDS):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print(lines[-1] if lines else "...", flush=True)


def _end(*halves: subprocess.Popen[bytes]) -> None:
    for half in halves:
        half.terminate()


if __name__ == "__main__":
    sys.exit(main())
