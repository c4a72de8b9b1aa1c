"""The log of a process: constant messages with fields, on top of the standard library.

A message is a constant, so that equal failures have equal messages: the process that
writes the log repeats a warning only at a bounded rate (`entry/lifetime/log_output.py`). What
varies goes into fields. Never pass a secret: no token, key, password or request body.
"""

import logging
from typing import Final

ROOT: Final = "bursar"


class Log:
    """One component's log. `Log("informer")` writes to the logger `bursar.informer`.

    >>> Log("informer").warning("watch failed; retrying", resource="pods", error="timeout")
    """

    __slots__ = ("_logger",)

    def __init__(self, component: str) -> None:
        self._logger = logging.getLogger(f"{ROOT}.{component}")

    def debug(self, message: str, **fields: object) -> None:
        self._logger.debug(message, extra={"fields": fields})

    def info(self, message: str, **fields: object) -> None:
        self._logger.info(message, extra={"fields": fields})

    def warning(self, message: str, **fields: object) -> None:
        """A failure that the process recovers from, or a setting without effect."""
        self._logger.warning(message, extra={"fields": fields})

    def error(self, message: str, **fields: object) -> None:
        """A failure that the process cannot recover from by itself."""
        self._logger.error(message, extra={"fields": fields})
