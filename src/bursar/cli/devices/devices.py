"""`bursar devices`: which pod holds which device, and where sources disagree."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar, cast

import click

from bursar.adapters.files.device_sources import read_sources
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Json
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.devices.kinds import DEVICES
from bursar.app.devices.ports import CallError
from bursar.app.devices.reports.report import Evidence, device_lines, idle_devices, node_of_report
from bursar.cli import options
from bursar.cli.devices.view import COLUMNS, IDLE_COLUMNS, idle_row, line_row
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import LiveCluster
from bursar.cli.output.formats import printable
from bursar.cli.output.listing import Format, ListingPrinter, format_options_with
from bursar.cli.output.listing import Listing as ListedDevices
from bursar.cli.reading.reading import Reading, Selects, reading_options
from bursar.core.devices.allocation import ReportedPod
from bursar.core.devices.rows import Listing
from bursar.core.devices.source import Source

if TYPE_CHECKING:
    from bursar.wire.documents.tree import Value

T = TypeVar("T")


POD_RESOURCES: Final = "pod-resources"
"""The value of `-o` for kubelet's response as it is."""


@click.command(short_help="List which pod holds which device.")
@reading_options
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
@click.option(
    "--node", default="", help="Node of the pods; includes all namespaces unless -n is given."
)
@click.option("--free", "is_free", is_flag=True, help="List devices that no pod holds.")
@click.option("--check", "is_check", is_flag=True, help="Exit with code 1 if sources disagree.")
@format_options_with((POD_RESOURCES, "prints the response of --socket"))
def devices(  # noqa: PLR0913 - one for each option
    *,
    reading: Reading,
    dump: str | None,
    socket: str | None,
    sources_file: str,
    node: str,
    is_free: bool,
    is_check: bool,
    format: Format,
) -> int:
    """List the devices each pod holds, which component reported them, and where reports conflict.

    Devices are reported by kubelet, by annotations of device schedulers, by
    the status of pods, and by ResourceClaims. All are checked against the
    inventories of the nodes.

    Reads files, or the cluster of kubectl's current context; nothing is
    changed, and no agent has to run. With --socket or --pod-resources alone
    no cluster is read: add --node or --context to compare both.
    """
    if is_free and (reading.namespace is not None or is_check):
        raise click.UsageError("--free lists devices of nodes; it excludes -n and --check")
    origin = _Origin(reading=reading, dump=dump, socket=socket, node=node)
    origin.require_clear()
    if format.other == POD_RESOURCES:
        return origin.print_response()
    sources = {source.name: source for source in read_sources(sources_file)}
    view = _View(
        sources=sources,
        namespace=origin.shown_namespace(is_free=is_free),
        node=node,
        is_free=is_free,
        is_check=is_check,
        printer=ListingPrinter(format),
    )
    return origin.show(tuple(sources.values()), view)


# ------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """The options that say where to read."""

    reading: Reading
    dump: str | None
    socket: str | None
    node: str

    def require_clear(self) -> None:
        if self.dump is not None and self.socket is not None:
            raise click.UsageError("--socket and --pod-resources exclude each other")
        if self.reading.is_watching and not self.is_cluster_read:
            raise click.UsageError("-w follows a cluster; add --context or --node")

    @property
    def is_cluster_read(self) -> bool:
        """Whether a cluster is read: if an option names one, or no other source is given."""
        reading = self.reading
        names_cluster = reading.kubeconfig is not None or bool(reading.context or self.node)
        return reading.is_live and (names_cluster or (self.dump is None and self.socket is None))

    def shown_namespace(self, *, is_free: bool) -> str:
        """The namespace to show; empty for all.

        A node, kubelet's response and files are shown with the pods of all namespaces, unless `-n`
        is given.
        """
        reading = self.reading
        is_whole_cluster = reading.is_live and self.dump is None and self.socket is None
        if reading.namespace is not None or (is_whole_cluster and not self.node and not is_free):
            return reading.shown_namespace
        return ""

    def show(self, sources: Sequence[Source], view: "_View") -> int:
        listing = self._listing()
        if not self.reading.is_live:
            return self._show_files(sources, view, listing)
        if not self.is_cluster_read:
            return view.show(self._with_listing(Evidence(), listing), lambda _space, _name: True)

        async def work(cluster: LiveCluster) -> int:
            from bursar.app.devices.reports.evidence import read_evidence  # noqa: PLC0415 - slow

            selects = await self.reading.selected_in(cluster, PODS)
            evidence = await read_evidence(
                cluster, sources, namespace=view.namespace, node=self.node
            )
            return view.show(self._with_listing(evidence, listing), selects)

        return self.reading.repeat([Wanted(resource=PODS), Wanted(resource=DEVICES)], work)

    def _show_files(self, sources: Sequence[Source], view: "_View", listing: Listing | None) -> int:
        from bursar.adapters.files.devices import evidence_in_files  # noqa: PLC0415 - slow

        selected: set[tuple[str, str]] = set()

        def see_pod(body: Mapping[str, Json]) -> None:
            metadata = body.get("metadata")
            if isinstance(metadata, dict) and self.reading.selects(
                cast("Mapping[str, Value]", body)
            ):
                selected.add((str(metadata.get("namespace")), str(metadata.get("name"))))

        paths, stdin = self.reading.sources()
        evidence = evidence_in_files(
            paths, stdin, sources, is_recursive=self.reading.is_recursive, see_pod=see_pod
        )
        is_selecting = self.reading.selector or self.reading.field_selector
        return view.show(
            self._with_listing(evidence, listing),
            lambda space, name: not is_selecting or (space, name) in selected,
        )

    def _with_listing(self, evidence: Evidence, listing: Listing | None) -> Evidence:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What to show of the evidence."""

    sources: Mapping[str, Source]
    namespace: str
    node: str
    is_free: bool
    is_check: bool
    printer: ListingPrinter

    def show(self, evidence: Evidence, selects: Selects) -> int:
        for problem in evidence.problems:
            click.echo(f"bursar: {printable(problem)}", err=True)
        return self._show_idle(evidence) if self.is_free else self._show_lines(evidence, selects)

    def _show_lines(self, evidence: Evidence, selects: Selects) -> int:
        found = device_lines(evidence, self.sources, namespace=self.namespace, node=self.node)
        lines = [line for line in found if selects(line.row.namespace, line.row.pod)]
        nothing = f"no pod has a device{_where(self.namespace, self.node)}"
        rows = tuple(map(line_row, lines))
        self.printer.show(ListedDevices(columns=COLUMNS, rows=rows, nothing=nothing))
        disagrees = any(line.row.disagreements for line in lines)
        return NO if self.is_check and disagrees else OK

    def _show_idle(self, evidence: Evidence) -> int:
        rows = tuple(map(idle_row, idle_devices(evidence, self.sources, node=self.node)))
        nothing = f"no inventory lists an idle device{_where('', self.node)}"
        self.printer.show(ListedDevices(columns=IDLE_COLUMNS, rows=rows, nothing=nothing))
        return OK


def _where(namespace: str, node: str) -> str:
    where = f" in namespace {printable(namespace)}" if namespace else ""
    return where + (f" on node {printable(node)}" if node else "")
