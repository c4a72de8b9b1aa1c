"""`bursar queue`: which pods wait for room in a quota, what each lacks, and which are ahead."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import ForbiddenError
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.counting.feeds import Counting
from bursar.app.counting.provenance import charge_parts
from bursar.app.names import OWN_NAMESPACE
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS
from bursar.app.quota.views.inventory import Inventory, read_inventory
from bursar.app.quota.views.read_model import queue_report
from bursar.cli.errors.exit_codes import OK
from bursar.cli.live_cluster import LiveCluster
from bursar.cli.options import shown
from bursar.cli.output.formats import printable
from bursar.cli.output.listing import Format, Listing, ListingPrinter, format_options
from bursar.cli.processes.options.counting import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.quota.layout import QUEUE_COLUMNS, queue_row
from bursar.cli.reading.inventory import inventory_in, print_problems
from bursar.cli.reading.reading import Reading, Selects, reading_options, shown_progress
from bursar.cli.selectors import selector_from
from bursar.core.quota.targeting import GATING_LABEL, Targeting

WATCHED = (PODS, NAMESPACES, APPLICATION_QUOTAS, CLUSTER_QUOTAS)


@click.command(short_help="List the pods that wait for a quota, and why.")
@reading_options
@shown("--namespace-selector", GATING_LABEL, "Labels of the namespaces whose pods are gated.")
@view_counting_options
@format_options
@click.pass_obj
def queue(
    processes: Processes,
    /,
    *,
    reading: Reading,
    namespace_selector: str,
    format: Format,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """List waiting pods in the order of release, with what each lacks.

    The command computes the list from files, or from the cluster that kubectl
    uses. It writes nothing, and needs no running controller. The position is among
    all waiting pods of the cluster, also if the command shows only some of them.
    """
    selector = selector_from(namespace_selector, "--namespace-selector")
    settings = counting_from(others)
    view = _View(
        reading=reading,
        targeting=Targeting(own_namespace=OWN_NAMESPACE, selector=selector),
        counting=lambda: processes.counting(settings),
        printer=ListingPrinter(format),
        shown_namespace=reading.shown_namespace,
    )
    if not reading.is_live:
        return view.show_files()
    return reading.repeat([Wanted(resource=each) for each in WATCHED], view.show_cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    reading: Reading
    targeting: Targeting
    counting: Callable[[], Counting]
    """Makes counters that know nothing yet. Reading tells them what they need."""
    printer: ListingPrinter
    shown_namespace: str
    """The namespace to show; empty for all."""

    def show_files(self) -> int:
        counting = self.counting()
        objects = self.reading.read([], kept=counting.whole_kinds, ignores_templates=True)
        inventory = inventory_in(objects.manifests, counting)
        return self._show(inventory, partial(objects.is_selected, "Pod"))

    async def show_cluster(self, cluster: LiveCluster) -> int:
        selects = await self.reading.selected_in(cluster, PODS)
        try:
            inventory = await self._read(cluster, "")
        except ForbiddenError:
            if not self.shown_namespace:
                raise
            where = printable(self.shown_namespace)
            click.echo(
                f"bursar: you may not list all namespaces; positions are within {where}", err=True
            )
            inventory = await self._read(cluster, self.shown_namespace)
        return self._show(inventory, selects)

    async def _read(self, cluster: LiveCluster, namespace: str) -> Inventory:
        with shown_progress() as progress:
            return await read_inventory(
                cluster, namespace=namespace, counting=self.counting(), progress=progress
            )

    def _show(self, inventory: Inventory, selects: Selects) -> int:
        print_problems(inventory)
        now = SYSTEM_CLOCK.now()
        explain = inventory.counting.explain
        rows = tuple(
            queue_row(waiting, charge_parts(explain, waiting.row), now)
            for waiting in queue_report(inventory, self.targeting, int(now.timestamp()))
            if self.shown_namespace in {"", waiting.row.namespace}
            and selects(waiting.row.namespace, waiting.row.name)
        )
        where = f" in namespace {printable(self.shown_namespace)}" if self.shown_namespace else ""
        nothing = f"no pod waits for a quota{where}"
        self.printer.show(Listing(columns=QUEUE_COLUMNS, rows=rows, nothing=nothing))
        return OK
