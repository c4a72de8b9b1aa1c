"""A program of ours in the background: started, watched, paused, killed, restarted, never left."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

DIE_WITH_PARENT = """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGKILL = 1, 9
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
if os.getppid() != int(sys.argv[1]):  # The parent died before the request was made.
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Replaces itself by a program that is killed when its parent ends.

A `preexec_fn` would do without it, but needs a fork, and a fork of a process that has used gRPC
may end before the program starts: https://github.com/grpc/grpc/issues/43055.
"""
STOP_SECONDS = 30
POLL_SECONDS = 0.05


class ProgramError(Exception):
    """A program that did not start or did not become ready; carries the end of its log."""


class Program:
    """One program. Its output goes to a log file; it dies with the thread that started it.

    So start it from the main thread, or from one that lives as long as the program should.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        is_ready: Callable[[], bool],
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self.is_running and self._process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.is_running
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-ISc", DIE_WITH_PARENT, str(os.getpid()), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C reaches us, and we stop it in order
            )

    def wait_ready(self, seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not self._is_ready():
            if not self.is_running:
                raise ProgramError(f"{self.name} ended by itself:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise ProgramError(f"{self.name} was not ready in {seconds} s:\n{self.log_end()}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ask it to end; if it has not ended after half a minute, kill it."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it at once, as `kill -9` would."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        """Suspend it: its connections stay open and get no answers."""
        self._signal(signal.SIGSTOP)
        if self.is_running and self._process is not None:
            # The signal is only on its way; leave the news for others who wait for the process.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start it again, after a kill or a stop, and wait until it is ready."""
        if self.is_running:
            self.stop()
        self.start()
        self.wait_ready()

    def log_end(self, lines: int = 20) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if self.is_running and self._process is not None:
            self._process.send_signal(number)


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
