"""`make test`: six parts of the tests side by side, each with its slowest tests at the end.

The first part is measured for coverage, which makes its tests take twice as long, and the second
one computes as well. The others mostly wait for a real control plane, each for one of its own; one
of them has a real node. Types and imports are checked meanwhile. The first part is shown as it
runs; each of the others is printed when it has ended. Programs in Go are built before all that.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from assets import ASSETS, AssetError, ensure
from real_node import node, vm
from real_node.base import PROGRAMS

PYTEST = ["-m", "pytest", "-q", "--durations=20", "--durations-min=1"]
COVERAGE = ["-m", "coverage", "run"]
INTEGRATION = "tests/integration"
COVERED = [
    *("tests/core", "tests/wire", "tests/oracle", "tests/architecture"),
    *(f"tests/adapters/{name}" for name in ("admission", "controller_http", "extender", "kube")),
    *(f"tests/app/test_{name}.py" for name in ("admission", "capacity_[dor]*", "extender")),
    *(f"tests/app/test_{name}.py" for name in ("operator", "policy_part", "queue_limit")),
    *(f"tests/app/test_quota_{name}.py" for name in ("controller", "in_force", "loop", "memory")),
    *("tests/app/test_quota_read_model.py", "tests/cli/test_peerpod*.py"),
]
"""The tests that execute every statement of `core` and `wire`: their own, the comparisons with
upstream Go, and those of adapters and jobs that read what others write."""
SECOND = [
    *(f"{INTEGRATION}/test_{name}.py" for name in ("extender", "scheduling_failures")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("aaq_*", "quota_defects", "quota_in_force")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("quota_restored", "openshift_quotas")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("counting_policies", "doctor")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("foreign_webhooks", "capacity_process")),
]
"""Tests of a real control plane for which a second one is started, since they take long: of
schedulers, of AAQ's behaviour row by row, of doctor, and others that wait."""
CHECKS = ["--no-print-directory", "types", "imports"]
GO_SETTINGS = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
"""Control planes look for garbage less often: they are small here, and cores are few."""
PATIENT = [
    "tests/contracts",
    f"{INTEGRATION}/test_quota_crashes.py",
    f"{INTEGRATION}/test_certificates.py",
    f"{INTEGRATION}/test_certificates_takeover.py",
    f"{INTEGRATION}/test_describe_quota.py",
    f"{INTEGRATION}/test_kubevirt.py",
    f"{INTEGRATION}/test_migrate_aaq.py",
    f"{INTEGRATION}/test_vm_node.py",
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
    _build_programs()
    processes: list[subprocess.Popen[bytes]] = []
    # Before the parts are started: they would inherit it if SIGINT were ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _end(processes))
    os.environ.update(GO_SETTINGS | os.environ)
    with tempfile.TemporaryDirectory(prefix="bursar-tests-") as folder:
        logs = Path(folder)
        covered_paths, installed, second = map(_found, (COVERED, INSTALLED, SECOND))
        tests = [sys.executable, *PYTEST]
        parts = [
            _Part(logs / "checks", os.environ.get("MAKE", "make"), *CHECKS),
            _Part(
                *(logs / "computing", *tests, "-m", "not integration"),
                *_all_but(covered_paths),
            ),
            _Part(logs / "second", *tests, "-m", "integration", *second),
            _Part(logs / "patient", *tests, "-m", "integration", *PATIENT),
            _Part(logs / "installed", *tests, "-m", "integration", *installed),
            _Part(
                *(logs / "cluster", *tests, "-m", "integration"),
                *_all_but(PATIENT + installed + second),
            ),
        ]
        covered = subprocess.Popen(
            [sys.executable, *COVERAGE, *PYTEST, "-m", "not integration", *covered_paths],
            start_new_session=True,
        )
        processes += [covered, *(part.process for part in parts)]
        code = covered.wait()
        for part in parts:
            code = part.end() or code
    return code


def _build_programs() -> None:
    """Build each program in Go once, unless it is there already.

    Otherwise several parts would build the same program at the same time, and a test that waits
    for a build would count as one that hangs.
    """
    if shutil.which("go") is None:
        return
    has_node = None in (node.missing(), vm.missing())
    for name in ASSETS:
        if has_node or name not in PROGRAMS:
            try:
                ensure(name)
            except AssetError as error:
                print(f"{name} cannot be built, so its tests will fail: {error}", flush=True)


class _Part:
    """Some of the tests, in a process of their own that writes to a file."""

    def __init__(self, log: Path, *command: str) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> int:
        """Wait for it, and print all that it wrote."""
        print(f"\n{self._log.name}:", flush=True)
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


def _found(patterns: Sequence[str]) -> list[str]:
    found = {pattern: [str(path) for path in sorted(Path().glob(pattern))] for pattern in patterns}
    assert all(found.values()), f"no such tests: {[each for each in found if not found[each]]}"
    return [path for paths in found.values() for path in paths]


def _all_but(paths: Sequence[str]) -> list[str]:
    return [f"--ignore={path}" for path in paths]


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Interrupt each process once: it tears its fixtures down, which a second one would stop."""
    while processes:
        processes.pop().send_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
