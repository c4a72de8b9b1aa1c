"""`bursar explain pod`: why a pod does not run, and what would let it run."""

from collections.abc import Sequence
from typing import Any

import click

from bursar.app.names import DEFAULT_NAMESPACE as OWN_NAMESPACE
from bursar.app.reports.explain import PodExplanation
from bursar.cli.exit_codes import NO, OK
from bursar.cli.explain import document, layout
from bursar.cli.explain.source import Question, explanations
from bursar.cli.kinds import KindNames
from bursar.cli.options import shown
from bursar.cli.output.formats import Output, emit_document, emit_rows, wide_output_option
from bursar.cli.processes.counting_options import counting_from, view_counting_options
from bursar.cli.processes.processes import Processes
from bursar.cli.quota.source import (
    namespace_options,
    require_files_or_cluster,
    require_one_choice,
    source_options,
)
from bursar.cli.selectors import selector_from
from bursar.core.quota.targeting import GATING_LABEL, Targeting


@click.group(cls=KindNames, short_help="Say why a pod does not run, and what would let it run.")
def explain() -> None:
    """Say why a pod does not run, and what would let it run."""


@explain.command(
    short_help="Say what a pod waits for, node by node, or how its containers ended.",
)
@click.argument("name", required=False)
@source_options
@namespace_options
@shown("--namespace-selector", GATING_LABEL, "Labels of the namespaces whose pods are gated.")
@view_counting_options
@wide_output_option
@click.pass_obj
def pod(  # noqa: PLR0913 - one for each option
    processes: Processes,
    /,
    *,
    name: str | None,
    files: Sequence[str],
    kubeconfig: str | None,
    context: str,
    namespace: str | None,
    all_namespaces: bool,
    namespace_selector: str,
    output: Output,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """Say why the pod NAME does not run; without NAME, list all pods that do not run.

    A pod waits for a quota, then for a node, then for its containers. For a
    pod without a node: what each node says, by how much it lacks, the
    scheduler's event, and the least changes that would let the pod run.
    Workloads in files are explained as the pods they would create. The
    cluster is only looked at, with your own rights.

    Exit code 0 if the pod runs, has succeeded or would fit; 1 if not.
    """
    require_one_choice(namespace, all_namespaces=all_namespaces)
    require_files_or_cluster(files, kubeconfig, context)
    selector = selector_from(namespace_selector, "--namespace-selector")
    question = Question(
        name=name,
        files=files,
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        all_namespaces=all_namespaces,
        counting=processes.counting(counting_from(others)),
        targeting=Targeting(own_namespace=OWN_NAMESPACE, selector=selector),
    )
    found = explanations(question)
    _emit(found, output, is_list=name is None and not _is_single(found, files))
    return OK if all(each.answer.is_good for each in found) else NO


def _is_single(found: Sequence[PodExplanation], files: Sequence[str]) -> bool:
    """One pod of files is shown in full, although it was not named."""
    return bool(files) and len(found) == 1


def _emit(found: Sequence[PodExplanation], output: Output, *, is_list: bool) -> None:
    wide = output is Output.WIDE
    if not is_list and output in {Output.TABLE, Output.WIDE}:
        for position, each in enumerate(found):
            if position:
                click.echo()
            layout.emit_explanation(each, wide=wide)
        return
    waiting = [each for each in found if not each.answer.is_good] if is_list else found
    documents = [document.as_dict(each) for each in waiting]
    if output in {Output.JSON, Output.YAML}:
        emit_document(documents, output)
        return
    rows = layout.list_rows(waiting, wide=wide)
    nothing = f"all {len(found)} pods run, have succeeded or would fit"
    emit_rows(Output.TABLE, documents, layout.LIST_COLUMNS, rows, nothing=nothing)
