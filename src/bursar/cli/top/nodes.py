"""`bursar top nodes`: how full nodes are, and what is free on them."""

from collections.abc import Callable, Mapping

import click

from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.metrics_kinds import NODE_METRICS, wanted_metrics
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.reports.top.consumption import READY, Line, grouped_lines, node_lines, total_of
from bursar.app.reports.top.grouping import NONE, GroupBy, Grouping
from bursar.cli.errors.exit_codes import OK
from bursar.cli.output.formats import Output
from bursar.cli.output.listing import (
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.reading.reading import Objects, Reading, reading_all_options
from bursar.cli.top.choices import group_option, names_argument, require_found, resource_option
from bursar.cli.top.columns import ALL, ResourceColumns, RowKind, line_document, resources_of
from bursar.cli.top.read import METRICS, top_objects
from bursar.core.model.node import Node


@click.command(short_help="Show how full nodes are, and what is free for new pods.")
@names_argument
@reading_all_options
@resource_option
@group_option(GroupBy.LABEL)
@format_options
def nodes(
    *,
    names: tuple[str, ...],
    reading: Reading,
    resources: tuple[str, ...],
    group_by: Grouping | None,
    format: Format,
) -> int:
    """Show what pods request on each node, or on those called NAME, and what is free there.

    Percentages are of what the node has for pods. Nothing is free (-) on a node that
    is cordoned or not ready. With -n, requests and limits are those of one
    namespace; what is free depends on all pods. -l selects nodes.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)

    def show(objects: Objects) -> int:
        listing = _listing(
            objects,
            names,
            reading.namespace or "",
            resources,
            group_by,
            is_narrow=format.output is Output.TABLE,
        )
        printer.show(listing)
        return OK

    wanted = [Wanted(resource=NODES), Wanted(resource=PODS), wanted_metrics(NODE_METRICS)]
    return reading.show(wanted, show, kept=METRICS)


def _listing(
    objects: Objects,
    names: tuple[str, ...],
    namespace: str,
    chosen: tuple[str, ...],
    group_by: Grouping | None,
    *,
    is_narrow: bool,
) -> Listing:
    found = top_objects(objects)
    lines = [
        line
        for line in node_lines(
            found.nodes,
            found.pods,
            found.node_usage,
            is_shown=lambda pod: namespace in {"", pod.namespace},
        )
        if objects.is_selected("Node", "", line.name) and (not names or line.name in names)
    ]
    require_found("node", names, {line.name for line in lines}, "")
    total = total_of(lines, ALL)
    if group_by is not None:
        labels = {node.name: node.labels for node in found.nodes}
        lines = grouped_lines(lines, lambda line: _group(line, labels, group_by.label))
    shown = resources_of(lines, chosen)
    columns = ResourceColumns(
        row_kind=RowKind.NODES,
        resources=shown,
        is_chosen=bool(chosen),
        has_usage=bool(found.node_usage),
        is_narrow=is_narrow,
    )
    as_row = _row_maker(columns, group_by, {each.name: _status(each) for each in found.nodes})
    return Listing(
        columns=(*_lead(group_by), *columns.columns),
        rows=tuple(map(as_row, lines)),
        total=as_row(total),
        nothing=found.nothing("nodes"),
        wrapped=lambda documents: {
            "nodes" if group_by is None else "groups": documents,
            "total": line_document(total, shown),
        },
    )


def _group(line: Line, labels: Mapping[str, Mapping[str, str]], key: str) -> str:
    return labels.get(line.name, {}).get(key, NONE)


def _lead(group_by: Grouping | None) -> tuple[Column, ...]:
    if group_by is None:
        return (Column("NODE"), Column("STATUS", is_wide=True))
    return (Column(group_by.label.upper()), Column("NODES"))


def _status(node: Node) -> str:
    """As `kubectl get nodes` writes it."""
    ready = [condition.status == "True" for condition in node.conditions if condition.type == READY]
    status = ("Ready" if all(ready) else "NotReady") if ready else "Unknown"
    return f"{status},SchedulingDisabled" if node.unschedulable else status


def _row_maker(
    columns: ResourceColumns, group_by: Grouping | None, statuses: Mapping[str, str]
) -> Callable[[Line], Row]:
    def row(line: Line) -> Row:
        if group_by is None:
            lead = (line.name, statuses.get(line.name, ""))
            document = line_document(
                line, columns.resources, node=line.name, schedulable=line.is_open
            )
            return columns.row(line, lead, f"node/{line.name}", document)
        lead = (line.name, str(line.members))
        identity = {"label": group_by.label, "value": line.name, "nodes": line.members}
        document = line_document(line, columns.resources, **identity)
        return columns.row(line, lead, f"{group_by.label}={line.name}", document)

    return row
