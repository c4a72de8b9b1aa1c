"""`make test`: six parts of the tests side by side, each with its slowest tests at the end.

The first part is measured for coverage, which makes its tests take twice as long. The second one
computes as well: it has the comparisons with upstream Go. The others mostly wait for a real control
plane, each for one of its own; one of them has a real node. Types and imports are checked
meanwhile. The first part is shown as it runs; each of the others is printed when it has ended, and
at last how long each part took. Programs in Go are built before all that.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from assets import ASSETS, AssetError, ensure
from real_node import node, vm
from real_node.base import PROGRAMS

PYTEST = ["-m", "pytest", "-q", "--durations=20", "--durations-min=1"]
COVERAGE = ["-m", "coverage", "run"]
INTEGRATION = "tests/integration"
COVERED = [
    *("tests/core", "tests/wire", "tests/architecture"),
    *(f"tests/adapters/{name}" for name in ("admission", "controller_http", "extender", "kube")),
    *(f"tests/app/test_{name}.py" for name in ("admission", "capacity_[dor]*", "extender")),
    *(f"tests/app/test_{name}.py" for name in ("giant_objects", "operator", "policy_part")),
    "tests/app/test_queue_limit.py",
    *(f"tests/app/test_quota_{name}.py" for name in ("controller", "in_force", "loop", "memory")),
    *("tests/app/test_quota_read_model.py", "tests/cli/test_peerpod*.py"),
]
"""The tests that execute every statement of `core` and `wire`: their own, and those of adapters and
jobs that read what others write."""
SECOND = [
    *(f"{INTEGRATION}/test_{name}.py" for name in ("extender", "scheduling_failures")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("aaq_*", "quota_defects", "quota_in_force")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("quota_restored", "openshift_quotas")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("counting_policies", "doctor")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("foreign_webhooks", "capacity_process")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("chart", "operator", "kubernetes_versions")),
    "tests/docs/test_runbooks.py",
]
"""Tests of a real control plane for which a second one is started, since they take long: of
schedulers, of AAQ's behaviour row by row, of doctor, and others that wait. Besides, those that
start a control plane of their own in any part."""
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
    *(f"{INTEGRATION}/test_{name}.py" for name in ("real_node*", "image", "installed*")),
    *(f"{INTEGRATION}/test_{name}.py" for name in ("disk", "extended_resource_howto")),
]
"""The tests of the real node and of what is installed on it. A run has one such node."""
HEARTBEAT_SECONDS = 60
NO_TESTS = 5
"""The exit code of pytest if there is no Go toolchain to build a control plane with."""


def main() -> int:
    _build_programs()
    began = time.monotonic()
    running: list[_Part] = []
    # Before the parts are started: they would inherit it if SIGINT were ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _interrupt(running))
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
        measured = [sys.executable, *COVERAGE, *PYTEST, "-m", "not integration"]
        parts.insert(0, _Part(None, *measured, *covered_paths))
        running += parts
        codes = [part.end() for part in parts]
    print(f"\nall tests: {_minutes(time.monotonic() - began)}", flush=True)
    for part in parts:
        print(f"  {part.name}: {_minutes(part.cpu_s)} of CPU time", flush=True)
    return max(codes)


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
    """Some of the tests, in a process of their own. It writes to a file, if there is one."""

    def __init__(self, log: Path | None, *command: str) -> None:
        self.name = "covered" if log is None else log.name
        self.cpu_s = 0.0
        """CPU time of the process and of all processes that it started and waited for."""
        self._log = log
        with contextlib.ExitStack() as files:
            file = None if log is None else files.enter_context(log.open("wb"))
            self._process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT if file else None,
                start_new_session=True,
            )

    def interrupt(self) -> None:
        # Not `send_signal`: it could take the exit status that `_wait` waits for.
        if self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        """Wait for it, and print all that it wrote. Returns 0 if it is green."""
        if self._log is None:
            return self._wait()
        print(f"\n{self.name}:", flush=True)
        ended = threading.Event()
        threading.Thread(target=self._report, args=(self._log, ended), daemon=True).start()
        code = self._wait()
        ended.set()
        print(_text(self._log), flush=True)
        return 0 if code == NO_TESTS else code

    def _wait(self) -> int:
        _, status, used = os.wait4(self._process.pid, 0)
        self.cpu_s = used.ru_utime + used.ru_stime
        # The code of a process that a signal ended is negative.
        code = self._process.returncode = abs(os.waitstatus_to_exitcode(status))
        return code

    def _report(self, log: Path, ended: threading.Event) -> None:
        """Print the last line of the log now and then: a long silence looks like a hang."""
        while not ended.wait(HEARTBEAT_SECONDS):
            lines = _text(log).splitlines()
            print(lines[-1] if lines else "...", flush=True)


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def _found(patterns: Sequence[str]) -> list[str]:
    found = {pattern: [str(path) for path in sorted(Path().glob(pattern))] for pattern in patterns}
    assert all(found.values()), f"no such tests: {[each for each in found if not found[each]]}"
    return [path for paths in found.values() for path in paths]


def _all_but(paths: Sequence[str]) -> list[str]:
    return [f"--ignore={path}" for path in paths]


def _interrupt(parts: list[_Part]) -> None:
    """Interrupt each part once: it tears its fixtures down, which a second one would stop."""
    while parts:
        parts.pop().interrupt()


if __name__ == "__main__":
    sys.exit(main())
