"""What every verb shares: `-o table|json|yaml`, tables for people, documents for programs.

Data goes to stdout, everything else to stderr. Colour only on a terminal, never with NO_COLOR.
"""

import os
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import click

from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.wire.documents.json_writing import json_text
from bursar.wire.documents.yaml_writing import yaml_text


class Output(Enum):
    TABLE = "table"
    WIDE = "wide"
    """The table with its long columns. Only lists have it."""
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    """All columns, for a spreadsheet. Only lists have it."""
    NAME = "name"
    """Only `kind/name`, a line each, for kubectl. Only lists have it."""


GAP: Final = 3
"""Blanks between two columns."""
BOLD: Final = "\x1b[1m"
PLAIN: Final = "\x1b[0m"


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-o/--output`; the command receives it as `output: Output`."""
    return _output_option(command, [Output.TABLE, Output.JSON, Output.YAML])


def _output_option(command: Callable[..., Any], choices: Sequence[Output]) -> Callable[..., Any]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice([choice.value for choice in choices]),
        default=Output.TABLE.value,
        show_default=True,
        callback=lambda _context, _parameter, value: Output(value),
        help="Format of the output.",
    )(command)


def emit_document(document: object, output: Output) -> None:
    """Print plain data (dicts, lists, strings, numbers) as JSON or YAML."""
    if output is Output.JSON:
        click.echo(json_text(document))
    else:
        click.echo(yaml_text(document), nl=False)


def emit_rows(
    output: Output,
    documents: Sequence[object],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    nothing: str,
) -> None:
    """Print a document, or a table; for a table without rows print a line on standard error."""
    if output is not Output.TABLE:
        emit_document(documents, output)
    elif rows:
        emit_table(columns, rows)
    else:
        click.echo(f"bursar: {nothing}", err=True)


def amount_or_dash(amount: Quantity | None) -> str:
    return "-" if amount is None else str(amount)


def texts_of(amounts: ResourceList) -> dict[str, str]:
    """Amounts for a document, sorted by name."""
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def printable(text: str) -> str:
    r"""The text with control characters escaped: input must not move a reader's cursor.

    >>> printable("1\x1b[2J")
    '1\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def emit_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    indent: int = 0,
    has_head: bool = True,
) -> None:
    """Print aligned columns. A line that is longer than the terminal is never folded."""
    if rows or has_head:
        click.echo("\n".join(table_lines(columns, rows, indent=indent, has_head=has_head)))


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    indent: int = 0,
    has_head: bool = True,
) -> list[str]:
    """The lines of a table; on a terminal the head is bold."""
    lines = [tuple(map(printable, row)) for row in rows]
    if has_head:
        lines.insert(0, tuple(map(printable, columns)))
    widths = [max(map(cells_of, cells)) for cells in zip(*lines, strict=True)]
    texts = [" " * indent + _line(cells, widths) for cells in lines]
    if has_head and is_styled():
        texts[0] = f"{BOLD}{texts[0]}{PLAIN}"
    return texts


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - cells_of(cell)) for cell, width in zip(cells, widths, strict=True)
    )
    return (" " * GAP).join(padded).rstrip()


def is_styled() -> bool:
    """Whether standard output is a terminal, and its user has not refused colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def cells_of(text: str) -> int:
    """How many columns of a terminal the text takes; an ideograph takes two.

    >>> cells_of("web"), cells_of("\u7db2")
    (3, 2)
    """
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # noqa: PLC0415 - names are ASCII

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
