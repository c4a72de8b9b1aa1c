"""`bursar up`: run the embedded cluster, or watch a real one, live in this terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bursar.app.cluster.ports import ClusterError
from bursar.app.counting.settings import CountingSettings
from bursar.app.reports.overview import Overview
from bursar.cli import options
from bursar.cli.exit_codes import OK, BadInputError
from bursar.cli.output.durations import Duration
from bursar.cli.output.formats import Output, emit_document, output_option
from bursar.cli.processes import overview_view
from bursar.cli.processes.counting_options import counting_from, view_counting_options
from bursar.cli.processes.process_options import ClusterChoice
from bursar.cli.processes.processes import Processes

Show = Callable[[Overview], None]


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


@click.command(short_help="Run a cluster and watch it live.")
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
    """Show nodes, running and waiting pods and what is full, until Ctrl-C.

    Without --kubeconfig or --context this is the embedded cluster: objects,
    controllers, a scheduler and nodes in this process; no other cluster is
    touched, whatever the environment says. With one of them a real cluster is
    watched, and nothing is written to it.
    """
    choice = ClusterChoice(kubeconfig, context)
    if choice.is_named and files:
        raise click.UsageError("-f is for the embedded cluster; a real one is only looked at")
    if choice.is_named and state is not None:
        raise click.UsageError("--state is for the embedded cluster; a real one keeps its own")
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
        with _shown(title, output) as show:
            last = processes.up(settings, show)
    except ClusterError as error:
        raise BadInputError(f"the cluster could not be read: {error}") from None
    if output is Output.TABLE:
        click.echo(f"bursar up: {title}: {overview_view.summary(last)}")
    else:
        emit_document({"cluster": title, **overview_view.as_dict(last)}, output)
    return OK


@contextmanager
def _shown(title: str, output: Output) -> Iterator[Show]:
    """Draw on a terminal; elsewhere say one line whenever the counts change."""
    if output is not Output.TABLE:
        yield lambda _: None
    elif sys.stdout.isatty():
        from rich.live import Live  # noqa: PLC0415 - rich is slow to import

        with Live(auto_refresh=False, screen=False, transient=True) as live:
            yield lambda seen: live.update(
                overview_view.drawn(seen, f"bursar up: {title} (Ctrl-C stops)"), refresh=True
            )
    else:
        said: list[str] = []

        def say(seen: Overview) -> None:
            line = overview_view.summary(seen)
            if said != [line]:
                said[:] = [line]
                click.echo(f"bursar up: {title}: {line}")

        yield say
