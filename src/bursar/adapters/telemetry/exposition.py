"""Metric families as values, and their text format for Prometheus.

A family is a value made from the current state for each scrape. There is no
registry and nothing to update, so metrics cannot disagree with the books.

The text is format 0.0.4, which every Prometheus reads. Amounts are written as exact
decimals; the reader converts them to floating point.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, TypeVar

from bursar.adapters.telemetry.catalogue.index import METRICS
from bursar.adapters.telemetry.catalogue.metric import Kind
from bursar.core.model.quantity import Quantity

SAMPLES_MAX: Final = 50_000
"""Maximum series per metric family; further series are dropped and counted."""

Number: TypeAlias = int | float | Quantity

E = TypeVar("E", bound=Enum)

NO_LABELS: Final[Mapping[str, str]] = {}


class Sample(NamedTuple):
    value: Number
    labels: Mapping[str, str] = NO_LABELS
    suffix: str = ""
    """Appended to the name of the family, as in `_bucket` of a histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    name: str
    kind: Kind
    help: str
    samples: Iterable[Sample] = field(default=())
    """Iterated once, when the text is made."""


def family(name: str, samples: Iterable[Sample]) -> Family:
    """A family of the list of metrics, with its samples."""
    listed = METRICS[name]
    return Family(name=name, kind=listed.kind, help=listed.help, samples=samples)


def table(prefix: str, /, **rows: Number | Iterable[Sample]) -> Iterator[Family]:
    """A family for each keyword argument.

    The keyword is the name of the family without `prefix`; the value is its samples, or the value
    of its only sample.
    """
    for name, value in rows.items():
        yield family(prefix + name, value if isinstance(value, Iterable) else (Sample(value),))


def by(label: str, counts: Mapping[E, Number]) -> Iterator[Sample]:
    """A sample for each member of an enum. The label has the value of the member."""
    return (Sample(count, {label: str(each.value)}) for each, count in counts.items())


def histogram(name: str, *, bounds: Sequence[float], counts: Sequence[int], total: float) -> Family:
    """A histogram. `counts[i]` is the number of values in the bucket that ends at `bounds[i]`.

    The last count is the number of values above all bounds. `total` is the sum of all values.
    """
    assert len(counts) == len(bounds) + 1, "one count is for what is above all bounds"
    return family(name, _histogram_samples(bounds, counts, total))


def _histogram_samples(
    bounds: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    so_far = 0
    for bound, count in zip((*bounds, math.inf), counts, strict=True):
        so_far += count
        yield Sample(so_far, {"le": _number(bound)}, "_bucket")
    yield Sample(total, suffix="_sum")
    yield Sample(so_far, suffix="_count")


# ------------------------------------------------------------------ the text


def exposition(families: Iterable[Family], *, samples_max: int = SAMPLES_MAX) -> bytes:
    """The families in Prometheus's text format. A family without samples is left out."""
    lines: list[str] = []
    omitted: list[Sample] = []
    for each in families:
        samples = iter(each.samples)
        lines += _lines(each, islice(samples, samples_max))
        if rest := sum(1 for _ in samples):
            omitted.append(Sample(rest, {"family": each.name}))
    for each in table("bursar_metrics_", omitted_samples=omitted):
        lines += _lines(each, each.samples)
    return ("\n".join(lines) + "\n").encode() if lines else b""


def _lines(shown: Family, samples: Iterable[Sample]) -> list[str]:
    lines = [_line(shown.name, sample) for sample in samples]
    if not lines:
        return []
    text = shown.help.replace("\\", r"\\").replace("\n", r"\n")
    head = f"# HELP {shown.name} {text}", f"# TYPE {shown.name} {shown.kind.value}"
    return [*head, *lines]


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in sample.labels.items())
    braced = f"{{{labels}}}" if labels else ""
    return f"{name}{sample.suffix}{braced} {_number(sample.value)}"


def _escaped(text: str) -> str:
    if text.isalnum():
        return text
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: Number) -> str:
    """The shortest exact text.

    >>> _number(Quantity.parse("1500m")), _number(2.0), _number(math.inf), _number(-3)
    ('1.5', '2', '+Inf', '-3')
    """
    if isinstance(value, Quantity):
        return value.exact
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value).removesuffix(".0")
