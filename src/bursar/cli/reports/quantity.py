"""`bursar quantity`: what Kubernetes makes of a quantity, exactly."""

import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

import click

from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.output.formats import Output, emit_document, emit_table, printable
from bursar.cli.output.listing import Column, Listing, Row, emit_listing, format_options
from bursar.cli.output.listing import Format as ListFormat
from bursar.core.model.quantity import (
    TEXT_LENGTH_MAX,
    ZERO,
    Format,
    Quantity,
    QuantityError,
)

COLUMNS: Final = tuple(map(Column, ("INPUT", "CANONICAL", "VALUE", "FORMAT", "NOTE")))
INPUT_SHOWN_MAX: Final = 40
LINE_BYTES_MAX: Final = TEXT_LENGTH_MAX * 4


@click.command(
    short_help="Parse, compare and add quantities as Kubernetes does.",
    context_settings={"ignore_unknown_options": True},  # so that -1 and -100m are quantities
    epilog="Exit code 1 if any input is not a quantity. Without arguments, reads one per line.",
)
@click.argument("quantities", nargs=-1, metavar="[Q]...")
@click.option("--compare", is_flag=True, help="Compare two quantities.")
@click.option("--sum", "total", is_flag=True, help="Add the quantities, as Kubernetes does.")
@format_options
def quantity(quantities: tuple[str, ...], *, compare: bool, total: bool, format: ListFormat) -> int:
    """Show the canonical form, exact value and format of each quantity Q.

    The canonical form is the text the API server stores and prints. It keeps
    some texts as typed (1.500, +1, 1E3); the note then gives their normal form.
    """
    if compare and total:
        raise click.UsageError("--compare and --sum exclude each other")
    texts = quantities or _from_stdin()
    if compare and len(texts) != 2:
        raise click.UsageError(f"--compare takes two quantities, not {len(texts)}")
    readings = [_read(text) for text in texts]
    if compare or total:
        if not (format.is_document or format.output is Output.TABLE):
            raise click.UsageError("--compare and --sum print no list: -o table, json or yaml")
        return _combine(texts, readings, compare=compare, output=format.output)
    rows = [_row(text, reading) for text, reading in zip(texts, readings, strict=True)]
    emit_listing(Listing(columns=COLUMNS, rows=tuple(rows), nothing="no quantity"), format)
    return NO if any(isinstance(reading, QuantityError) for reading in readings) else OK


def _from_stdin() -> tuple[str, ...]:
    if sys.stdin.isatty():
        raise click.UsageError("give at least one quantity, e.g. bursar quantity 1500m 1.5Gi")
    return tuple(line for raw in _lines(sys.stdin.buffer) if (line := raw.strip()))


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines of text. An endless one is cut after more characters than any quantity may have."""
    number = 0
    while raw := stream.readline(LINE_BYTES_MAX):
        number += 1
        rest = raw
        while not rest.endswith(b"\n") and len(rest) == LINE_BYTES_MAX:
            rest = stream.readline(LINE_BYTES_MAX)
        try:
            yield raw.decode()
        except UnicodeDecodeError:
            raise BadInputError(f"standard input, line {number}: not UTF-8") from None


def _read(text: str) -> Quantity | QuantityError:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        return error


def _entry(text: str, reading: Quantity | QuantityError) -> dict[str, str]:
    if isinstance(reading, QuantityError):
        meant = _meant(text)
        return {"input": text, "error": str(reading), **({"meant": meant} if meant else {})}
    return {"input": text, **_facts(reading)}


def _facts(reading: Quantity) -> dict[str, str]:
    return {"canonical": str(reading), "value": reading.exact, "format": reading.format.value}


def _row(text: str, reading: Quantity | QuantityError) -> Row:
    if isinstance(reading, QuantityError):
        cells: tuple[str, ...] = (_shown(text), "-", "-", "-", f"error: {_problem(text, reading)}")
    else:
        cells = (_shown(text), *_facts(reading).values(), _note(reading))
    return Row(cells=cells, document=_entry(text, reading), name=f"quantity/{text}")


def _problem(text: str, error: QuantityError) -> str:
    meant = _meant(text)
    return f"did you mean {meant}? {error}" if meant else str(error)


def _meant(text: str) -> str | None:
    from bursar.wire.structs.quantity_hint import likely_quantity  # noqa: PLC0415 - for errors

    return likely_quantity(text)


def _shown(text: str) -> str:
    return printable(text if len(text) <= INPUT_SHOWN_MAX else f"{text[:INPUT_SHOWN_MAX]}...")


def _note(reading: Quantity) -> str:
    """What surprises people: a text that is kept, or one that no longer says what it is."""
    if Quantity.parse(reading.canonical) != reading:
        if reading.format is Format.DECIMAL_SI:
            return "beyond 999E there is no suffix, and Kubernetes prints none"
        return "beyond 1023Ei there is no suffix, and Kubernetes prints none"
    if reading.verbatim is not None and reading.verbatim != reading.canonical:
        return f"kept as typed; normal form {reading.canonical}"
    return ""


def _combine(
    texts: tuple[str, ...],
    readings: list[Quantity | QuantityError],
    *,
    compare: bool,
    output: Output,
) -> int:
    for text, reading in zip(texts, readings, strict=True):
        if isinstance(reading, QuantityError):
            click.echo(f"bursar: {_shown(text)}: {_problem(text, reading)}", err=True)
    valid = [reading for reading in readings if isinstance(reading, Quantity)]
    if len(valid) < len(readings):
        return NO
    if compare:
        _emit_comparison(texts, valid, output)
    else:
        _emit_sum(texts, valid, output)
    return OK


def _emit_comparison(texts: tuple[str, ...], pair: list[Quantity], output: Output) -> None:
    left, right = pair
    order = (left > right) - (left < right)
    relation = {-1: "<", 0: "=", 1: ">"}[order]
    if output is Output.TABLE:
        click.echo(f"{texts[0]} {relation} {texts[1]}")
        return
    document = {
        "left": _entry(texts[0], left),
        "right": _entry(texts[1], right),
        "compare": order,
        "relation": relation,
    }
    emit_document(document, output)


def _emit_sum(texts: tuple[str, ...], addends: list[Quantity], output: Output) -> None:
    total = sum(addends, start=ZERO)
    if output is Output.TABLE:
        facts = _facts(total)
        emit_table([column.name for column in COLUMNS[1:4]], [tuple(facts.values())])
        return
    emit_document({"inputs": list(texts), **_facts(total)}, output)
