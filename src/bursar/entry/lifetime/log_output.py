"""Where a process writes its log: standard error, as text on a terminal and as JSON elsewhere.

Warnings that repeat are bounded: the first of a kind is written at once, later ones after a
pause that doubles up to five minutes. The next line that is written tells how many were left out.
"""

import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TextIO

from bursar.app.log import ROOT
from bursar.cli.processes.telemetry.log_options import LogFormat, LogLevel, LogSettings

FIRST_PAUSE_SECONDS: Final = 10.0
PAUSE_SECONDS_MAX: Final = 300.0
KINDS_MAX: Final = 512
"""How many kinds of warning are remembered; beyond that the least recent one is forgotten."""
KIND_FIELDS: Final = ("resource", "reason", "part", "path", "option", "socket", "failure")
"""Fields whose values tell two kinds of warning apart, as does the class of an exception in the
field `error`. They take few values."""
VALUE_LENGTH_MAX: Final = 1024


def start_log(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send the log of this process to a stream, standard error by default."""
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    form = settings.format or (LogFormat.TEXT if target.isatty() else LogFormat.JSON)
    handler.setFormatter(TextFormatter() if form is LogFormat.TEXT else JsonFormatter())
    handler.addFilter(RepeatLimit())
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(settings.level.value.upper())
    logger.propagate = False


@contextmanager
def warnings_as_text(stream: TextIO | None = None) -> Iterator[None]:
    """Log warnings as text for a command that a person watches, by default to standard error."""
    logger = logging.getLogger(ROOT)
    before = logger.handlers[:], logger.level, logger.propagate
    start_log(LogSettings(LogLevel.WARNING, LogFormat.TEXT), stream)
    try:
        yield
    finally:
        logger.handlers[:], level, logger.propagate = before
        logger.setLevel(level)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, component, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "component": _component(record),
            "message": record.getMessage(),
            **{name: _value(value) for name, value in _fields(record).items()},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """`time LEVEL component: message field=value`, for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        head = f"{_time(record)} {record.levelname:<7} {_component(record)}"
        line = f"{head}: {record.getMessage()}{fields}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _component(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


def _value(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = str(value)
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."


def _shown(value: object) -> str:
    """Quoted where it has blanks or characters that a terminal would obey."""
    text = str(_value(value))
    is_plain = text.isprintable() and text and not set(text) & set(' "=')
    return text if is_plain else json.dumps(text)


# ------------------------------------------------------------------ bounded repetition


@dataclass(slots=True)
class _Repeated:
    pause_s: float
    next_at: float
    left_out: int = 0


class RepeatLimit(logging.Filter):
    """Lets the first warning of a kind through, and repetitions only after growing pauses.

    A kind that was quiet for twice its pause starts again from the beginning.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: OrderedDict[tuple[object, ...], _Repeated] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        fields = _fields(record)
        values = (str(fields.get(name)) for name in KIND_FIELDS)
        kind = (record.name, record.msg, type(fields.get("error")), *values)
        now, known = record.created, self._kinds.get(kind)
        if known is None or now > known.next_at + known.pause_s:
            self._kinds[kind] = _Repeated(FIRST_PAUSE_SECONDS, now + FIRST_PAUSE_SECONDS)
            self._kinds.move_to_end(kind)
            if len(self._kinds) > KINDS_MAX:
                self._kinds.popitem(last=False)
            return True
        if now < known.next_at:
            known.left_out += 1
            return False
        if known.left_out:
            fields["repeated"] = known.left_out
        known.left_out = 0
        known.pause_s = min(known.pause_s * 2, PAUSE_SECONDS_MAX)
        known.next_at = now + known.pause_s
        return True
