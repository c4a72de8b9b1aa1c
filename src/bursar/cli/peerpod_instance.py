"""`bursar peerpod instance`: which instance type a size, or the pods in files, would get."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from bursar.adapters.peerpod_files import ManifestError, rewrite_files
from bursar.cli.ending import NO, OK, BadInputError
from bursar.cli.output import Output, emit_document, emit_table, output_option, printable
from bursar.cli.peerpod_options import (
    COUNT,
    Chosen,
    amount,
    catalogue_options,
    settings_from,
    sizing_options,
    types_from,
)
from bursar.core.peerpods import instances
from bursar.core.peerpods.annotating import machine_size
from bursar.core.peerpods.instances import (
    Choice,
    InstanceType,
    MachineSize,
    NothingFits,
    best_choice,
    fitting_types,
    upstream_choice,
    upstream_order,
)
from bursar.core.peerpods.rewriting import Denied, Rewritten
from bursar.core.peerpods.settings import MACHINE_TYPE_ANNOTATION, Mode
from bursar.core.peerpods.sizing import MIB

COLUMNS: Final = ("POD", "VCPUS", "MEMORY", "GPUS", "INSTANCE", "PRICE", "ALSO FITS")
ALSO_SHOWN_MAX: Final = 3
UPSTREAM: Final = "upstream"
BEST: Final = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a VM is wanted for: a pod, or a size given by hand."""

    pod: str = ""
    size: MachineSize = MachineSize()  # noqa: RUF009 - frozen
    named: str = ""


@click.command(short_help="Choose an instance type for a size, or for the pods in files.")
@click.option("--vcpus", type=COUNT, default=0, help="How many vCPUs are wanted.")
@click.option("--memory", callback=amount, default="0", help="How much memory, e.g. 6Gi.")
@click.option("--gpus", type=COUNT, default=0, help="How many GPUs.")
@click.option("--type", "named", default="", help="The type a pod names itself.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Peer pods to choose for, instead of a size. Repeatable.",
)
@click.option(
    "--mode",
    type=click.Choice([BEST, UPSTREAM]),
    default=BEST,
    show_default=True,
    help="The cheapest that fits; or size and search as upstream does.",
)
@click.option("--default", default="", help="The type for pods that ask for nothing.")
@sizing_options
@catalogue_options
@output_option
def instance(
    files: Sequence[str],
    mode: str,
    default: str,
    output: Output,
    **chosen: Any,  # noqa: ANN401 - what click makes of the other options
) -> int:
    """Print which instance type is chosen, and what else would be large enough.

    Without --catalogue from the example that comes with Bursar. Exit code 1 if
    nothing fits.
    """
    types = types_from(chosen)
    asks = _asks(files, mode, chosen)
    choices = [_choice(ask, types, mode, default) for ask in asks]
    rows = list(zip(asks, choices, strict=True))
    if output is Output.TABLE:
        _emit_table(rows, types)
    else:
        emit_document([_entry(ask, choice, types) for ask, choice in rows], output)
    return NO if any(isinstance(choice, NothingFits) for choice in choices) else OK


def _asks(files: Sequence[str], mode: str, chosen: Chosen) -> list[Ask]:
    size = MachineSize(
        vcpus=chosen["vcpus"],
        memory_mib=-(-chosen["memory"].whole_units // MIB),
        gpus=chosen["gpus"],
    )
    if not files:
        if size.is_nothing and not chosen["named"]:
            raise click.UsageError("give a size (--vcpus, --memory, --gpus), a --type, or files")
        return [Ask(size=size, named=chosen["named"])]
    if not size.is_nothing or chosen["named"]:
        raise click.UsageError("give either a size or files")
    settings = settings_from(chosen, Mode.UPSTREAM if mode == UPSTREAM else Mode.EFFECTIVE)
    try:
        objects = rewrite_files(files, sys.stdin.buffer, settings)
    except ManifestError as error:
        raise BadInputError(str(error)) from None
    asks = []
    for each in objects:
        if isinstance(each.rewriting, Denied):
            raise BadInputError(printable(f"{each.subject}: {each.rewriting.message}"))
        if isinstance(each.rewriting, Rewritten):
            size, named = machine_size(each.rewriting.size), _named_by_author(each.rewriting)
            asks.append(Ask(pod=each.subject, size=size, named=named))
    if not asks:
        raise BadInputError("no peer pod in these files")
    return asks


def _named_by_author(rewriting: Rewritten) -> str:
    """The type that a pod names; what an earlier rewrite has written is chosen anew."""
    if rewriting.instance:
        return ""
    metadata = rewriting.document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(MACHINE_TYPE_ANNOTATION) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


def _choice(ask: Ask, types: Sequence[InstanceType], mode: str, default: str) -> Choice:
    if mode == BEST:
        return best_choice(ask.size, types, default=default, named=ask.named)
    names = [each.name for each in types]
    ordered = upstream_order(types)
    return upstream_choice(ask.size, ordered, default=default, valid=names, named=ask.named)


def _others(ask: Ask, choice: Choice, types: Sequence[InstanceType]) -> list[InstanceType]:
    name = choice.name if isinstance(choice, instances.Chosen) else ""
    return [each for each in fitting_types(ask.size, types) if each.name != name]


# ------------------------------------------------------------------ for people


def _emit_table(rows: Sequence[tuple[Ask, Choice]], types: Sequence[InstanceType]) -> None:
    shown = [_row(ask, choice, types) for ask, choice in rows]
    start = 0 if any(ask.pod for ask, _ in rows) else 1
    emit_table(COLUMNS[start:], [row[start:] for row in shown])
    for ask, choice in rows:
        if isinstance(choice, NothingFits):
            click.echo(printable(f"bursar: {ask.pod or 'this size'}: {choice.message}"), err=True)


def _row(ask: Ask, choice: Choice, types: Sequence[InstanceType]) -> tuple[str, ...]:
    others = [each.name for each in _others(ask, choice, types)]
    also = ", ".join(others[:ALSO_SHOWN_MAX])
    if len(others) > ALSO_SHOWN_MAX:
        also += f" and {len(others) - ALSO_SHOWN_MAX} more"
    return (
        ask.pod,
        str(ask.size.vcpus or "-"),
        f"{ask.size.memory_mib}Mi" if ask.size.memory_mib else "-",
        str(ask.size.gpus or "-"),
        "-" if isinstance(choice, NothingFits) else choice.name or "<default>",
        _price(choice, types) or "-",
        also or "-",
    )


def _price(choice: Choice, types: Sequence[InstanceType]) -> str:
    prices = {each.name: each.price for each in types}
    price = None if isinstance(choice, NothingFits) else prices.get(choice.name)
    return "" if price is None else price.exact


# ------------------------------------------------------------------ for programs


def _entry(ask: Ask, choice: Choice, types: Sequence[InstanceType]) -> dict[str, Any]:
    entry: dict[str, Any] = {"pod": ask.pod} if ask.pod else {}
    entry |= {
        "vcpus": ask.size.vcpus,
        "memoryMiB": ask.size.memory_mib,
        "gpus": ask.size.gpus,
    }
    if isinstance(choice, NothingFits):
        entry |= {"instance": None, "error": choice.message}
    else:
        entry |= {"instance": choice.name, "price": _price(choice, types) or None}
    return entry | {"alsoFits": [_offer(each) for each in _others(ask, choice, types)]}


def _offer(each: InstanceType) -> dict[str, Any]:
    return {
        "name": each.name,
        "vcpus": each.vcpus,
        "memoryMiB": each.memory_mib,
        "gpus": each.gpus,
        "price": None if each.price is None else each.price.exact,
    }
