"""`bursar top pods`: what pods request, one by one or by owner, node, namespace or label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import click

from bursar.app.cluster.kinds import JOBS, NODES, PODS
from bursar.app.cluster.metrics_kinds import POD_METRICS, wanted_metrics
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.reports.top.consumption import (
    CountedPod,
    Line,
    grouped_pods,
    offer_of,
    offered_by,
    pod_line,
    total_of,
)
from bursar.app.reports.top.grouping import NONE, GroupBy, Grouping
from bursar.app.reports.top.owners import Controllers, Owner, top_owner
from bursar.cli.errors.exit_codes import OK
from bursar.cli.output.formats import Output
from bursar.cli.output.listing import (
    NO_VALUE,
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.reading.reading import Objects, Reading, reading_options
from bursar.cli.top.choices import group_option, names_argument, require_found, resource_option
from bursar.cli.top.columns import ALL, ResourceColumns, RowKind, line_document, resources_of
from bursar.cli.top.read import METRICS, TopObjects, top_objects
from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.core.model.resources import ResourceList
from bursar.wire.model.workloads.controllers import controlled_objects


@click.command(short_help="Show what pods request, by pod, owner, node or label.")
@names_argument
@reading_options
@resource_option
@group_option(GroupBy.OWNER, GroupBy.NODE, GroupBy.NAMESPACE, GroupBy.LABEL)
@format_options
def pods(
    *,
    names: tuple[str, ...],
    reading: Reading,
    resources: tuple[str, ...],
    group_by: Grouping | None,
    format: Format,
) -> int:
    """Show what pods, or those called NAME, request and are limited to, one by one or added up.

    Pods that have ended are left out; pods without a node are not. A pod's owner is the
    Deployment, not its ReplicaSet, and the CronJob, not its Job. Percentages
    (-o wide) are of what the pod's node has; of groups, of what all nodes have.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)

    def show(objects: Objects) -> int:
        printer.show(_listing(objects, names, reading.shown_namespace, resources, group_by))
        return OK

    return reading.show(_wanted(reading, group_by, format), show, kept=METRICS)


def _wanted(reading: Reading, group_by: Grouping | None, format: Format) -> Sequence[Wanted]:
    shown_namespace = reading.shown_namespace
    # Nodes are read only for percentages, because many tenants may not read nodes.
    needs_nodes = group_by is not None or format.output is Output.WIDE or format.is_document
    by_owner = group_by is not None and group_by.by is GroupBy.OWNER
    return [
        Wanted(resource=PODS, namespace=shown_namespace),
        *([Wanted(resource=NODES, is_required=False)] if needs_nodes else []),
        *(
            [Wanted(resource=JOBS, namespace=shown_namespace, is_required=False)]
            if by_owner
            else []
        ),
        wanted_metrics(POD_METRICS, shown_namespace),
    ]


def _listing(
    objects: Objects,
    names: tuple[str, ...],
    shown_namespace: str,
    chosen: tuple[str, ...],
    group_by: Grouping | None,
) -> Listing:
    found = top_objects(objects)
    shown_pods = [
        each
        for each in found.pods
        if shown_namespace in {"", each.pod.namespace}
        and objects.is_selected("Pod", each.pod.namespace, each.pod.name)
        and (not names or each.pod.name in names)
    ]
    require_found("pod", names, {each.pod.name for each in shown_pods}, shown_namespace)
    offered = offered_by(found.nodes)
    view = _view(objects, group_by)
    lines = _lines(shown_pods, found, view, offered)
    total = total_of(lines, ALL, offered=offered)
    shown = resources_of(lines, chosen)
    columns = ResourceColumns(
        row_kind=RowKind.PODS if group_by is None else RowKind.GROUPS,
        resources=shown,
        is_chosen=bool(chosen),
        has_usage=any(line.usage is not None for line in lines),
    )
    # As kubectl, which names the namespace only if there are several.
    has_namespace = not shown_namespace and view.has_namespace

    def as_row(line: Line) -> Row:
        lead = ([line.namespace] if has_namespace else []) + [line.name]
        more = [line.node or NO_VALUE] if group_by is None else [str(line.unplaced)]
        document = line_document(line, shown, **view.identity(line))
        return columns.row(line, [*lead, *more], view.name(line), document)

    namespace = (Column("NAMESPACE"),) if has_namespace else ()
    more = Column("NODE" if group_by is None else "NO NODE", is_wide=True)
    return Listing(
        columns=(*namespace, Column(view.head), more, *columns.columns),
        rows=tuple(map(as_row, lines)),
        total=_total_row(as_row(total), has_namespace=has_namespace),
        nothing=found.nothing("pods", shown_namespace),
        wrapped=lambda documents: {
            "pods" if group_by is None else "groups": documents,
            "total": line_document(total, shown),
        },
    )


