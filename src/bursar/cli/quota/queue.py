"""`bursar queue`: who waits for room in a quota, what each lacks, and who is ahead."""

from collections.abc import Sequence
from typing import Any

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.counting.provenance import charge_parts, is_native
from bursar.app.names import DEFAULT_NAMESPACE
from bursar.app.quota.read_model import queue_report
from bursar.cli.exit_codes import OK
from bursar.cli.options import shown
from bursar.cli.output.formats import Output, emit_rows, output_option, printable
from bursar.cli.processes.counting_options import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.quota.document import waiting_as_dict
from bursar.cli.quota.layout import COST_COLUMN, QUEUE_COLUMNS, cost_cell, queue_row
from bursar.cli.quota.source import (
    Source,
    namespace_options,
    require_one_choice,
    source_options,
)
from bursar.cli.selectors import selector_from
from bursar.core.quota.targeting import GATING_LABEL, Targeting


@click.command(short_help="List the pods that wait for a quota, and why.")
@source_options
@namespace_options
@shown("--namespace-selector", GATING_LABEL, "Labels of the namespaces whose pods are gated.")
@view_counting_options
@output_option
@click.pass_obj
def queue(  # noqa: PLR0913 - one for each option
    processes: Processes,
    /,
    *,
    files: Sequence[str],
    kubeconfig: str | None,
    context: str,
    namespace: str | None,
    all_namespaces: bool,
    namespace_selector: str,
    output: Output,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """List waiting pods in the order of release, with what each lacks.

    Worked out from files, or from the cluster kubectl would talk to, which is
    only looked at; no controller has to run. The position is among all pods of
    the cluster that wait, also with -n.
    """
    require_one_choice(namespace, all_namespaces=all_namespaces)
    selector = selector_from(namespace_selector, "--namespace-selector")
    targeting = Targeting(own_namespace=DEFAULT_NAMESPACE, selector=selector)
    counting = processes.counting(counting_from(others))
    source = Source(files=files, kubeconfig=kubeconfig, context=context, counting=counting)
    inventory = source.read()
    now = SYSTEM_CLOCK.now()
    listed = [
        waiting
        for waiting in queue_report(inventory, targeting, int(now.timestamp()))
        if namespace in {None, waiting.row.namespace}
    ]
    place = "" if namespace is None else f" in namespace {printable(namespace)}"
    costs = [charge_parts(counting.explain, waiting.row) for waiting in listed]
    columns: Sequence[str] = QUEUE_COLUMNS
    rows = [queue_row(waiting, now) for waiting in listed]
    if not all(map(is_native, costs)):
        columns = (*columns, COST_COLUMN)
        rows = [(*row, cost_cell(cost)) for row, cost in zip(rows, costs, strict=True)]
    emit_rows(
        output,
        list(map(waiting_as_dict, listed, costs)),
        columns,
        rows,
        nothing=f"no pod waits for a quota{place}",
    )
    return OK
