"""`bursar devices`: who has which device, who says so, and where those who speak disagree."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.device_reading import SourcesFileError, read_sources
from bursar.app.cluster.ports import ClusterError
from bursar.app.devices.report import Evidence, device_lines, idle_devices, node_of_report
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
from bursar.cli.live_cluster import cluster_options, kubeconfigs, live_cluster
from bursar.cli.output.formats import Output, emit_document, emit_table, printable
from bursar.core.devices.allocation import ReportedPod
from bursar.core.devices.source import Source

if TYPE_CHECKING:
    # With it comes protobuf, which few need.
    from bursar.adapters.pod_resources_dump import KubeletAnswer

SOCKET_SECONDS: Final = 10.0


class Form(Enum):
    """What `-o` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    POD_RESOURCES = "pod-resources"

    @property
    def document(self) -> Output | None:
        """How programs are answered; None for people."""
        return {Form.JSON: Output.JSON, Form.YAML: Output.YAML}.get(self)


def _read_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            *("-f", "--filename", "files"),
            multiple=True,
            type=click.Path(allow_dash=True),
            help="Read files instead of a cluster: files, folders, or -. Repeatable.",
        ),
        click.option(
            "--pod-resources", "dump", type=click.Path(), help="A kept answer of kubelet."
        ),
        click.option("--socket", type=click.Path(), help="Ask kubelet, or an agent, on this node."),
        click.option(
            *("--sources", "sources_file"),
            type=click.Path(),
            default="",
            help="Table of who gives devices to pods. Default: Koordinator.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="List the devices each pod holds, and where reports conflict.")
@_read_options
@cluster_options
@click.option("-n", "--namespace", help="Pods of this namespace. Default: the context's.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces.")
@click.option("--node", default="", help="Pods of this node, in all namespaces unless -n is given.")
@click.option("--free", "is_free", is_flag=True, help="Devices that nobody has, instead.")
@click.option("--check", "is_check", is_flag=True, help="Exit with 1 if sources disagree.")
@click.option(
    *("-o", "--output"),
    type=click.Choice([form.value for form in Form]),
    default=Form.TABLE.value,
    show_default=True,
    callback=lambda _context, _parameter, value: Form(value),
    help="How to print the result; pod-resources keeps the answer of --socket.",
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
    """List the devices of pods, who says so, and where those who speak disagree.

    They are: kubelet, whoever chose devices and wrote that on the pods, the
    pods' status, and ResourceClaims; all checked against what nodes have.

    Worked out from files, or from the cluster kubectl would talk to, which is
    only looked at; no agent has to run. With --socket or --pod-resources alone
    no cluster is asked: name the node, or a context, to compare both.
    """
    if namespace is not None and all_namespaces:
        raise click.UsageError("-n is for one namespace, -A for all")
    if is_free and (namespace is not None or is_check):
        raise click.UsageError("--free is about nodes; it goes with neither -n nor --check")
    place = _Place(
        files=files, dump=dump, socket=socket, kubeconfig=kubeconfig, context=context, node=node
    )
    place.require_clear()
    if output is Form.POD_RESOURCES:
        return place.keep_answer()
    if namespace is None and not all_namespaces and place.is_whole_cluster and not is_free:
        namespace = _current_namespace(kubeconfig, context)
    sources = _sources(sources_file)
    evidence = place.read(tuple(sources.values()), namespace or "")
    for problem in evidence.problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    if is_free:
        return _show_idle(evidence, sources, node, output)
    return _show_lines(evidence, sources, _Shown(namespace or "", node, is_check=is_check), output)


def _sources(path: str) -> dict[str, Source]:
    try:
        return {source.name: source for source in read_sources(path)}
    except SourcesFileError as error:
        raise BadInputError(str(error)) from None


def _current_namespace(kubeconfig: str | None, context: str) -> str:
    from bursar.adapters.client_auth.config_error import ConfigError  # noqa: PLC0415 - slow
    from bursar.adapters.kube.config import load_kubeconfig  # noqa: PLC0415 - slow

    try:
        return load_kubeconfig(
            kubeconfigs(kubeconfig), context=context, environment=os.environ, clock=SYSTEM_CLOCK
        ).namespace
    except ConfigError as error:
        raise BadInputError(str(error)) from None


# ------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What the command line says about where to read."""

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
        """Whether it is read as kubectl would read it: no files, and no node in particular."""
        return not self.files and self.dump is None and self.socket is None and not self.node

    def read(self, sources: Sequence[Source], namespace: str) -> Evidence:
        answer = self._kubelets_answer()
        names_cluster = self.kubeconfig is not None or bool(self.context or self.node)
        if self.files:
            evidence = _read_files(self.files, sources)
        elif answer is None or names_cluster:
            evidence = _answered(self._read_cluster(sources, namespace))
        else:
            evidence = Evidence()
        if answer is None:
            return evidence
        node = self._node_of(answer.pods, evidence)
        return replace(evidence, reported={node: answer.pods}, claimed={node: answer.claimed})

    def _node_of(self, reported: Sequence[ReportedPod], evidence: Evidence) -> str:
        if self.node or not evidence.pods:
            only = next(iter(evidence.inventories), "") if len(evidence.inventories) == 1 else ""
            return self.node or only
        node = node_of_report(reported, evidence.pods)
        if node is None and any(pod.containers for pod in reported):
            raise BadInputError("of which node kubelet's answer is, is not certain; give --node")
        return node or ""

    async def _read_cluster(self, sources: Sequence[Source], namespace: str) -> Evidence:
        from bursar.adapters.device_evidence import read_evidence  # noqa: PLC0415 - slow

        async with live_cluster(self.kubeconfig, self.context) as cluster:
            return await read_evidence(cluster, sources, namespace=namespace, node=self.node)

    # -------------------------------------------------------------- what kubelet says

    def _kubelets_answer(self) -> "KubeletAnswer | None":
        """None if nobody was to be asked."""
        if self.dump is None and self.socket is None:
            return None
        from bursar.adapters import pod_resources_dump as kept  # noqa: PLC0415 - slow

        try:
            if self.dump is not None:
                return kept.read_dump(self.dump)
            return kept.decode_answer(self._asked())
        except kept.ManifestError as error:
            raise BadInputError(str(error)) from None
        except ValueError as error:
            raise BadInputError(f"{printable(self.socket or '')}: {error}") from None

    def keep_answer(self) -> int:
        """Print the answer itself, for `--pod-resources` at another time or place."""
        if self.socket is None:
            raise click.UsageError("-o pod-resources is for an answer of --socket")
        from bursar.adapters.pod_resources_dump import encode_pods_json  # noqa: PLC0415 - slow

        try:
            click.echo(encode_pods_json(self._asked()))
        except ValueError as error:
            raise BadInputError(f"{printable(self.socket)}: {error}") from None
        return OK

    def _asked(self) -> bytes:
        return asyncio.run(_ask(self.socket or ""))


async def _ask(path: str) -> bytes:
    # gRPC takes longer to import than all the rest.
    from bursar.adapters.node.kubelet_socket import KubeletSocket  # noqa: PLC0415
    from bursar.app.devices.ports import CallError, Version  # noqa: PLC0415

    try:
        async with KubeletSocket(path) as kubelet:
            return await kubelet.list(Version.V1, b"", SOCKET_SECONDS)
    except CallError as error:
        raise BadInputError(f"{printable(path)}: {printable(error.text)}") from None


def _answered(work: Coroutine[None, None, Evidence]) -> Evidence:
    try:
        return asyncio.run(work)
    except ClusterError as error:
        raise BadInputError(f"the cluster could not be read: {printable(str(error))}") from None


def _read_files(files: Sequence[str], sources: Sequence[Source]) -> Evidence:
    from bursar.adapters.device_files import ManifestError, evidence_in_files  # noqa: PLC0415

    try:
        return evidence_in_files(files, sys.stdin.buffer, sources)
    except ManifestError as error:
        raise BadInputError(str(error)) from None


# ------------------------------------------------------------------ showing


@dataclass(frozen=True, slots=True)
class _Shown:
    namespace: str
    node: str
    is_check: bool


def _show_lines(evidence: Evidence, sources: dict[str, Source], shown: _Shown, output: Form) -> int:
    lines = device_lines(evidence, sources, namespace=shown.namespace, node=shown.node)
    document, is_wide = output.document, output is Form.WIDE
    if document is not None:
        emit_document([line_as_dict(line) for line in lines], document)
    elif lines:
        rows = [line_cells(line, is_wide=is_wide) for line in lines]
        emit_table(WIDE_COLUMNS if is_wide else COLUMNS, rows)
    else:
        where = f" in namespace {printable(shown.namespace)}" if shown.namespace else ""
        where += f" on node {printable(shown.node)}" if shown.node else ""
        click.echo(f"bursar: no pod has a device{where}", err=True)
    disagrees = any(line.row.disagreements for line in lines)
    return NO if shown.is_check and disagrees else OK


def _show_idle(evidence: Evidence, sources: dict[str, Source], node: str, output: Form) -> int:
    idle = idle_devices(evidence, sources, node=node)
    document, is_wide = output.document, output is Form.WIDE
    if document is not None:
        emit_document([idle_as_dict(each) for each in idle], document)
    elif idle:
        rows = [idle_cells(each, is_wide=is_wide) for each in idle]
        emit_table(IDLE_WIDE_COLUMNS if is_wide else IDLE_COLUMNS, rows)
    else:
        where = f" on node {printable(node)}" if node else ""
        click.echo(f"bursar: no inventory lists a device that nobody has{where}", err=True)
    return OK
