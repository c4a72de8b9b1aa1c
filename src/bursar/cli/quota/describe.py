"""`bursar describe quota`: what quotas should show, beside what they do."""

from collections.abc import Sequence
from typing import Any

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.quota.read_model import quota_reports
from bursar.cli.exit_codes import OK, BadInputError
from bursar.cli.output.formats import Output, emit_document, output_option, printable
from bursar.cli.processes.counting_options import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.quota.document import quota_as_dict
from bursar.cli.quota.layout import described_quota
from bursar.cli.quota.source import (
    Source,
    namespace_options,
    require_one_choice,
    source_options,
)


@click.command(short_help="Recount quotas from the pods and compare with their status.")
@click.argument("name", required=False)
@source_options
@namespace_options
@view_counting_options
@output_option
@click.pass_obj
def quota(  # noqa: PLR0913 - one for each option
    processes: Processes,
    /,
    *,
    name: str | None,
    files: Sequence[str],
    kubeconfig: str | None,
    context: str,
    namespace: str | None,
    all_namespaces: bool,
    output: Output,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """Recount each quota, or those called NAME, and show it beside what is reported.

    ResourceQuotas of Kubernetes and both kinds of AAQ, from files or from the
    cluster kubectl would talk to, which is only looked at. With -n also the
    cluster-wide quotas that cover the namespace.
    """
    require_one_choice(namespace, all_namespaces=all_namespaces)
    counting = processes.counting(counting_from(others))
    source = Source(files=files, kubeconfig=kubeconfig, context=context, counting=counting)
    inventory = source.read(namespace=namespace or "")
    now_s = int(SYSTEM_CLOCK.now().timestamp())
    reports = quota_reports(inventory, now_s, name=name, namespace=namespace)
    if not reports:
        raise BadInputError(_nothing_found(source, name, namespace))
    if output is Output.TABLE:
        click.echo("\n\n".join(map(described_quota, reports)))
    else:
        emit_document([quota_as_dict(report) for report in reports], output)
    return OK


def _nothing_found(source: Source, name: str | None, namespace: str | None) -> str:
    called = "" if name is None else f" called {printable(name)}"
    place = "" if namespace is None else f" in namespace {printable(namespace)}"
    return f"{source}: no quota{called}{place}"