def _total_row(row: Row, *, has_namespace: bool) -> Row:
    """The row with its name in the first column."""
    return replace(row, cells=(ALL, "", *row.cells[2:])) if has_namespace else row


def _lines(
    pods: Sequence[CountedPod], found: TopObjects, view: "_View", offered: ResourceList | None
) -> list[Line]:
    if view.key is None:
        offers = {node.name: offer_of(node) for node in found.nodes}
        lines = (pod_line(each, offers) for each in pods)
        return sorted(lines, key=lambda line: (line.namespace, line.name))
    return grouped_pods(
        pods, view.key, lambda key: Line(namespace=key[0], name=key[1], offered=offered)
    )


# ------------------------------------------------------------------ what the rows are about


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    head: str
    has_namespace: bool
    """Whether each row is about something in one namespace."""
    key: Callable[[CountedPod], tuple[str, str]] | None
    """The namespace, or an empty text, and the name of a pod's group; None: each pod is a row."""
    identity: Callable[[Line], dict[str, object]]
    name: Callable[[Line], str]
    """The row as `-o name` writes it."""


def _view(objects: Objects, group_by: Grouping | None) -> _View:
    if group_by is None:
        return _View(
            head="POD",
            has_namespace=True,
            key=None,
            identity=lambda line: {
                "namespace": line.namespace,
                "pod": line.name,
                "node": line.node or None,
            },
            name=lambda line: f"pod/{line.name}",
        )
    if group_by.by is GroupBy.OWNER:
        controllers = _controllers(objects)
        return _View(
            head="OWNER",
            has_namespace=True,
            key=lambda each: _owner_key(top_owner(each.pod, controllers)),
            identity=lambda line: {"namespace": line.namespace, "owner": line.name},
            name=lambda line: _owner_name(line.name),
        )
    return _plain_view(group_by)


def _plain_view(group_by: Grouping) -> _View:
    def name_of(each: CountedPod) -> str:
        if group_by.by is GroupBy.NAMESPACE:
            return each.pod.namespace
        if group_by.by is GroupBy.NODE:
            return each.pod.node_name or NONE
        return each.pod.labels.get(group_by.label, NONE)

    word = group_by.label or group_by.by.value
    return _View(
        head=word.upper(),
        has_namespace=False,
        key=lambda each: ("", name_of(each)),
        identity=lambda line: (
            {"label": group_by.label, "value": line.name}
            if group_by.label
            else {group_by.by.value: line.name}
        ),
        name=lambda line: f"{word}{'=' if group_by.label else '/'}{line.name}",
    )


def _owner_key(owner: Owner) -> tuple[str, str]:
    return owner.namespace, f"{owner.kind}/{owner.name}"


def _owner_name(text: str) -> str:
    kind, _, name = text.partition("/")
    return f"{kind.lower()}/{name}"


def _controllers(objects: Objects) -> Controllers:
    controllers: dict[Owner, Owner] = {}
    for each in controlled_objects(objects.manifests.values):
        namespace = each.namespace or DEFAULT_NAMESPACE
        owner = Owner(namespace, each.controller_kind, each.controller_name)
        controllers[Owner(namespace, each.kind, each.name)] = owner
    return controllers
