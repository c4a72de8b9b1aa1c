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

from bursar.core.model.quantity import Quantity

SAMPLES_MAX: Final = 50_000
"""Maximum series per metric family; further series are dropped and counted."""

Number: TypeAlias = int | float | Quantity

E = TypeVar("E", bound=Enum)

NO_LABELS: Final[Mapping[str, str]] = {}


class Kind(Enum):
    """Type of a metric family, in Prometheus's words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


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


def table(prefix: str, /, **rows: tuple[str, Number | Iterable[Sample]]) -> Iterator[Family]:
    """A family for each row: the rest of its name, its help, and its samples or its only value.

    As Prometheus recommends, the names of counters, and only theirs, end in `_total`.
    """
    for name, (text, value) in rows.items():
        yield Family(
            name=prefix + name,
            kind=Kind.COUNTER if name.endswith("_total") else Kind.GAUGE,
            help=text,
            samples=value if isinstance(value, Iterable) else (Sample(value),),
        )


def by(label: str, counts: Mapping[E, Number]) -> Iterator[Sample]:
    """A sample for each member of an enum, whose value is the label's."""
    return (Sample(count, {label: str(each.value)}) for each, count in counts.items())


def histogram(
    name: str, help: str, *, bounds: Sequence[float], counts: Sequence[int], total: float
) -> Family:
    """From how many fell up to each bound and above the one before, the last above them all."""
    assert len(counts) == len(bounds) + 1, "one count is for what is above all bounds"
    return Family(
        name=name,
        kind=Kind.HISTOGRAM,
        help=help,
        samples=_histogram_samples(bounds, counts, total),
    )


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
    """All of them as text. A family without samples is left out."""
    lines: list[str] = []
    omitted: list[Sample] = []
    for family in families:
        samples = iter(family.samples)
        lines += _lines(family, islice(samples, samples_max))
        if rest := sum(1 for _ in samples):
            omitted.append(Sample(rest, {"family": family.name}))
    for family in table("bursar_metrics_", omitted_samples=(_OMITTED, omitted)):
        lines += _lines(family, family.samples)
    return ("\n".join(lines) + "\n").encode() if lines else b""


_OMITTED: Final = "Samples left out of this answer because a family has too many."


def _lines(family: Family, samples: Iterable[Sample]) -> list[str]:
    lines = [_line(family.name, sample) for sample in samples]
    if not lines:
        return []
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    head = f"# HELP {family.name} {text}", f"# TYPE {family.name} {family.kind.value}"
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
