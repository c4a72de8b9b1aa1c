"""`bursar up`: run the embedded cluster, or watch a real one, live in this terminal."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bursar.app.cluster.ports import ClusterError
from bursar.app.counting.settings import CountingSettings
from bursar.app.reports.overview import Overview
from bursar.cli import options
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.output.durations import Duration
from bursar.cli.output.formats import Output, emit_document, output_option
from bursar.cli.processes import overview_view
from bursar.cli.processes.options.counting import counting_from, view_counting_options
from bursar.cli.processes.options.process import ClusterChoice
from bursar.cli.processes.processes import Processes
from bursar.cli.up.start_line import show_progress_line
from bursar.cli.up.stop import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """What to show: a real cluster if one is named, else the embedded one."""

    cluster: ClusterChoice
    files: tuple[str, ...]
    """Manifests that the embedded cluster starts with. Empty: the example."""
    seed: int
    state: Path | None
    seconds: float | None
    """None: until Ctrl-C."""
    counting: CountingSettings
    """How pods of the embedded cluster are counted."""


@click.command(short_help="Run the embedded cluster, or watch a real one, live.")
@options.files(
    "Manifests the embedded cluster starts with: files, folders, or -. Default: an example."
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Load the embedded cluster from this file if it exists, and save it there at the end.",
)
@click.option(
    "--kubeconfig", type=click.Path(), help="Watch the real cluster of this kubeconfig instead."
)
@click.option(
    "--context", default="", help="Watch the real cluster of this kubeconfig context instead."
)
@click.option("--for", "seconds", type=Duration(), help="Stop after this time, such as 30s.")
@options.shown("--seed", 1, "Seed of the embedded cluster's random choices.", type=int)
@view_counting_options
@output_option
@click.pass_obj
def up(  # noqa: PLR0913 - one for each option
    processes: Processes,
    /,
    *,
    files: tuple[str, ...],
    state: Path | None,
    kubeconfig: str | None,
    context: str,
    seconds: float | None,
    seed: int,
    output: Output,
    **others: Any,  # noqa: ANN401 - the options that say how pods are counted
) -> int:
    """Show nodes, quotas, waiting pods and events live, until q or Ctrl-C.

    Without --kubeconfig and --context, the command runs the embedded cluster:
    objects, controllers, a scheduler and simulated nodes in this process. It
    contacts no other cluster, whatever the environment says. With one of them, it
    shows a real cluster and writes nothing to it. If the output is not a terminal,
    the command prints a line whenever the number of pods in a state changes.
    """
    choice = ClusterChoice(kubeconfig, context)
    if choice.is_named and files:
        raise click.UsageError("-f is for the embedded cluster; a real one is only looked at")
    if choice.is_named and state is not None:
        raise click.UsageError("--state is for the embedded cluster; a real one keeps its own")
    if choice.is_named:
        _require_no_counting(others)
    if files and state is not None and state.exists():
        raise click.UsageError(f"-f is for a new cluster, and {state} already holds one")
    title = "real cluster, read only" if choice.is_named else "embedded cluster"
    settings = UpSettings(
        cluster=choice,
        files=files,
        seed=seed,
        state=state,
        seconds=seconds,
        counting=counting_from(others),
    )
    try:
        if output is Output.TABLE:
            _show_live(processes, settings, title)
        else:
            last = processes.up(settings, lambda _: None)
            emit_document({"cluster": title, **overview_view.as_dict(last)}, output)
    except ClusterError as error:
        raise BadInputError(f"the cluster could not be read: {error}") from None
    return OK


def _require_no_counting(options: Mapping[str, object]) -> None:
    """Refuse options that would have no effect on what a real cluster shows."""
    context = click.get_current_context()
    for each in context.command.params:
        given = context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
        if each.name in options and given:
            raise click.UsageError(
                f"{each.opts[0]} is for the embedded cluster; a real one has its own controller"
            )


def _show_live(processes: Processes, settings: UpSettings, title: str) -> None:
    """Draw on a terminal; elsewhere print a line whenever the counts change."""
    show_progress_line("starting")
    if sys.stdout.isatty():
        from bursar.cli.up.session import Session, can_draw  # noqa: PLC0415 - Textual is slow

        if can_draw():
            context = click.get_current_context()

            def work(show: Callable[[Overview], None], stop: Stop) -> Overview:
                # Texts of errors depend on click's context, which each thread has to enter.
                with context.scope(cleanup=False):
                    return processes.up(settings, show, stop)

            session = Session(work, must_end_well=settings.state is not None)
            session.run(f"bursar up: {title}", click.echo)
            return
    said = ""

    def say(seen: Overview) -> None:
        nonlocal said
        line = overview_view.summary(seen)
        if said != line:
            said = line
            click.echo(f"bursar up: {title}: {line}")

    last = processes.up(settings, say)
    click.echo(f"bursar up: {title}: {overview_view.summary(last)}")
