"""`bursar top namespaces`: what the pods of each namespace request."""

from collections.abc import Sequence

import click

from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
from bursar.app.cluster.metrics_kinds import POD_METRICS, wanted_metrics
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.reports.top.consumption import (
    Line,
    grouped_lines,
    grouped_pods,
    offered_by,
    total_of,
)
from bursar.app.reports.top.grouping import NONE, GroupBy, Grouping
from bursar.cli.errors.exit_codes import OK
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
from bursar.cli.top.read import METRICS, TopObjects, top_objects


@click.command(short_help="Show what the pods of each namespace request, and of how much.")
@names_argument
@reading_all_options
@resource_option
@group_option(GroupBy.LABEL)
@format_options
def namespaces(
    *,
    names: tuple[str, ...],
    reading: Reading,
    resources: tuple[str, ...],
    group_by: Grouping | None,
    format: Format,
) -> int:
    """Show what the pods of each namespace, or of those called NAME, request and are limited to.

    Pods without a node count as well. Percentages are of what all nodes together have
    for pods. Shows all namespaces that have pods, unless -n names one. -l selects
    namespaces by their labels.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)

    def show(objects: Objects) -> int:
        found = top_objects(objects)
        shown_namespace = reading.namespace or ""
        printer.show(_listing(objects, found, names, shown_namespace, resources, group_by))
        return OK

    return reading.show(_wanted(reading, group_by), show, kept=METRICS)


def _wanted(reading: Reading, group_by: Grouping | None) -> Sequence[Wanted]:
    shown_namespace = reading.namespace or ""
    needs_labels = (
        group_by is not None or reading.selector is not None or reading.field_selector is not None
    )
    return [
        Wanted(resource=PODS, namespace=shown_namespace),
        Wanted(resource=NODES, is_required=False),
        *([Wanted(resource=NAMESPACES)] if needs_labels else []),
        wanted_metrics(POD_METRICS, shown_namespace),
    ]


def _listing(
    objects: Objects,
    found: TopObjects,
    names: tuple[str, ...],
    shown_namespace: str,
    chosen: tuple[str, ...],
    group_by: Grouping | None,
) -> Listing:
    offered = offered_by(found.nodes)
    pods = [
        each
        for each in found.pods
        if shown_namespace in {"", each.pod.namespace}
        and objects.is_selected("Namespace", "", each.pod.namespace)
        and (not names or each.pod.namespace in names)
    ]
    require_found("namespace with pods", names, {each.pod.namespace for each in pods}, "")
    lines = grouped_pods(
        pods,
        lambda each: each.pod.namespace,
        lambda name: Line(name=name, offered=offered),
    )
    total = total_of(lines, ALL, offered=offered)
    if group_by is not None:
        labels = {each.name: each.labels for each in objects.manifests.namespaces}
        key = group_by.label
        lines = grouped_lines(
            lines, lambda line: labels.get(line.name, {}).get(key, NONE), offered=offered
        )
    shown = resources_of([*lines, total], chosen)
    columns = ResourceColumns(
        row_kind=RowKind.GROUPS,
        resources=shown,
        is_chosen=bool(chosen),
        has_usage=any(line.usage is not None for line in lines),
    )

    def as_row(line: Line) -> Row:
        if group_by is None:
            identity, name = {"namespace": line.name}, f"namespace/{line.name}"
        else:
            identity = {"label": group_by.label, "value": line.name}
            name = f"{group_by.label}={line.name}"
        document = line_document(line, shown, **identity)
        return columns.row(line, (line.name, str(line.unplaced)), name, document)

    head = "NAMESPACE" if group_by is None else group_by.label.upper()
    return Listing(
        columns=(Column(head), Column("NO NODE", is_wide=True), *columns.columns),
        rows=tuple(map(as_row, lines)),
        total=as_row(total),
        nothing=found.nothing("pods", shown_namespace),
        wrapped=lambda documents: {
            "namespaces" if group_by is None else "groups": documents,
            "total": line_document(total, shown),
        },
    )
