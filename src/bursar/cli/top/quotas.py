"""`bursar top quotas`: how full quotas are."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.names import OWN_NAMESPACE
from bursar.app.quota.kinds import QUOTAS
from bursar.cli.errors.exit_codes import OK
from bursar.cli.options import shown
from bursar.cli.output.amounts import short_amount
from bursar.cli.output.formats import printable
from bursar.cli.output.listing import (
    NO_VALUE,
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.processes.options.counting import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.reading.reading import Objects, Reading, reading_options
from bursar.cli.selectors import selector_from
from bursar.cli.top.choices import names_argument, require_found, resource_option
from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.targeting import GATING_LABEL, Targeting

if TYPE_CHECKING:
    from bursar.app.counting.feeds import Counting
    from bursar.app.reports.top.quotas import QuotaUse

KIND_WORDS: Final = {
    QuotaKind.NATIVE: "ResourceQuota",
    QuotaKind.NAMESPACED: "ARQ",
    QuotaKind.CLUSTER: "ACRQ",
    QuotaKind.OPENSHIFT: "ClusterResourceQuota",
}
CLUSTER_WIDE: Final = "(cluster)"
"""In place of the namespace of a quota that has none."""


@click.command(short_help="Show how full quotas are, and how many pods wait for them.")
@names_argument
@reading_options
@resource_option
@shown("--namespace-selector", GATING_LABEL, "Labels of the namespaces whose pods are gated.")
@view_counting_options
@format_options
@click.pass_obj
def quotas(
    processes: Processes,
    /,
    *,
    names: tuple[str, ...],
    reading: Reading,
    resources: tuple[str, ...],
    namespace_selector: str,
    format: Format,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """Show what is used and free of each resource of each quota, or of those called NAME.

    ResourceQuotas of Kubernetes and both kinds of AAQ. Usage is recounted from the pods,
    as bursar describe quota does; of resources that are not about pods, the
    status is shown. With one namespace, the cluster-wide quotas that cover it are
    listed as well. WAITING is the number of pods that wait because the resource
    is short. -l selects quotas.
    """
    targeting = Targeting(
        own_namespace=OWN_NAMESPACE,
        selector=selector_from(namespace_selector, "--namespace-selector"),
    )
    shown_namespace = reading.shown_namespace
    settings = counting_from(others)
    printer = ListingPrinter(format, is_watching=reading.is_watching)

    def show(objects: Objects) -> int:
        # Counters remember the objects that they were given, so each state needs new counters.
        uses = _uses(objects, processes.counting(settings), shown_namespace, targeting)
        require_found("quota", names, {use.key.name for use in uses}, shown_namespace)
        found = [
            use
            for use in uses
            if (not names or use.key.name in names) and (not resources or use.resource in resources)
        ]
        printer.show(_listing(found, shown_namespace))
        return OK

    counting = processes.counting(settings)
    return reading.show(_wanted(shown_namespace, counting), show, kept=counting.whole_kinds)


def _wanted(shown_namespace: str, counting: "Counting") -> Sequence[Wanted]:
    cluster_wide = QUOTAS[QuotaKind.CLUSTER]
    optional = partial(Wanted, is_required=False, may_be_absent=True)
    return [
        Wanted(resource=QUOTAS[QuotaKind.NATIVE], namespace=shown_namespace),
        optional(resource=QUOTAS[QuotaKind.NAMESPACED], namespace=shown_namespace),
        optional(resource=cluster_wide),
        Wanted(resource=PODS, namespace=shown_namespace, all_if=cluster_wide),
        Wanted(resource=NAMESPACES, namespace=shown_namespace, all_if=cluster_wide),
        *(
            optional(resource=kind.resource, namespace=shown_namespace, all_if=cluster_wide)
            for kind in counting.kinds
        ),
    ]


def _uses(
    objects: Objects, counting: "Counting", shown_namespace: str, targeting: Targeting
) -> "list[QuotaUse]":
    # Slow to import, and not needed to print the help.
    from bursar.app.quota.views.read_model import queue_report, quota_reports  # noqa: PLC0415
    from bursar.app.reports.top.quotas import quota_uses  # noqa: PLC0415
    from bursar.cli.reading.inventory import inventory_in, print_problems  # noqa: PLC0415

    inventory = inventory_in(objects.manifests, counting)
    print_problems(inventory)
    now_s = int(SYSTEM_CLOCK.now().timestamp())
    reports = [
        report
        for report in quota_reports(inventory, now_s, namespace=shown_namespace or None)
        if objects.is_selected(
            report.seen.quota.key.kind.value,
            report.seen.quota.key.namespace,
            report.seen.quota.key.name,
        )
    ]
    return quota_uses(reports, queue_report(inventory, targeting, now_s))


# ------------------------------------------------------------------ the list


def _listing(uses: "Sequence[QuotaUse]", shown_namespace: str) -> Listing:
    is_awaited = any(use.waiting for use in uses)
    # As kubectl, which names the namespace only if there are several.
    namespaces = {use.key.namespace for use in uses}
    has_namespace = not shown_namespace or "" in namespaces
    columns = (
        Column("NAMESPACE", is_wide=not has_namespace),
        Column("KIND", is_wide=True),
        *(Column("QUOTA"), Column("RESOURCE"), Column("USED"), Column("HARD")),
        Column("PERCENT", is_wide=True),
        Column("FREE"),
        Column("WAITING", is_wide=not is_awaited),
        Column("QUEUED", is_wide=True),
    )
    return Listing(
        columns=columns,
        rows=tuple(map(_row, uses)),
        nothing="no quota found"
        + (f" in namespace {printable(shown_namespace)}" if shown_namespace else ""),
        wrapped=lambda documents: {"quotas": documents},
    )


def _row(use: "QuotaUse") -> Row:
    key, resource = use.key, use.resource
    share = NO_VALUE if use.percent is None else f"{use.percent}%"
    exact = {"USED": use.used, "HARD": use.hard, "FREE": use.free if use.is_counted else None}
    return Row(
        cells=(
            key.namespace or CLUSTER_WIDE,
            KIND_WORDS[key.kind],
            key.name,
            resource,
            _used(resource, use.used, share),
            short_amount(resource, use.hard),
            share,
            _free(use),
            str(use.waiting),
            str(use.queued),
        ),
        document=_document(use),
        name=f"{key.kind.value.lower()}/{key.name}",
        exact={name: amount for name, amount in exact.items() if amount is not None},
    )


def _used(resource: str, used: Quantity | None, share: str) -> str:
    if used is None:
        return NO_VALUE
    return short_amount(resource, used) + ("" if share == NO_VALUE else f" ({share})")


def _free(use: "QuotaUse") -> str:
    """The cell for what is left: an amount, or a word that is easy to find if nothing is."""
    if not use.is_counted:
        return "not counted"
    if use.free is None:
        return NO_VALUE
    if use.excess is not None:
        return f"over by {short_amount(use.resource, use.excess)}"
    return "full" if use.is_full else short_amount(use.resource, use.free, rounds_down=True)


def _document(use: "QuotaUse") -> dict[str, object]:
    return {
        "kind": use.key.kind.value,
        "namespace": use.key.namespace or None,
        "quota": use.key.name,
        "resource": use.resource,
        "used": None if use.used is None else str(use.used),
        "hard": str(use.hard),
        "percent": use.percent,
        "free": None if use.free is None else str(use.free),
        "overBy": None if use.excess is None else str(use.excess),
        "recounted": use.is_recounted,
        "counted": use.is_counted,
        "waitingPods": use.waiting,
        "queuedPods": use.queued,
    }
