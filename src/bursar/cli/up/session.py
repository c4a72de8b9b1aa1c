"""One run of the terminal application: the cluster in a thread, the screen in the main thread.

The two share nothing but the newest state, which is immutable. So a busy cluster does not delay
keys, and a slow terminal does not delay the cluster.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from bursar.app.reports.overview import Overview
from bursar.cli.up.application import UpApp
from bursar.cli.up.stop import Stop

TERMINAL: Final = "/dev/tty"
LEAVE_SECONDS: Final = 1.0
"""How long a session waits for the cluster to end if there is nothing to save. After that, its
thread ends with the process."""


Work = Callable[[Callable[[Overview], None], Stop], Overview]
"""Shows states of a cluster until it is told to stop, and returns the last one."""


class Session:
    """The state that the thread of the cluster and the main thread share."""

    def __init__(self, work: Work, *, must_end_well: bool) -> None:
        """`must_end_well`: wait until the work has ended, because it saves the cluster then."""
        self._work = work
        self._patience = None if must_end_well else LEAVE_SECONDS
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run, name="cluster", daemon=True)
        self._began = threading.Event()
        """Set when there is a state to show, or when the work has ended without one."""
        self._newest: Overview | None = None
        self._error: BaseException | None = None
        self.is_ending = False

    @property
    def newest(self) -> Overview | None:
        return self._newest

    def _run(self) -> None:
        try:
            self._newest = self._work(self._show, self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._error = error
        finally:
            self.is_ending = True
            self._began.set()

    def _show(self, seen: Overview) -> None:
        self._newest = seen
        self._began.set()

    def run(self, title: str, leave: Callable[[str], None]) -> None:
        """Draw until the user or the cluster ends; `leave` gets the last frame as text."""
        with _signals_end(self):
            self._thread.start()
            try:
                # The screen opens with the first state, so an error before it is a plain line.
                self._began.wait()
                if not self.is_ending:
                    leave(self._draw(title))
            finally:
                self.end()
                self._thread.join(self._patience)
        if self._error is not None:
            raise self._error

    def _draw(self, title: str) -> str:
        with _keyboard():
            app = UpApp(title, lambda: self._newest, lambda: self.is_ending)
            app.run()
        return app.last_frame

    def end(self) -> None:
        self.is_ending = True
        self._stop.set()
        self._began.set()


@contextmanager
def _signals_end(session: Session) -> Iterator[None]:
    """SIGTERM and SIGINT end the session as q does. The application sees it at its next look."""

    def end(_number: int, _frame: FrameType | None) -> None:
        session.end()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, end) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def can_draw() -> bool:
    """Whether there is a terminal to draw on and to read keys from."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    if sys.stdin.isatty():
        return True
    with suppress(OSError):
        os.close(os.open(TERMINAL, os.O_RDWR))
        return True
    return False


@contextmanager
def _keyboard() -> Iterator[None]:
    """Read keys from the terminal, also if manifests came through standard input."""
    if sys.stdin.isatty():
        yield
        return
    number = sys.stdin.fileno()
    before = os.dup(number)
    terminal = os.open(TERMINAL, os.O_RDWR)
    os.dup2(terminal, number)
    os.close(terminal)
    try:
        yield
    finally:
        os.dup2(before, number)
        os.close(before)
