"""Lists of objects: `-o table|wide|json|yaml|csv|name`, `--no-headers` and `--sort-by`.

A verb describes its list once, as a `Listing`. Which columns are shown, in which order the rows
come and how they are written is the same for every verb.
"""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Final

import click

from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.output.formats import Output, emit_document, emit_table, printable
from bursar.core.model.quantity import Quantity, QuantityError

NO_VALUE: Final = "-"
"""The cell of a value that does not exist, as opposed to zero."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list."""

    name: str
    """The head, in capital letters."""
    is_wide: bool = False
    """Whether only `-o wide` and `-o csv` show it, since it is long or rarely needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    cells: tuple[str, ...]
    """A text for each column of the listing."""
    document: object
    """The same for `-o json` and `-o yaml`, as plain data."""
    name: str
    """The object as kubectl's `-o name` writes it: `pod/web-0`."""
    order: Mapping[str, int] = field(default_factory=dict)
    """By what `--sort-by` sorts a column whose cells are neither amounts nor texts, as ages."""
    exact: Mapping[str, Quantity] = field(default_factory=dict)
    """The amounts of columns whose cells are rounded: `-o csv` and `--sort-by` use them."""
    text: str = ""
    """A description of the object. If rows have one, `-o table` prints it instead of the cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    total: Row | None = None
    """The sum of all rows, shown below them in tables."""
    totals: tuple[Row, ...] = ()
    """Several sums, if not all rows can be added up, since they are about different resources."""
    nothing: str = "nothing found"
    """What to say on standard error if there are no rows."""
    document: object = None
    """What `-o json` and `-o yaml` print. Default: the list of the rows' documents."""
    wrapped: Callable[[Sequence[object]], object] | None = None
    """Makes what `-o json` and `-o yaml` print of the rows' documents, in the order of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How the command line wants a list written."""

    output: Output = Output.TABLE
    has_headers: bool = True
    sort_by: str = ""
    """The name of a column in upper or lower case, after a minus sign for the reverse order. Empty:
    the order of the rows."""
    other: str = ""
    """A value of `-o` that only this command has; empty if the output is one of `Output`."""

    @property
    def is_document(self) -> bool:
        return self.output in {Output.JSON, Output.YAML}

    @property
    def is_table(self) -> bool:
        return self.output in {Output.TABLE, Output.WIDE}


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-o`, `--no-headers` and `--sort-by`; the command receives `format: Format`."""
    return _with_format(command, {})


def format_options_with(*others: tuple[str, str]) -> Callable[..., Any]:
    """As `format_options`, with further values of `-o`, each with the text of its help."""
    return lambda command: _with_format(command, dict(others))


def _with_format(command: Callable[..., Any], others: Mapping[str, str]) -> Callable[..., Any]:
    more = "".join(f" {value} {does}." for value, does in others.items())

    @click.option(
        "-o",
        "--output",
        type=click.Choice([*(choice.value for choice in Output), *others]),
        default=Output.TABLE.value,
        show_default=True,
        help=f"Output format. wide and csv have more columns; name is for kubectl.{more}",
    )
    @click.option("--no-headers", is_flag=True, help="Print tables and CSV without a header line.")
    @click.option(
        "--sort-by",
        default="",
        metavar="COLUMN",
        help="Sort by this column, the largest last; -COLUMN: the largest first. "
        "A blank in its name may be a hyphen: cpu-free.",
    )
    @wraps(command)
    def with_format(
        *args: Any,  # noqa: ANN401 - click's
        output: str,
        no_headers: bool,
        sort_by: str,
        **rest: Any,  # noqa: ANN401 - click's
    ) -> Any:  # noqa: ANN401 - click's
        given = Format(
            output=Output.TABLE if output in others else Output(output),
            has_headers=not no_headers,
            sort_by=sort_by,
            other=output if output in others else "",
        )
        return command(*args, format=given, **rest)

    return with_format


def emit_listing(listing: Listing, format: Format) -> None:
    """Print the list. Raises `BadInputError` for a column that it does not have."""
    listing = sorted_by(listing, format.sort_by)
    if format.is_document:
        emit_document(_document(listing), format.output)
        return
    if format.output is Output.NAME:
        _emit_lines(dict.fromkeys(printable(row.name) for row in listing.rows))
        return
    if format.output is Output.CSV:
        click.echo(_csv(listing, has_head=format.has_headers), nl=False)
        return
    if not listing.rows:
        click.echo(f"bursar: {listing.nothing}", err=True)
        return
    if _is_described(listing.rows, format):
        click.echo("\n\n".join(row.text for row in listing.rows))
        return
    rows = [*listing.rows, *listing.totals, *([listing.total] if listing.total else [])]
    emit_rows(listing.columns, rows, format, has_head=format.has_headers)


def _document(listing: Listing) -> object:
    if listing.document is not None:
        return listing.document
    documents = [row.document for row in listing.rows]
    return documents if listing.wrapped is None else listing.wrapped(documents)


class ListingPrinter:
    """Prints a list whole, and after a change only the rows that are new or have changed."""

    def __init__(self, format: Format, *, is_watching: bool = True) -> None:
        self._format = format
        self._is_watching = is_watching
        self._shown: set[tuple[str, ...]] | None = None

    def show(self, listing: Listing) -> None:
        if not self._is_watching:
            emit_listing(listing, self._format)
            return
        told = {_told(listing.columns, row): row for row in listing.rows}
        if self._shown is None or not self._format.is_table:
            emit_listing(listing, self._format)
        else:
            changed = [row for key, row in told.items() if key not in self._shown]
            if changed and _is_described(changed, self._format):
                click.echo("\n" + "\n\n".join(row.text for row in changed))
            elif changed:
                emit_rows(listing.columns, changed, self._format, has_head=False)
        self._shown = set(told)


def _told(columns: Sequence[Column], row: Row) -> tuple[str, ...]:
    """The content of a row without its ages, which change by themselves."""
    if row.text:
        return (row.name, repr(row.document))
    pairs = zip(columns, row.cells, strict=True)
    return tuple(cell for column, cell in pairs if column.name not in row.order)


def _is_described(rows: Sequence[Row], format: Format) -> bool:
    return format.output is Output.TABLE and any(row.text for row in rows)


def emit_rows(
    columns: Sequence[Column], rows: Iterable[Row], format: Format, *, has_head: bool
) -> None:
    """Print rows as a table with the columns that the format shows."""
    shown = [
        i for i, each in enumerate(columns) if format.output is Output.WIDE or not each.is_wide
    ]
    emit_table(
        [columns[i].name for i in shown],
        [[row.cells[i] for i in shown] for row in rows],
        has_head=has_head,
    )


def _emit_lines(lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    if text:
        click.echo(text)


def _csv(listing: Listing, *, has_head: bool) -> str:
    """All columns, wide ones as well; no total, since a program adds for itself."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if has_head:
        writer.writerow([_safe_cell(column.name) for column in listing.columns])
    writer.writerows(_exact_cells(listing.columns, row) for row in listing.rows)
    return text.getvalue()


def _exact_cells(columns: Sequence[Column], row: Row) -> list[str]:
    return [
        str(row.exact[column.name]) if column.name in row.exact else _safe_cell(cell)
        for column, cell in zip(columns, row.cells, strict=True)
    ]


def _safe_cell(cell: str) -> str:
    """The cell without control characters, and not taken for a formula by a spreadsheet."""
    safe = "" if cell == NO_VALUE else printable(cell)
    return f"'{safe}" if safe.startswith(("=", "@", "+", "-")) and _amount(safe) is None else safe


# ------------------------------------------------------------------ sorting


def sorted_by(listing: Listing, sort_by: str) -> Listing:
    """The list in the order of a column: amounts by size, other cells as text.

    Raises `BadInputError` if there is no such column.
    """
    if not sort_by:
        return listing
    is_reversed = sort_by.startswith("-")
    position = _position(listing.columns, sort_by.removeprefix("-"))
    column = listing.columns[position].name
    ordered = sorted(
        listing.rows, key=lambda row: _sort_key(row, column, position), reverse=is_reversed
    )
    return replace(listing, rows=tuple(ordered))


def _position(columns: Sequence[Column], wanted: str) -> int:
    """The place of a column: `cpu-free` is CPU FREE, and `cpu` the first column about CPU.

    A column that tables always have comes before one that only `-o wide` has.
    """
    words = [_as_option(column.name) for column in columns]
    word = _as_option(wanted)
    begun = [position for position, each in enumerate(words) if each.startswith(f"{word}-")]
    begun.sort(key=lambda position: columns[position].is_wide)
    found = words.index(word) if word in words else next(iter(begun), None)
    if found is None:
        listed = ", ".join(words)
        raise BadInputError(f"--sort-by: no column {printable(wanted)}; the columns are: {listed}")
    return found


def _as_option(name: str) -> str:
    return name.lower().replace(" ", "-")


def _sort_key(row: Row, column: str, position: int) -> tuple[int, int, str]:
    """No value is the least; then amounts by their size; then texts."""
    cell = row.cells[position]
    if column in row.order:
        return (1, row.order[column], "")
    if column in row.exact:
        return (1, row.exact[column].nanos, "")
    if cell == NO_VALUE:
        return (0, 0, "")
    amount = _amount(cell)
    return (2, 0, cell) if amount is None else (1, amount.nanos, "")


def _amount(cell: str) -> Quantity | None:
    """The amount that a cell begins with: `500m`, `12%`, or `2 (50%)`."""
    try:
        return Quantity.parse(cell.partition(" ")[0].removesuffix("%"))
    except QuantityError:
        return None
