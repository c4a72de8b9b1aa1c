"""`bursar migrate aaq`: what a take-over from AAQ changes, the take-over, and the way back."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import read_objects_as_written
from bursar.app.cluster.ports import ClusterError, ReadWriter
from bursar.app.migration.effects import refusals_of
from bursar.app.migration.findings import Finding, Level, Readiness, readiness_of
from bursar.app.migration.gather import read_state, read_tenants
from bursar.app.migration.installation import Installation, installation_of
from bursar.app.migration.plan import Planned, Step, takeover, way_back
from bursar.app.migration.review import review_takeover, review_way_back
from bursar.app.migration.run import Move, MoveError
from bursar.app.migration.step_texts import STEP_TEXTS
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster
from bursar.cli.options import duration, files, flag, shown
from bursar.cli.output.formats import Output, emit_document, output_option, printable

BLOCKED: Final = 4
"""The move cannot begin, and Bursar cannot change that."""
CODES: Final = {Readiness.READY: OK, Readiness.NOT_READY: NO, Readiness.BLOCKED: BLOCKED}
HEADINGS: Final = {
    Level.BLOCKER: "Blocked by:",
    Level.TASK: "To do first:",
    Level.CHANGE: "What changes:",
    Level.FACT: "Good to know:",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What the command line asks for."""

    home: str
    installation: Installation | None
    is_apply: bool
    is_back: bool
    is_sure: bool
    timeout: float
    output: Output


@click.command(short_help="Take over from AAQ, or go back to it.")
@flag("--check", "Say what would change, and change nothing. This is the default.")
@flag("--apply", "Take over from AAQ.")
@flag("--back", "Go back to AAQ. With --check: say what would change.")
@files(
    "Bursar's manifests, as bursar manifests prints them: files, folders, or -. Repeatable.",
    name="manifests",
)
@shown("-n --namespace", "aaq", "Namespace of AAQ.", metavar="NAME")
@flag("--yes", "Do not ask for confirmation.")
@duration("--timeout", "10m", "How long to wait for one step.")
@cluster_options
@output_option
def aaq(  # noqa: PLR0913 - one parameter for each option
    *,
    check: bool,
    apply: bool,
    back: bool,
    manifests: tuple[str, ...],
    namespace: str,
    yes: bool,
    timeout: float,
    kubeconfig: str | None,
    context: str,
    output: Output,
) -> int:
    """Replace KubeVirt's application-aware-quota (AAQ) by Bursar, in a running cluster.

    No quota, pod or gate is lost, and the two controllers never run at the same
    time. If the command is interrupted, run it again: it reads from the cluster
    which steps are done. See docs/how-to/move-from-aaq.md.

    Exit codes with --check: 0 ready, 1 not ready, 4 blocked.
    """
    if apply and (check or back):
        raise click.UsageError("--apply excludes --check and --back")
    if (apply or (back and not check)) and not manifests:
        raise click.UsageError("name Bursar's manifests with -f, as bursar manifests prints them")
    order = _Order(
        home=namespace,
        installation=_read(manifests) if manifests else None,
        is_apply=apply or (back and not check),
        is_back=back,
        is_sure=yes,
        timeout=timeout,
        output=output,
    )
    about = "the move stopped: " if order.is_apply else ""
    return answer_of(_work(order, kubeconfig, context), about=about)


def _read(files: Sequence[str]) -> Installation:
    written = read_objects_as_written(files, sys.stdin.buffer)
    try:
        return installation_of(body for body, _ in written)
    except ValueError as error:
        raise BadInputError(f"{', '.join(files)}: {error}") from None


async def _work(order: _Order, kubeconfig: str | None, context: str) -> int:
    async with live_cluster(kubeconfig, context) as cluster:
        findings, steps = await _review(cluster, order)
        readiness = readiness_of(findings)
        if not order.is_apply:
            _show(readiness, findings, steps, order)
            return CODES[readiness]
        if readiness is not Readiness.READY:
            _show(readiness, findings, steps, order)
            click.echo("bursar: nothing was changed", err=True)
            return CODES[readiness]
        if all(each.is_done for each in steps):
            click.echo("bursar: there is nothing left to do", err=True)
            return OK
        _ask(order, findings, steps)
        return await _move(cluster, order)


async def _review(
    cluster: ReadWriter, order: _Order
) -> tuple[tuple[Finding, ...], tuple[Planned, ...]]:
    state = await read_state(cluster, order.home, order.installation, is_back=order.is_back)
    if order.is_back:
        return review_way_back(state), way_back(state)
    refusals: tuple[str, ...] = ()
    if order.installation is not None and not state.has_guard:
        # Once AAQ is stopped, it would be late to learn of it.
        refusals = await refusals_of(cluster, order.installation)
    tenants = await read_tenants(cluster)
    return review_takeover(state, tenants, refusals), takeover(state)


async def _move(cluster: ReadWriter, order: _Order) -> int:
    assert order.installation is not None
    move = Move(
        cluster=cluster,
        clock=SYSTEM_CLOCK,
        home=order.home,
        installation=order.installation,
        is_back=order.is_back,
        timeout_seconds=order.timeout,
        on_step=_progress,
        on_error=lambda text: click.echo(f"trying again: {printable(text)}", err=True),
    )
    try:
        count = await move.run()
    except (MoveError, ClusterError) as error:
        click.echo(f"bursar: {printable(str(error))}", err=True)
        click.echo("bursar: the move is not complete; run the same command again", err=True)
        return NO
    target = "AAQ" if order.is_back else "Bursar"
    if order.output is Output.TABLE:
        click.echo(f"{target} keeps the quotas now ({count} steps)")
    else:
        emit_document({"state": "done", "controller": target, "steps": count}, order.output)
    return OK


def _progress(step: Step, text: str) -> None:
    line = STEP_TEXTS[step] if text == "begins" else text
    click.echo(f"{step.value}: {printable(line)}", err=True)


def _ask(order: _Order, findings: Sequence[Finding], steps: Sequence[Planned]) -> None:
    if order.is_sure:
        return
    if not sys.stdin.isatty():
        raise BadInputError("the cluster would be changed; give --yes")
    _emit(findings, steps, err=True)
    question = "Go back to AAQ?" if order.is_back else "Take over from AAQ?"
    click.confirm(question, abort=True, err=True)


def _show(
    readiness: Readiness, findings: Sequence[Finding], steps: Sequence[Planned], order: _Order
) -> None:
    if order.output is not Output.TABLE:
        emit_document(_document(readiness, findings, steps), order.output)
        return
    _emit(findings, steps, err=False)
    click.echo(f"\n{readiness.value}")


def _document(
    readiness: Readiness, findings: Sequence[Finding], steps: Sequence[Planned]
) -> dict[str, object]:
    return {
        "state": readiness.value,
        "findings": [
            {"level": each.level.value, "about": each.about, "text": each.text} for each in findings
        ],
        "steps": [
            {"name": each.step.value, "done": each.is_done, "text": STEP_TEXTS[each.step]}
            for each in steps
        ],
    }


def _emit(findings: Sequence[Finding], steps: Sequence[Planned], *, err: bool) -> None:
    for level, heading in HEADINGS.items():
        found = [each for each in findings if each.level is level]
        if found:
            click.echo(heading, err=err)
        for each in found:
            click.echo(f"  {printable(each.about)}: {printable(each.text)}", err=err)
    click.echo("Steps:", err=err)
    for number, planned in enumerate(steps, start=1):
        mark = "done" if planned.is_done else "    "
        click.echo(f"  {number:>2} {mark} {STEP_TEXTS[planned.step]}", err=err)
