"""`bursar describe`: pods, nodes and quotas, from files or from a cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
from bursar.app.cluster.reading.wanted import Wanted
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.kinds import KindNames
from bursar.cli.output.formats import Output, printable
from bursar.cli.output.listing import Format, ListingPrinter, format_options
from bursar.cli.reading.reading import Objects, Reading, reading_nodes_options, reading_options
from bursar.core.model.namespace import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from bursar.adapters.files.manifests import Manifests, WorkloadTemplate
    from bursar.app.reports.node import NodeReport
    from bursar.app.reports.pod import PodReport, Written
    from bursar.app.reports.replicas import ReplicasReport, ScalingObjects
    from bursar.cli.output.listing import Listing
    from bursar.core.model.admission.admit import Policies
    from bursar.core.model.node import Node
    from bursar.core.model.pod import Pod
    from bursar.wire.documents.tree import Value


@click.group(
    cls=KindNames,
    lazy={"quota": "bursar.cli.quota.describe:quota"},
    short_help="Show what pods, nodes and quotas consume.",
)
def describe() -> None:
    """Show what pods and nodes consume, and recount quotas from the pods."""


# ------------------------------------------------------------------ pods


@describe.command(
    short_help="Show requests, limits, QoS class, cgroup values and validation errors."
)
@click.argument("name", required=False)
@reading_options
@format_options
def pod(name: str | None, reading: Reading, format: Format) -> int:
    """Show what each pod, or the one called NAME, requests, and which rule decided it.

    Pods of a cluster are shown as they are stored. Pods of files are shown as the
    API server would store them, with the LimitRanges, RuntimeClasses and
    PriorityClasses of the same files. Workloads (Deployments, Jobs, ...) are shown
    as the pod they would create, with what all their pods request together. Exit
    code 1 if the API server would refuse an object.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)
    wanted = [
        Wanted(resource=PODS, namespace=reading.shown_namespace if reading.is_live else ""),
        Wanted(resource=NODES, is_required=False),
    ]

    def show(objects: Objects) -> int:
        described = list(_described_pods(name, reading, objects))
        if not described:
            raise BadInputError(
                _nothing_found("pod", name, reading, shown_namespace=reading.shown_namespace)
            )
        printer.show(_listing_of_pods(described, format))
        return OK if all(each.report.is_valid for each in described) else NO

    return reading.show(wanted, show)


@dataclass(frozen=True, slots=True)
class _DescribedPod:
    report: "PodReport"
    kind: str
    owner: str
    """The workload whose template it is, in words; empty for a pod."""
    replicas: "ReplicasReport | None"


def _described_pods(
    name: str | None, reading: Reading, objects: Objects
) -> Iterator[_DescribedPod]:
    from bursar.app.reports.pod import pod_report  # noqa: PLC0415 - imports the rules of pods
    from bursar.app.reports.replicas import replicas_report  # noqa: PLC0415 - imports placement

    manifests = objects.manifests
    nodes = {node.name: node for node in manifests.nodes}
    policies, scaling = _policies(manifests), _scaling(manifests)
    for pod, template, written in _pods(manifests):
        if (
            name not in {None, pod.name}
            or reading.shown_namespace not in {"", pod.namespace}
            or not objects.is_selected(written.kind, pod.namespace, pod.name)
        ):
            continue
        report = pod_report(
            pod,
            nodes.get(pod.node_name),
            written=written,
            policies=policies,
            is_stored=template is None and _is_stored(written.value),
        )
        replicas = None
        if template is not None:
            replicas = replicas_report(
                template, report.pod, report.requests, report.limits, scaling
            )
        owner = "" if template is None else str(template)
        yield _DescribedPod(report, written.kind, owner, replicas)


def _is_stored(value: "dict[str, Value]") -> bool:
    """Whether the object comes from an API server, live or as kubectl printed it."""
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and bool(
        metadata.get("uid") and metadata.get("resourceVersion")
    )


def _listing_of_pods(described: "list[_DescribedPod]", format: Format) -> "Listing":
    from bursar.cli.reports import pod_document, pod_layout, pod_listing  # noqa: PLC0415 - tables

    return pod_listing.listing_of(
        [
            pod_listing.Described(
                report=each.report,
                replicas=each.replicas,
                kind=each.kind,
                document=pod_document.as_dict(
                    each.report, owner=each.owner, replicas=each.replicas
                ),
                text=pod_layout.pod_text(each.report, owner=each.owner, replicas=each.replicas)
                if format.output is Output.TABLE
                else "",
            )
            for each in described
        ]
    )


