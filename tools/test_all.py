"""`make test`: five parts of the tests side by side, each with its slowest tests at the end.

Two parts compute, and are measured for coverage. The others mostly wait for a real control
plane, each for one of its own; one of them has a real node. The first part is shown as it runs;
each of the others is printed when it has ended.
"""

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

PYTEST = ["-m", "pytest", "-q", "--durations=20", "--durations-min=1"]
COVERAGE = ["-m", "coverage", "run", "--parallel-mode"]
INTEGRATION = "tests/integration"
PURE = [
    *("tests/core", "tests/wire", "tests/oracle", "tests/architecture"),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("extender", "scheduling_failures")),
]
"""Less than half of the computing, and tests of real schedulers, for which it has the time."""
PATIENT = [
    "tests/contracts",
    f"{INTEGRATION}/test_quota_crashes.py",
    f"{INTEGRATION}/test_certificates.py",
    f"{INTEGRATION}/test_certificates_takeover.py",
    f"{INTEGRATION}/test_describe_quota.py",
    f"{INTEGRATION}/test_kubevirt.py",
    f"{INTEGRATION}/test_migrate_aaq.py",
    f"{INTEGRATION}/test_vm_node.py",
    f"{INTEGRATION}/test_vm_node_end.py",
]
"""The tests that wait longest: for faults to pass, for Leases and certificates to expire, for
controllers of Kubernetes, for a virtual machine."""
INSTALLED = [
    *(f"{INTEGRATION}/test_{name}.py" for name in ("real_node*", "image", "chart", "installed*")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("disk", "extended_resource_howto")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("operator", "kubernetes_versions")),
    "tests/docs/test_runbooks.py",
]
"""The tests of the real node and of what is installed on it. A run has one such node. Besides,
those that start a control plane of their own in any part."""
HEARTBEAT_SECONDS = 60
NO_TESTS = 5
"""The exit code of pytest if there is no Go toolchain to build a control plane with."""


def main() -> int:
    processes: list[subprocess.Popen[bytes]] = []
    # Before the parts are started: they would inherit it if SIGINT were ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _end(processes))
    with tempfile.TemporaryDirectory(prefix="bursar-tests-") as folder:
        logs = Path(folder)
        installed = [str(path) for each in INSTALLED for path in sorted(Path().glob(each))]
        parts = [
            _Part(logs / "computing", *COVERAGE, *PYTEST, "-m", "not integration", *_all_but(PURE)),
            _Part(logs / "patient", *PYTEST, "-m", "integration", *PATIENT),
            _Part(logs / "installed", *PYTEST, "-m", "integration", *installed),
            _Part(
                *(logs / "cluster", *PYTEST, "-m", "integration"),
                *_all_but(PATIENT + installed + PURE),
            ),
        ]
        pure = subprocess.Popen([sys.executable, *COVERAGE, *PYTEST, *PURE], start_new_session=True)
        processes += [pure, *(part.process for part in parts)]
        code = pure.wait()
        for part in parts:
            code = part.end() or code
    return code


class _Part:
    """Some of the tests, in a process of their own that writes to a file."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> int:
        """Wait for it, and print all that it wrote."""
        print(f"\n{self._log.name} tests:", flush=True)
        ended = threading.Event()
        threading.Thread(target=self._report, args=(ended,), daemon=True).start()
        code = self.process.wait()
        ended.set()
        print(self._text(), flush=True)
        return 0 if code == NO_TESTS else code

    def _report(self, ended: threading.Event) -> None:
        """Print the last line of the log now and then: a long silence looks like a hang."""
        while not ended.wait(HEARTBEAT_SECONDS):
            lines = self._text().splitlines()
            print(lines[-1] if lines else "...", flush=True)

    def _text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


def _all_but(paths: Sequence[str]) -> list[str]:
    return [f"--ignore={path}" for path in paths]


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Interrupt each process once: it tears its fixtures down, which a second one would stop."""
    while processes:
        processes.pop().send_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
