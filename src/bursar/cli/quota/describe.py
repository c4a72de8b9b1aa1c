"""`bursar describe quota`: what quotas should show, beside what they do."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import Resource
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.quota.kinds import QUOTAS
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.options import shown
from bursar.cli.output.formats import Output, printable
from bursar.cli.output.listing import Format, Listing, ListingPrinter, format_options
from bursar.cli.processes.options.counting import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.reading.reading import Objects, Reading, reading_options
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.targeting import GATING_LABEL, Targeting

if TYPE_CHECKING:
    from bursar.app.counting.feeds import Counting
    from bursar.app.quota.views.inventory import Inventory
    from bursar.app.quota.views.read_model import QuotaReport


@click.command(short_help="Recount quotas from the pods and compare with their status.")
@click.argument("name", required=False)
@reading_options
@shown("--namespace-selector", GATING_LABEL, "Labels of the namespaces whose pods are gated.")
@view_counting_options
@format_options
@click.pass_obj
def quota(
    processes: Processes,
    /,
    *,
    name: str | None,
    reading: Reading,
    namespace_selector: str,
    format: Format,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """Recount each quota, or those called NAME, and show it beside what is reported.

    The command reads ResourceQuotas and both kinds of AAQ's quotas, from files or
    from the cluster that kubectl uses. It writes nothing. With -n it also shows the
    cluster-wide quotas that cover the namespace.
    """
    from bursar.app.names import OWN_NAMESPACE  # noqa: PLC0415
    from bursar.app.quota.views.read_model import quota_reports  # noqa: PLC0415 - imports the books
    from bursar.cli.selectors import selector_from  # noqa: PLC0415

    settings = counting_from(others)
    selector = selector_from(namespace_selector, "--namespace-selector")
    targeting = Targeting(own_namespace=OWN_NAMESPACE, selector=selector)
    printer = ListingPrinter(format, is_watching=reading.is_watching)
    counting = processes.counting(settings)

    def show(objects: Objects) -> int:
        # Counters remember the objects that they were told of, so each report has its own.
        inventory = _inventory(reading, objects, processes.counting(settings))
        now_s = int(SYSTEM_CLOCK.now().timestamp())
        reports = [
            report
            for report in quota_reports(
                inventory,
                now_s,
                name=name,
                namespace=reading.shown_namespace or None,
                targeting=targeting,
            )
            if _is_selected(report, objects)
        ]
        if not reports:
            raise BadInputError(_nothing_found(reading, name))
        printer.show(_listing(reports, format))
        return OK

    return reading.show(
        _wanted(reading, counting), show, kept=counting.whole_kinds, ignores_templates=True
    )


def _wanted(reading: Reading, counting: "Counting") -> Sequence[Wanted]:
    """What a report on the quotas of the place needs."""
    if not reading.is_live:
        return ()
    shown_namespace = reading.shown_namespace
    cluster_wide = _optional(QUOTAS[QuotaKind.CLUSTER])
    # Pods that a cluster-wide quota may cover are in all namespaces.
    all_if = cluster_wide.resource
    return (
        Wanted(resource=QUOTAS[QuotaKind.NATIVE], namespace=shown_namespace, is_decoded=False),
        _optional(QUOTAS[QuotaKind.NAMESPACED], shown_namespace),
        cluster_wide,
        Wanted(resource=PODS, namespace=shown_namespace, all_if=all_if, is_decoded=False),
        *(
            replace(_optional(kind.resource, shown_namespace), all_if=all_if)
            for kind in counting.kinds
        ),
        # After the pods, so that each pod's namespace is in the list.
        Wanted(resource=NAMESPACES, is_required=False, is_decoded=False),
    )


def _optional(resource: Resource, namespace: str = "") -> Wanted:
    """Objects of a kind that not every cluster has."""
    return Wanted(
        resource=resource,
        namespace=namespace,
        is_required=False,
        may_be_absent=True,
        is_decoded=False,
    )


def _inventory(reading: Reading, objects: Objects, counting: "Counting") -> "Inventory":
    from bursar.app.quota.views.inventory import inventory_of_bodies  # noqa: PLC0415
    from bursar.cli.reading.inventory import inventory_in, print_problems  # noqa: PLC0415

    if reading.is_live:
        inventory = inventory_of_bodies(objects.bodies, counting=counting)
    else:
        inventory = inventory_in(objects.manifests, counting)
    print_problems(inventory)
    return inventory


def _is_selected(report: "QuotaReport", objects: Objects) -> bool:
    key = report.seen.quota.key
    return objects.is_selected(key.kind.value, key.namespace, key.name)


def _listing(reports: "Sequence[QuotaReport]", format: Format) -> Listing:
    from bursar.cli.quota.listing import quota_listing, resource_listing  # noqa: PLC0415 - tables

    if format.output is Output.CSV:
        return resource_listing(reports)
    return quota_listing(reports, is_described=format.output is Output.TABLE)


def _nothing_found(reading: Reading, name: str | None) -> str:
    called = "" if name is None else f" called {printable(name)}"
    where = f" in namespace {printable(reading.shown_namespace)}" if reading.shown_namespace else ""
    hint = ""
    if reading.is_live and reading.shown_namespace and reading.namespace is None:
        hint = " (-n names another one, -A means all)"
    return f"{reading}: no quota{called}{where}{hint}"
