"""`bursar top peerpods`: the VMs that peer pods take, and what waits for one."""

import click

from bursar.app.capacity.report import CapacityLine, CapacityReport, capacity_report
from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.reading.wanted import Wanted
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.options import shown
from bursar.cli.output.formats import amount_or_dash, printable
from bursar.cli.output.listing import (
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.reading.reading import Objects, Reading, reading_all_options
from bursar.cli.top.columns import ALL
from bursar.core.model.defaulting import node_with_defaults, with_defaults
from bursar.core.model.names import qualified_name_errors
from bursar.core.model.pod_row import row_of
from bursar.core.peerpods.names import VM_RESOURCE

COLUMNS = tuple(map(Column, ("NODE", "CAPACITY", "ALLOCATABLE", "USED", "FREE", "PODS")))


@click.command(short_help="Show VMs of peer pods, per node and in total.")
@reading_all_options
@shown("--resource", VM_RESOURCE, "Extended resource to show.")
@format_options
def peerpods(*, reading: Reading, resource: str, format: Format) -> int:
    """Show how many peer-pod VMs each node offers, how many are used and free, and the demand.

    Used is what pods on the node request; ended pods do not count. Waiting is what pods
    without a node request. -l selects nodes. With -n, only pods of that namespace
    count as waiting; used counts the pods of all namespaces.
    """
    if qualified_name_errors(resource):
        raise BadInputError(f"{printable(resource)}: not the name of a resource")
    printer = ListingPrinter(format, is_watching=reading.is_watching)

    def show(objects: Objects) -> int:
        report = _report(objects, resource, reading.namespace or "")
        printer.show(_listing(report))
        if format.is_table and report.waiting_pods:
            gated = f", {report.gated_pods} of them behind a gate" if report.gated_pods else ""
            click.echo(
                f"Waiting: {report.waiting} for {report.waiting_pods} pods without a node{gated}"
            )
        return OK

    return reading.show([Wanted(resource=NODES), Wanted(resource=PODS)], show)


def _report(objects: Objects, resource: str, shown_namespace: str) -> CapacityReport:
    manifests = objects.manifests
    nodes = [
        node_with_defaults(node)
        for node in manifests.nodes
        if objects.is_selected("Node", "", node.name)
    ]
    chosen = {node.name for node in nodes}
    is_all = objects.selected is None
    rows = [
        row_of(with_defaults(pod))
        for pod in manifests.pods
        if (is_all or pod.node_name in chosen or not pod.node_name)
        and (pod.node_name or shown_namespace in {"", pod.namespace})
    ]
    return capacity_report(nodes, rows, resource)


def _listing(report: CapacityReport) -> Listing:
    return Listing(
        columns=COLUMNS,
        rows=tuple(_row(line.node, line) for line in report.nodes),
        total=_row(ALL, report.total),
        nothing=f"no node offers {printable(report.resource)}",
        wrapped=lambda documents: {
            "resource": report.resource,
            "nodes": documents,
            "total": _line_document(report.total),
            "waiting": {
                "amount": str(report.waiting),
                "pods": report.waiting_pods,
                "gated": report.gated_pods,
            },
        },
    )


def _row(name: str, line: CapacityLine) -> Row:
    amounts = (line.capacity, line.allocatable, line.used, line.free)
    return Row(
        cells=(name, *(amount_or_dash(amount) for amount in amounts), str(line.pods)),
        document={"node": line.node, **_line_document(line)},
        name=f"node/{line.node}",
    )


def _line_document(line: CapacityLine) -> dict[str, object]:
    return {
        "capacity": None if line.capacity is None else str(line.capacity),
        "allocatable": None if line.allocatable is None else str(line.allocatable),
        "used": str(line.used),
        "free": str(line.free),
        "pods": line.pods,
    }
