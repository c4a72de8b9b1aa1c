"""`bursar describe`: pods and nodes from files, as a cluster would see them; and quotas."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, TypeVar

import click

from bursar.adapters.files.manifests import Manifests, WorkloadTemplate, read_manifests
from bursar.app.reports.node import NodeReport, node_reports
from bursar.app.reports.pod import PodReport, Written, pod_report
from bursar.cli.exit_codes import NO, OK, BadInputError
from bursar.cli.kinds import KindNames
from bursar.cli.options import required_files
from bursar.cli.output.formats import Output, emit_document, output_option, printable
from bursar.cli.reports import node_document, node_layout, pod_document, pod_layout
from bursar.core.model.admission.admit import Policies, policies_of
from bursar.core.model.defaulting import node_with_defaults, with_defaults
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod

DEFAULT_NAMESPACE: Final = "default"
"""Where kubectl would create a pod whose manifest names no namespace."""

Named = TypeVar("Named", Pod, Node)


@click.group(
    cls=KindNames,
    lazy={"quota": "bursar.cli.quota.describe:quota"},
    short_help="Show what pods, nodes and quotas consume.",
)
def describe() -> None:
    """Show what pods and nodes consume, and why, and what quotas should show."""


@describe.command(
    short_help="Show requests, limits, QoS class, cgroup values and validation errors."
)
@click.argument("name", required=False)
@required_files
@click.option("-n", "--namespace", help="Only pods of this namespace.")
@output_option
def pod(name: str | None, files: tuple[str, ...], namespace: str | None, output: Output) -> int:
    """Show what each pod, or the one called NAME, asks for and what decided it.

    Workloads (Deployments, Jobs, ...) are shown as the pod they would create.
    Exit code 1 if the API server would refuse any of them.
    """
    manifests = read_manifests(files, sys.stdin.buffer)
    nodes = {node.name: node for node in manifests.nodes}
    owned = [
        (pod, owner, written)
        for pod, owner, written in _pods(manifests)
        if name in {None, pod.name} and namespace in {None, pod.namespace}
    ]
    if not owned:
        raise BadInputError(_nothing_found("pod", name, namespace, files, manifests))
    _tell_skipped(manifests)
    policies = _policies(manifests)
    reports = [
        (pod_report(pod, nodes.get(pod.node_name), written=written, policies=policies), owner)
        for pod, owner, written in owned
    ]
    if output is Output.TABLE:
        _emit_pods(reports)
    else:
        documents = [
            {**pod_document.as_dict(report), **({"template": owner} if owner else {})}
            for report, owner in reports
        ]
        emit_document(documents, output)
    return OK if all(report.is_valid for report, _ in reports) else NO


@describe.command(short_help="Show what kubectl describe node shows, and what still fits.")
@click.argument("name", required=False)
@required_files
@output_option
def node(name: str | None, files: tuple[str, ...], output: Output) -> int:
    """Show each node, or the one called NAME, with the pods that run on it.

    The text is kubectl's, to the last space, but for what needs a live cluster
    (lease, events); then comes what still fits, and whether the pods without a
    node would fit here, placed one after the other and judged by the scheduler's
    filters. Exit code 1 if the API server would refuse the capacity or
    allocatable of any of them.
    """
    manifests = read_manifests(files, sys.stdin.buffer)
    if not any(name in {None, node.name} for node in manifests.nodes):
        raise BadInputError(_nothing_found("node", name, None, files, manifests))
    _tell_skipped(manifests)
    reports = node_reports(
        [node_with_defaults(node) for node in manifests.nodes],
        [with_defaults(_placed(pod)) for pod in manifests.pods],
        chosen=lambda node: name in {None, node.name},
        namespaces={each.name: each.labels for each in manifests.namespaces},
    )
    if output is Output.TABLE:
        click.echo("\n\n".join(_node_text(report) for report in reports))
    else:
        emit_document([node_document.as_dict(report) for report in reports], output)
    return NO if any(report.problems for report in reports) else OK


def _tell_skipped(manifests: Manifests) -> None:
    if manifests.skipped:
        click.echo(f"bursar: passed over: {_skipped(manifests)}", err=True)


def _skipped(manifests: Manifests) -> str:
    return printable(", ".join(f"{count} {kind}" for kind, count in manifests.skipped))


def _pods(manifests: Manifests) -> Iterator[tuple[Pod, str, Written]]:
    """Pods, then the pods that workloads would create, each with the object that defines it."""
    for found, value in manifests.written:
        if isinstance(found, Pod):
            yield _placed(found), "", Written(kind="Pod", value=value)
    for found, value in manifests.written:
        if isinstance(found, WorkloadTemplate):
            written = Written(kind=found.owner_kind, value=value)
            yield _placed(found.pod), _owner(found), written


def _policies(manifests: Manifests) -> Policies:
    """The objects that admission reads. Like pods, they are in `default` by default."""
    return policies_of(
        [
            each if each.namespace else replace(each, namespace=DEFAULT_NAMESPACE)
            for each in manifests.limit_ranges
        ],
        manifests.runtime_classes,
        manifests.priority_classes,
    )


def _owner(template: WorkloadTemplate) -> str:
    count = template.replicas
    many = "" if count is None else f", {count} replica{'' if count == 1 else 's'}"
    return f"{template.owner_kind} {template.owner_name}{many}"


def _placed(pod: Pod) -> Pod:
    return pod if pod.namespace else replace(pod, namespace=DEFAULT_NAMESPACE)


def _nothing_found(
    what: str,
    name: str | None,
    namespace: str | None,
    files: Sequence[str],
    manifests: Manifests,
) -> str:
    wanted = f"no {what}"
    if name is not None:
        wanted += f" called {printable(name)}"
    if namespace is not None:
        wanted += f" in namespace {printable(namespace)}"
    if manifests.skipped:
        wanted += f" (passed over: {_skipped(manifests)})"
    return f"{', '.join(map(printable, files))}: {wanted}"


def _emit_pods(reports: Sequence[tuple[PodReport, str]]) -> None:
    for position, (report, owner) in enumerate(reports):
        if position:
            click.echo()
        pod_layout.emit_pod(report, owner=owner)


def _node_text(report: NodeReport) -> str:
    # A command line is where the clock is read; everything below takes it as an argument.
    now = datetime.now(UTC)  # noqa: TID251 - see above
    zone = now.astimezone().tzinfo or UTC
    parts = [
        node_layout.describe_node(report, now=now, zone=zone),
        node_layout.still_fits(report),
        node_layout.waiting_pods(report) if report.waiting else "",
        node_layout.validation_errors(report) if report.problems else "",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts if part)
