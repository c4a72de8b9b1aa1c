"""`bursar devices`: which pod holds which device, and where sources disagree."""

import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

import click

from bursar.adapters.files.device_sources import read_sources
from bursar.app.devices.ports import CallError
from bursar.app.devices.report import Evidence, device_lines, idle_devices, node_of_report
from bursar.cli import options
from bursar.cli.devices.view import (
    COLUMNS,
    IDLE_COLUMNS,
    IDLE_WIDE_COLUMNS,
    WIDE_COLUMNS,
    idle_as_dict,
    idle_cells,
    line_as_dict,
    line_cells,
)
from bursar.cli.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster, named_cluster
from bursar.cli.output.formats import Output, emit_rows, printable
from bursar.core.devices.allocation import ReportedPod
from bursar.core.devices.rows import Listing
from bursar.core.devices.source import Source

T = TypeVar("T")


class Form(Enum):
    """Values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    POD_RESOURCES = "pod-resources"

    @property
    def format(self) -> Output:
        return {Form.JSON: Output.JSON, Form.YAML: Output.YAML}.get(self, Output.TABLE)


@click.command(short_help="List which pod holds which device.")
@options.files("Read files, folders or standard input (-) instead of a cluster. Repeatable.")
@options.path(
    "--pod-resources dump",
    "Saved List response of kubelet, as -o pod-resources or grpcurl writes it.",
)
@options.path("--socket", "PodResources socket on this node to call: kubelet's or an agent's.")
@options.path(
    "--sources sources_file",
    "Settings of programs that record devices on pods. Default: Koordinator.",
    "",
)
@cluster_options
@click.option("-n", "--namespace", help="Namespace of the pods. Default: the context's.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List pods of all namespaces.")
@click.option(
    "--node", default="", help="Node of the pods; includes all namespaces unless -n is given."
)
@click.option("--free", "is_free", is_flag=True, help="List devices that no pod holds.")
@click.option("--check", "is_check", is_flag=True, help="Exit with code 1 if sources disagree.")
@options.shown(
    "-o --output",
    Form.TABLE.value,
    "Output format; pod-resources prints the response of --socket.",
    type=click.Choice([form.value for form in Form]),
    callback=lambda _context, _parameter, value: Form(value),
)
def devices(  # noqa: PLR0913 - one for each option
    *,
    files: Sequence[str],
    dump: str | None,
    socket: str | None,
    sources_file: str,
    kubeconfig: str | None,
    context: str,
    namespace: str | None,
    all_namespaces: bool,
    node: str,
    is_free: bool,
    is_check: bool,
    output: Form,
) -> int:
    """List the devices each pod holds, which component reported them, and where reports conflict.

    Devices are reported by kubelet, by annotations of device schedulers, by
    the status of pods, and by ResourceClaims. All are checked against the
    inventories of the nodes.

    Reads files, or the cluster of kubectl's current context; nothing is
    changed, and no agent has to run. With --socket or --pod-resources alone
    no cluster is read: add --node or --context to compare both.
    """
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n is for one namespace, -A for all")
    if is_free and (namespace is not None or is_check):
        raise click.UsageError("--free is about nodes; it goes with neither -n nor --check")
    origin = _Origin(
        files=files, dump=dump, socket=socket, kubeconfig=kubeconfig, context=context, node=node
    )
    origin.require_clear()
    if output is Form.POD_RESOURCES:
        return origin.print_response()
    if namespace is None and not all_namespaces and origin.is_whole_cluster and not is_free:
        namespace = named_cluster(kubeconfig, context).namespace
    sources = {source.name: source for source in read_sources(sources_file)}
    evidence = origin.read(tuple(sources.values()), namespace or "")
    for problem in evidence.problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    if is_free:
        return _show_idle(evidence, sources, node, output)
    selection = _Selection(namespace or "", node, is_check=is_check)
    return _show_lines(evidence, sources, selection, output)


# ------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """The options that say where to read."""

    files: Sequence[str]
    dump: str | None
    socket: str | None
    kubeconfig: str | None
    context: str
    node: str

    def require_clear(self) -> None:
        if self.files and (self.kubeconfig is not None or self.context):
            raise click.UsageError("-f reads files; --kubeconfig and --context, a cluster")
        if self.dump is not None and self.socket is not None:
            raise click.UsageError("--socket asks for what --pod-resources has kept; give one")

    @property
    def is_whole_cluster(self) -> bool:
        """Whether neither files, nor a socket, nor a node are given."""
        return not self.files and self.dump is None and self.socket is None and not self.node

    def read(self, sources: Sequence[Source], namespace: str) -> Evidence:
        listing = self._listing()
        names_cluster = self.kubeconfig is not None or bool(self.context or self.node)
        if self.files:
            from bursar.adapters.files.devices import evidence_in_files  # noqa: PLC0415 - slow

            evidence = evidence_in_files(self.files, sys.stdin.buffer, sources)
        elif listing is None or names_cluster:
            evidence = answer_of(self._read_cluster(sources, namespace))
        else:
            evidence = Evidence()
        if listing is None:
            return evidence
        node = self._node_of(listing.pods, evidence)
        return replace(evidence, reported={node: listing.pods}, claimed={node: listing.claimed})

    def _node_of(self, reported: Sequence[ReportedPod], evidence: Evidence) -> str:
        if self.node or not evidence.pods:
            only = next(iter(evidence.inventories), "") if len(evidence.inventories) == 1 else ""
            return self.node or only
        node = node_of_report(reported, evidence.pods)
        if node is None and any(pod.containers for pod in reported):
            raise BadInputError("the node of kubelet's answer is not certain; give --node")
        return node or ""

    async def _read_cluster(self, sources: Sequence[Source], namespace: str) -> Evidence:
        from bursar.app.devices.evidence import read_evidence  # noqa: PLC0415 - slow

        async with live_cluster(self.kubeconfig, self.context) as cluster:
            return await read_evidence(cluster, sources, namespace=namespace, node=self.node)

    # -------------------------------------------------------------- kubelet's response

    def _listing(self) -> Listing | None:
        """Kubelet's List response; None if neither a file nor a socket is given."""
        if self.dump is not None:
            from bursar.adapters.files.pod_resources import read_listing  # noqa: PLC0415 - slow

            return read_listing(self.dump)
        if self.socket is None:
            return None
        # gRPC takes longer to import than everything else.
        from bursar.adapters.node.listing import read_socket  # noqa: PLC0415

        return _from_socket(self.socket, read_socket)

    def print_response(self) -> int:
        """Print kubelet's response as JSON, for a later `--pod-resources`."""
        if self.socket is None:
            raise click.UsageError("-o pod-resources is for an answer of --socket")
        from bursar.adapters.node.listing import read_socket_as_json  # noqa: PLC0415 - slow

        click.echo(_from_socket(self.socket, read_socket_as_json))
        return OK


