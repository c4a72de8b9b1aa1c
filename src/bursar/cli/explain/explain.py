"""`bursar explain pod`: why a pod does not run, and what would let it run."""

from collections.abc import Sequence
from typing import Any

import click

from bursar.app.names import OWN_NAMESPACE
from bursar.app.reports.explain import PodExplanation
from bursar.cli.errors.exit_codes import NO, OK
from bursar.cli.explain import layout
from bursar.cli.explain.source import ExplainRequest, show_explanations
from bursar.cli.kinds import KindNames
from bursar.cli.options import shown
from bursar.cli.output.formats import Output
from bursar.cli.output.listing import Format, ListingPrinter, emit_listing, format_options
from bursar.cli.processes.options.counting import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.reading.reading import Reading, reading_options
from bursar.cli.selectors import selector_from
from bursar.core.quota.targeting import GATING_LABEL, Targeting


@click.group(cls=KindNames, short_help="Say why a pod does not run, and what would let it run.")
def explain() -> None:
    """Say why a pod does not run, and what would let it run."""


@explain.command(
    short_help="Say what a pod waits for, node by node, or how its containers ended.",
)
@click.argument("name", required=False)
@reading_options
@shown("--namespace-selector", GATING_LABEL, "Labels of the namespaces whose pods are gated.")
@view_counting_options
@format_options
@click.pass_obj
def pod(
    processes: Processes,
    /,
    *,
    name: str | None,
    reading: Reading,
    namespace_selector: str,
    format: Format,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """Say why the pod NAME does not run; without NAME, list all pods that do not run.

    A pod waits for a quota, then for a node, then for its containers. For a
    pod without a node, the command shows why each node refuses it and how much
    is missing, the scheduler's event, and the smallest changes that would let
    the pod run.
    Workloads in files are explained as the pods they would create. The
    command reads the cluster with your rights, and writes nothing.

    Exit code 0 if the pod runs, has succeeded or would fit; 1 if not.
    """
    selector = selector_from(namespace_selector, "--namespace-selector")
    settings = counting_from(others)
    request = ExplainRequest(
        name=name,
        reading=reading,
        shown_namespace=reading.shown_namespace,
        counting=lambda: processes.counting(settings),
        targeting=Targeting(own_namespace=OWN_NAMESPACE, selector=selector),
    )
    return show_explanations(request, _View(request, format).show)


class _View:
    """Prints explanations; while a cluster is followed, only what has changed."""

    def __init__(self, request: ExplainRequest, format: Format) -> None:
        self._request = request
        self._format = format
        self._printer = ListingPrinter(format)
        self._shown: list[PodExplanation] | None = None

    def show(self, found: list[PodExplanation]) -> int:
        if self._is_list(found):
            # While a cluster is followed, a longer name must not change the other rows.
            is_watching = self._request.reading.is_watching
            is_cut = self._format.output is Output.TABLE and not is_watching
            self._printer.show(layout.listing(found, is_cut=is_cut))
        elif found != self._shown:
            if self._shown is not None:
                click.echo()
            self._show_in_full(found)
            self._shown = found
        return OK if all(each.answer.is_good for each in found) else NO

    def _is_list(self, found: Sequence[PodExplanation]) -> bool:
        """One pod of files is shown in full, although it was not named."""
        is_single = not self._request.reading.is_live and len(found) == 1
        return self._request.name is None and not is_single

    def _show_in_full(self, found: Sequence[PodExplanation]) -> None:
        if not self._format.is_table:
            emit_listing(layout.listing(found, is_whole=True), self._format)
            return
        for position, each in enumerate(found):
            if position:
                click.echo()
            layout.emit_explanation(each, wide=self._format.output is Output.WIDE)
