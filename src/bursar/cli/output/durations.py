"""Durations as people and Kubernetes write them: `30s`, `5m`, `1h30m`."""

import re
from typing import Final

import click

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SHAPE: Final = re.compile(r"(?:[0-9]{1,9}(?:ms|s|m|h))+")
_PART: Final = re.compile(r"([0-9]+)(ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Seconds. Raises `ValueError`.

    >>> parse_duration("1m30s"), parse_duration("250ms")
    (90.0, 0.25)
    """
    if not _SHAPE.fullmatch(text):
        raise ValueError("a duration such as 30s, 5m or 1h30m is expected")
    return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(text)) / 1000


class Duration(click.ParamType[float, object]):
    """An option's value, in seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
