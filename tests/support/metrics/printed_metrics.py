"""The text of a /metrics page, and where it differs from the list of metrics."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bursar.adapters.telemetry.catalogue.index import METRICS
from bursar.adapters.telemetry.catalogue.metric import Kind, Metric, Process

SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
LISTED = {name: each for each in METRICS.values() for name in each.sample_names}
"""The list of metrics, by the names of their series."""


class NoLimiter:
    """The limiter of a client that has none."""

    limit = in_flight = throttled_total = waiting = 0


class Series(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: str


def samples(text: str) -> dict[str, str]:
    """The values by name with labels, as they are written."""
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def series_of(text: str) -> Iterator[Series]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found = SERIES.fullmatch(line)
            assert found, line
            name, labels, value = found.groups()
            yield Series(name, dict(_labels(labels or "")), value)


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in LABEL.findall(text):
        yield name, re.sub(r"\\.", lambda found: ESCAPED[found[0]], value)


def kinds_of(text: str) -> dict[str, str]:
    """Types by name of the family."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


def differences(text: str, process: Process) -> list[str]:
    """Where a page of this process differs from the list of metrics."""
    kinds = {name: each.kind.value for name, each in METRICS.items()}
    found = [
        f"{name} is a {kind}, and not listed as one"
        for name, kind in kinds_of(text).items()
        if kinds.get(name) != kind
    ]
    return found + sorted({text for each in series_of(text) for text in _problems(each, process)})


def _problems(series: Series, process: Process) -> Iterator[str]:
    listed = LISTED.get(series.name)
    if listed is None:
        yield f"{series.name} is not listed"
    elif set(series.labels) != _label_names(listed, series.name):
        yield f"{series.name} has the labels {sorted(series.labels)}"
    elif process not in listed.processes:
        yield f"{series.name} is not listed for {process.value}"


def _label_names(metric: Metric, name: str) -> set[str]:
    is_bucket = metric.kind is Kind.HISTOGRAM and name.endswith("_bucket")
    return {*metric.labels, "le"} if is_bucket else set(metric.labels)


def families_of(text: str) -> set[str]:
    """The names of the metrics on a page."""
    return {LISTED[each.name].name for each in series_of(text)}
