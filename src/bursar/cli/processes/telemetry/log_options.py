"""`--log-level` and `--log-format`, which every process has."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import click

from bursar.cli.options import one_of, together


class LogLevel(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: LogLevel = LogLevel.INFO
    format: LogFormat | None = None
    """None: text if standard error is a terminal, else JSON."""


log_options: Final = together(
    one_of("--log-level", LogLevel.INFO, "Least severe messages to log."),
    click.option(
        "--log-format",
        type=click.Choice([each.value for each in LogFormat]),
        help="Format of the log on standard error. Default: text on a terminal, else json.",
    ),
)
"""`log_from` makes settings of what the command receives."""


def log_from(chosen: Mapping[str, Any]) -> LogSettings:
    named = chosen["log_format"]
    return LogSettings(
        level=LogLevel(chosen["log_level"]), format=None if named is None else LogFormat(named)
    )