def _pods(manifests: "Manifests") -> "Iterator[tuple[Pod, WorkloadTemplate | None, Written]]":
    """Pods, then the pods that workloads would create, each with the object that defines it."""
    from bursar.app.reports.pod import Written  # noqa: PLC0415 - imports the rules of pods
    from bursar.core.model.pod import Pod  # noqa: PLC0415

    for found, value in manifests.written:
        if isinstance(found, Pod):
            yield found.with_namespace(), None, Written(kind="Pod", value=value)
    for found, value in manifests.written:
        if not isinstance(found, Pod):
            yield found.pod.with_namespace(), found, Written(kind=found.owner_kind, value=value)


def _policies(manifests: "Manifests") -> "Policies":
    """The objects that admission reads. Like pods, they are in `default` by default."""
    from bursar.core.model.admission.admit import policies_of  # noqa: PLC0415

    return policies_of(
        [
            each if each.namespace else replace(each, namespace=DEFAULT_NAMESPACE)
            for each in manifests.limit_ranges
        ],
        manifests.runtime_classes,
        manifests.priority_classes,
    )


def _scaling(manifests: "Manifests") -> "ScalingObjects":
    from bursar.app.reports.replicas import scaling_objects  # noqa: PLC0415 - imports placement
    from bursar.core.model.defaulting import node_with_defaults  # noqa: PLC0415

    nodes = [node_with_defaults(node) for node in manifests.nodes]
    return scaling_objects(manifests.autoscalers, nodes, DEFAULT_NAMESPACE)


# ------------------------------------------------------------------ nodes


@describe.command(short_help="Show what kubectl describe node shows, and what still fits.")
@click.argument("name", required=False)
@reading_nodes_options
@format_options
def node(name: str | None, reading: Reading, format: Format) -> int:
    """Show each node, or the one called NAME, with the pods that run on it.

    The text is that of kubectl describe node, to the last space, without the Lease
    and the events. After it, the command shows the free amounts, and whether each
    pod without a node would fit, by the scheduler's filters: each pod that fits
    takes its share before the next one is judged. Exit code 1 if the API server
    would refuse the capacity or allocatable of a node.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)
    wanted = [
        Wanted(resource=NODES),
        Wanted(resource=PODS, is_required=False),
        Wanted(resource=NAMESPACES, is_required=False),
    ]

    def show(objects: Objects) -> int:
        reports = _node_reports(name, objects)
        if not reports:
            raise BadInputError(_nothing_found("node", name, reading))
        printer.show(
            _listing_of_nodes(
                reports,
                is_described=format.output is Output.TABLE,
                # Reports of all nodes of a large cluster are long; make them only where needed.
                has_documents=format.is_document or reading.is_watching,
            )
        )
        return NO if any(report.problems for report in reports) else OK

    return reading.show(wanted, show)


def _node_reports(name: str | None, objects: Objects) -> "list[NodeReport]":
    from bursar.app.reports.node import node_reports  # noqa: PLC0415 - imports placement
    from bursar.core.model.defaulting import node_with_defaults, with_defaults  # noqa: PLC0415

    def is_chosen(node: "Node") -> bool:
        return name in {None, node.name} and objects.is_selected("Node", "", node.name)

    manifests = objects.manifests
    return node_reports(
        [node_with_defaults(node) for node in manifests.nodes],
        [with_defaults(pod.with_namespace()) for pod in manifests.pods],
        chosen=is_chosen,
        namespaces={each.name: each.labels for each in manifests.namespaces},
    )


def _listing_of_nodes(
    reports: "list[NodeReport]", *, is_described: bool, has_documents: bool
) -> "Listing":
    from bursar.cli.reports import (  # noqa: PLC0415 - tables
        node_document,
        node_layout,
        node_listing,
    )

    # A command line is where the clock is read; everything below takes it as an argument.
    now = datetime.now(UTC)  # noqa: TID251 - see above
    zone = now.astimezone().tzinfo or UTC
    return node_listing.listing_of(
        reports,
        text=lambda report: node_layout.node_text(report, now, zone) if is_described else "",
        document=lambda report: node_document.as_dict(report) if has_documents else None,
    )


# ------------------------------------------------------------------ both


def _nothing_found(what: str, name: str | None, reading: Reading, shown_namespace: str = "") -> str:
    wanted = f"no {what}"
    if name is not None:
        wanted += f" called {printable(name)}"
    if shown_namespace:
        wanted += f" in namespace {printable(shown_namespace)}"
        if reading.is_live and reading.namespace is None:
            wanted += " (-n names another one, -A means all)"
    return f"{reading}: {wanted}"
