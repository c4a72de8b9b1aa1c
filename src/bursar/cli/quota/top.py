"""`bursar top`: how much of a resource there is, what is used of it, and what waits for it."""

import sys
from collections.abc import Sequence

import click

from bursar.adapters.files.manifests import read_manifests
from bursar.app.capacity.report import CapacityLine, CapacityReport, capacity_report
from bursar.app.capacity.sources import read_nodes, read_rows
from bursar.cli.exit_codes import OK, BadInputError
from bursar.cli.kinds import KindNames
from bursar.cli.live_cluster import answer_of, live_cluster
from bursar.cli.options import shown
from bursar.cli.output.formats import (
    Output,
    amount_or_dash,
    emit_document,
    emit_table,
    output_option,
    printable,
)
from bursar.cli.quota.source import require_files_or_cluster, source_options
from bursar.core.model.defaulting import node_with_defaults, with_defaults
from bursar.core.model.names import qualified_name_errors
from bursar.core.model.pod_row import row_of
from bursar.core.peerpods.capacity import VM_RESOURCE


@click.group(
    cls=KindNames,
    lazy={
        "disk": "bursar.cli.storage.top_disk:disk",
        "licences": "bursar.cli.pools.top_licences:licences",
    },
    short_help="Show capacity, usage and waiting pods of a resource.",
)
def top() -> None:
    """Show how much there is of something, what is used, and what waits for it."""


@top.command(short_help="Show VMs of peer pods, per node and in total.")
@source_options
@shown("--resource", VM_RESOURCE, "Extended resource to show.")
@output_option
def peerpods(
    *, files: Sequence[str], kubeconfig: str | None, context: str, resource: str, output: Output
) -> int:
    """Show capacity, use and what is free on each node that has any, and who waits.

    Used is what pods on the node request that have not ended; a pod without a node
    yet waits. From files, or from the cluster kubectl would talk to.
    """
    if qualified_name_errors(resource):
        raise BadInputError(f"{printable(resource)}: not the name of a resource")
    require_files_or_cluster(files, kubeconfig, context)
    if files:
        report = _report_of_files(files, resource)
    else:
        report = answer_of(_report_of_cluster(kubeconfig, context, resource))
    if output is Output.TABLE:
        _show(report)
    else:
        emit_document(_document(report), output)
    return OK


def _report_of_files(files: Sequence[str], resource: str) -> CapacityReport:
    manifests = read_manifests(files, sys.stdin.buffer)
    nodes = [node_with_defaults(node) for node in manifests.nodes]
    rows = [row_of(with_defaults(pod)) for pod in manifests.pods]
    return capacity_report(nodes, rows, resource)


async def _report_of_cluster(kubeconfig: str | None, context: str, resource: str) -> CapacityReport:
    async with live_cluster(kubeconfig, context) as cluster:
        nodes = [seen.item for seen in await read_nodes(cluster)]
        return capacity_report(nodes, await read_rows(cluster), resource)


def _show(report: CapacityReport) -> None:
    if report.nodes:
        columns = ("NODE", "CAPACITY", "ALLOCATABLE", "USED", "FREE", "PODS")
        rows = [_cells(line.node, line) for line in report.nodes]
        emit_table(columns, [*rows, _cells("(all)", report.total)])
    else:
        click.echo(f"bursar: no node offers {printable(report.resource)}", err=True)
    if report.waiting_pods:
        gated = f", {report.gated_pods} of them behind a gate" if report.gated_pods else ""
        click.echo(
            f"Waiting: {report.waiting} for {report.waiting_pods} pods without a node{gated}"
        )


def _cells(name: str, line: CapacityLine) -> tuple[str, ...]:
    amounts = (line.capacity, line.allocatable, line.used, line.free)
    return (name, *(amount_or_dash(amount) for amount in amounts), str(line.pods))


def _document(report: CapacityReport) -> dict[str, object]:
    return {
        "resource": report.resource,
        "nodes": [{"node": line.node, **_line_document(line)} for line in report.nodes],
        "total": _line_document(report.total),
        "waiting": {
            "amount": str(report.waiting),
            "pods": report.waiting_pods,
            "gated": report.gated_pods,
        },
    }


def _line_document(line: CapacityLine) -> dict[str, object]:
    return {
        "capacity": None if line.capacity is None else str(line.capacity),
        "allocatable": None if line.allocatable is None else str(line.allocatable),
        "used": str(line.used),
        "free": str(line.free),
        "pods": line.pods,
    }