def _from_socket(path: str, read: Callable[[str], Coroutine[None, None, T]]) -> T:
    import asyncio  # noqa: PLC0415 - files are read without it

    try:
        return asyncio.run(read(path))
    except CallError as error:
        raise BadInputError(f"{printable(path)}: {printable(error.text)}") from None
    except ValueError as error:
        raise BadInputError(f"{printable(path)}: {error}") from None


# ------------------------------------------------------------------ printing


@dataclass(frozen=True, slots=True)
class _Selection:
    namespace: str
    node: str
    is_check: bool


def _show_lines(
    evidence: Evidence, sources: dict[str, Source], selection: _Selection, output: Form
) -> int:
    lines = device_lines(evidence, sources, namespace=selection.namespace, node=selection.node)
    is_wide = output is Form.WIDE
    emit_rows(
        output.format,
        [line_as_dict(line) for line in lines],
        WIDE_COLUMNS if is_wide else COLUMNS,
        [line_cells(line, is_wide=is_wide) for line in lines],
        nothing=f"no pod has a device{_where(selection.namespace, selection.node)}",
    )
    disagrees = any(line.row.disagreements for line in lines)
    return NO if selection.is_check and disagrees else OK


def _show_idle(evidence: Evidence, sources: dict[str, Source], node: str, output: Form) -> int:
    idle = idle_devices(evidence, sources, node=node)
    is_wide = output is Form.WIDE
    emit_rows(
        output.format,
        [idle_as_dict(each) for each in idle],
        IDLE_WIDE_COLUMNS if is_wide else IDLE_COLUMNS,
        [idle_cells(each, is_wide=is_wide) for each in idle],
        nothing=f"no inventory lists an idle device{_where('', node)}",
    )
    return OK


def _where(namespace: str, node: str) -> str:
    where = f" in namespace {printable(namespace)}" if namespace else ""
    return where + (f" on node {printable(node)}" if node else "")
