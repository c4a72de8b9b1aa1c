"""`--log-level` and `--log-format`, which every process has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import click


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


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; `log_from` makes settings of what the command receives."""
    command = click.option(
        "--log-format",
        type=click.Choice([each.value for each in LogFormat]),
        help="Format of the log on standard error. Default: text on a terminal, else json.",
    )(command)
    return click.option(
        "--log-level",
        type=click.Choice([each.value for each in LogLevel]),
        default=LogLevel.INFO.value,
        show_default=True,
        help="Least severe messages to log.",
    )(command)


def log_from(chosen: Mapping[str, Any]) -> LogSettings:
    named = chosen["log_format"]
    return LogSettings(
        level=LogLevel(chosen["log_level"]), format=None if named is None else LogFormat(named)
    )
