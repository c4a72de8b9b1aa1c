"""`bursar top devices`: extended resources of nodes, and which pods hold them."""

from collections.abc import Sequence

import click

from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.reports.top.devices import DeviceLine, Holding, device_lines, device_totals
from bursar.app.reports.top.grouping import GroupBy, Grouping
from bursar.cli.errors.exit_codes import OK
from bursar.cli.output.amounts import short_amount
from bursar.cli.output.listing import (
    NO_VALUE,
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.reading.reading import Objects, Reading, reading_all_options
from bursar.cli.top.choices import group_option, resource_option
from bursar.cli.top.columns import ALL
from bursar.cli.top.read import top_objects
from bursar.core.model.quantity import Quantity

COLUMNS = (
    *(Column("NODE"), Column("RESOURCE"), Column("CAPACITY", is_wide=True), Column("ALLOCATABLE")),
    *(Column("ALLOCATED"), Column("FREE"), Column("PODS"), Column("HELD BY", is_wide=True)),
)


@click.command(short_help="Show GPUs and other extended resources of nodes, and their holders.")
@reading_all_options
@resource_option
@group_option(GroupBy.RESOURCE)
@format_options
def devices(
    *, reading: Reading, resources: tuple[str, ...], group_by: Grouping | None, format: Format
) -> int:
    """Show how many devices each node has, and how many of them its pods request.

    A device is a unit of an extended resource, such as nvidia.com/gpu. -o wide names the
    pods that hold them. Nothing is free (-) on a node that is cordoned or not
    ready. With -n, only pods of that namespace are listed as holders.
    Which device of a node a pod has: bursar devices.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)
    shown_namespace = reading.namespace or ""

    def show(objects: Objects) -> int:
        found = top_objects(objects)
        lines = [
            line
            for line in device_lines(
                found.nodes,
                found.pods,
                resources=resources,
                is_shown=lambda pod: shown_namespace in {"", pod.namespace},
            )
            if objects.is_selected("Node", "", line.node)
        ]
        printer.show(_listing(lines, is_grouped=group_by is not None))
        return OK

    return reading.show([Wanted(resource=NODES), Wanted(resource=PODS)], show)


def _listing(lines: Sequence[DeviceLine], *, is_grouped: bool) -> Listing:
    totals = device_totals(lines)
    return Listing(
        columns=COLUMNS,
        rows=tuple(map(_row, totals if is_grouped else lines)),
        totals=() if is_grouped else tuple(map(_row, totals)),
        nothing="no node offers an extended resource",
        wrapped=lambda documents: {
            "devices": documents,
            "totals": [_document(line) for line in totals],
        },
    )


def _row(line: DeviceLine) -> Row:
    resource = line.resource
    is_free_known = line.allocatable is not None and line.is_open
    return Row(
        cells=(
            line.node or ALL,
            resource,
            _cell(resource, line.capacity),
            _cell(resource, line.allocatable),
            short_amount(resource, line.allocated),
            short_amount(resource, line.free, rounds_down=True) if is_free_known else NO_VALUE,
            str(len(line.holdings)),
            ", ".join(map(_holding, line.holdings)) or NO_VALUE,
        ),
        document=_document(line),
        name=f"node/{line.node}" if line.node else resource,
        exact={"ALLOCATED": line.allocated, **({"FREE": line.free} if is_free_known else {})},
    )


def _cell(resource: str, amount: Quantity | None) -> str:
    return NO_VALUE if amount is None else short_amount(resource, amount)


def _holding(holding: Holding) -> str:
    return f"{holding.namespace}/{holding.name} ({holding.amount})"


def _document(line: DeviceLine) -> dict[str, object]:
    return {
        "node": line.node or None,
        "resource": line.resource,
        "capacity": _text(line.capacity),
        "allocatable": _text(line.allocatable),
        "allocated": str(line.allocated),
        "free": str(line.free),
        "schedulable": line.is_open,
        "heldBy": [
            {"namespace": each.namespace, "pod": each.name, "amount": str(each.amount)}
            for each in line.holdings
        ],
    }


def _text(amount: Quantity | None) -> str | None:
    return None if amount is None else str(amount)
