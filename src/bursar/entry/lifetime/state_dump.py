"""The state of a process in its log, on SIGUSR1: what `/statusz` shows."""

from collections.abc import Callable

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.status_page import Report
from bursar.app.log import Log


class StateDump:
    """Writes the report of a process to its log, once the process has one."""

    def __init__(self, log: Log, report: Callable[[], Report] | None = None) -> None:
        """`report` makes the report. It can be set later: it is None while a process starts."""
        self._log = log
        self._began_s = SYSTEM_CLOCK.monotonic()
        self.report = report

    @property
    def uptime_s(self) -> float:
        return SYSTEM_CLOCK.monotonic() - self._began_s

    def write(self) -> None:
        """A line for each section."""
        if self.report is None:
            self._log.info("the process has no state yet")
            return
        for section, values in self.report().items():
            self._log.info("state of this process", section=section, **values)
