"""What every verb shares: `-o table|json|yaml`, tables for people, documents for programs.

Data goes to stdout, everything else to stderr. Colour only on a terminal, never with NO_COLOR.
"""

import json
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import click


class Output(Enum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


NARROWEST: Final = 80


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-o/--output`; the command receives it as `output: Output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice([choice.value for choice in Output]),
        default=Output.TABLE.value,
        show_default=True,
        callback=lambda _context, _parameter, value: Output(value),
        help="How to print the result.",
    )(command)


def emit_document(document: object, output: Output) -> None:
    """Print plain data (dicts, lists, strings, numbers) as JSON or YAML."""
    if output is Output.JSON:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    import yaml  # noqa: PLC0415 - a third of a cold start, needed by one format only

    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def printable(text: str) -> str:
    r"""The text with control characters escaped: input must not move a reader's cursor.

    >>> printable("1\x1b[2J")
    '1\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, indent: int = 0) -> None:
    """Print aligned columns, headed on a terminal in bold; wide cells are never cut in a pipe."""
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=not sys.stdout.isatty(), overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(highlight=False, soft_wrap=False, emoji=False, markup=False)
    if not console.is_terminal:
        widest = sum(max(map(len, cells)) + 3 for cells in zip(columns, *rows, strict=True))
        console = Console(
            highlight=False, emoji=False, markup=False, width=max(NARROWEST, widest + indent)
        )
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)) if indent else table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
