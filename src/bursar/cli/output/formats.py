"""What every verb shares: `-o table|json|yaml`, tables for people, documents for programs.

Data goes to stdout, everything else to stderr. Colour only on a terminal, never with NO_COLOR.
"""

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
    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"
    """A table with more rows or columns. Only some commands have it."""


GAP: Final = 3
"""Blanks between two columns."""
STYLED_ROWS_MAX: Final = 500
"""Longer tables go without style: it takes a millisecond a row."""


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-o/--output`; the command receives it as `output: Output`."""
    return _output_option(command, [Output.TABLE, Output.JSON, Output.YAML])


def wide_output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a command that also has `-o wide`."""
    return _output_option(command, [Output.TABLE, Output.WIDE, Output.JSON, Output.YAML])


def _output_option(command: Callable[..., Any], choices: Sequence[Output]) -> Callable[..., Any]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice([choice.value for choice in choices]),
        default=Output.TABLE.value,
        show_default=True,
        callback=lambda _context, _parameter, value: Output(value),
        help="Output format.",
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


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 0) -> None:
    """Print aligned columns; on a terminal the head is bold and wide cells are folded."""
    safe = [tuple(map(printable, row)) for row in rows]
    if sys.stdout.isatty() and len(rows) <= STYLED_ROWS_MAX:
        _emit_styled(columns, safe, indent)
        return
    lines = [tuple(columns), *safe]
    widths = [max(map(len, cells)) + GAP for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo((" " * indent + "".join(cells)).rstrip())


def _emit_styled(columns: Sequence[str], rows: Sequence[Sequence[str]], indent: int) -> None:
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(highlight=False, soft_wrap=False, emoji=False, markup=False)
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)))
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
