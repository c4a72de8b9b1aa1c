"""Parsing quantities, against a bare int() call on a text of the same length."""

from collections.abc import Iterator

from bursar.core.model.quantity import Quantity
from ratio import Ratio, alternate

COUNT = 200_000
USUAL = ["100m", "250m", "500m", "1", "2", "64Mi", "128Mi", "1Gi", "4Gi", "10Gi"]
SUFFIXES = ["", "m", "k", "M", "Ki", "Mi", "Gi"]


def parse_all(texts: list[str]) -> None:
    for text in texts:
        Quantity.parse(text)


def int_all(texts: list[str]) -> None:
    for text in texts:
        int(text)


def measure() -> Iterator[Ratio]:
    repeated = [USUAL[i % len(USUAL)] for i in range(COUNT)]
    digits = [str(i % 1000) for i in range(COUNT)]
    ours, bare = alternate(lambda: parse_all(repeated), lambda: int_all(digits), 5)
    yield Ratio(
        "parse, repeated texts", COUNT / ours, "int()", COUNT / bare, "parses/s", ">= 400,000"
    )
    # Each round reads texts never seen before, so no cache can help.
    fresh = iter(range(10**9))

    def parse_distinct() -> None:
        for text in batches.pop():
            Quantity.parse(text)

    batches = [
        [f"{next(fresh)}{SUFFIXES[i % len(SUFFIXES)]}" for i in range(COUNT)] for _ in range(5)
    ]
    longer = [str(10**6 + i) for i in range(COUNT)]
    ours, bare = alternate(parse_distinct, lambda: int_all(longer), 5)
    yield Ratio(
        "parse, distinct texts", COUNT / ours, "int()", COUNT / bare, "parses/s", ">= 100,000"
    )
    amounts = [Quantity.parse(text) for text in repeated]
    ours, bare = alternate(lambda: sum(amounts, start=Quantity(0)), lambda: sum(range(COUNT)), 5)
    yield Ratio("add", COUNT / ours, "int + int", COUNT / bare, "additions/s")
