"""`bursar up`: a cluster to look at, embedded or real, live until told to stop."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.whole_objects import observe_nodes, observe_pods
from bursar.app.cluster.ports import ClusterError
from bursar.app.reports.overview import Overview, overview
from bursar.cli.exit_codes import OK, BadInputError
from bursar.cli.live_cluster import kubeconfigs
from bursar.cli.output.durations import Duration
from bursar.cli.output.formats import Output, emit_document, output_option
from bursar.cli.processes import overview_view
from bursar.cli.processes.up_cluster import Shown, embedded_cluster, real_cluster

REFRESH_SECONDS: Final = 0.25
SYNC_SECONDS_MAX: Final = 30

Show = Callable[[Overview], None]


@click.command(short_help="Run a cluster and watch it live.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="What the embedded cluster starts with: files, folders, or -. Default: an example.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Go on with the embedded cluster of this file, and keep it there in the end.",
)
@click.option("--kubeconfig", type=click.Path(), help="Look at the cluster of this file instead.")
@click.option("--context", default="", help="Look at this context of your kubeconfig instead.")
@click.option("--for", "seconds", type=Duration(), help="Stop after this time, such as 30s.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the embedded cluster.")
@output_option
def up(  # noqa: PLR0913 - one for each option
    *,
    files: tuple[str, ...],
    state: Path | None,
    kubeconfig: str | None,
    context: str,
    seconds: float | None,
    seed: int,
    output: Output,
) -> int:
    """Show nodes, running and waiting pods and what is full, until Ctrl-C.

    Without --kubeconfig or --context this is the embedded cluster: objects,
    controllers, a scheduler and nodes in this process; no other cluster is
    touched, whatever the environment says. With one of them a real cluster is
    looked at, and only looked at.
    """
    is_real = kubeconfig is not None or bool(context)
    if is_real and files:
        raise click.UsageError("-f is for the embedded cluster; a real one is only looked at")
    if is_real and state is not None:
        raise click.UsageError("--state is for the embedded cluster; a real one keeps its own")
    if files and state is not None and state.exists():
        raise click.UsageError(f"-f is for a new cluster, and {state} already holds one")
    title = "real cluster, read only" if is_real else "embedded cluster"
    cluster = (
        real_cluster(kubeconfigs(kubeconfig), context)
        if is_real
        else embedded_cluster(files, seed, state)
    )
    try:
        last = asyncio.run(_watch(cluster, title, seconds, output))
    except ClusterError as error:
        raise BadInputError(f"the cluster could not be read: {error}") from None
    if output is Output.TABLE:
        click.echo(f"bursar up: {title}: {overview_view.summary(last)}")
    else:
        emit_document({"cluster": title, **overview_view.as_dict(last)}, output)
    return OK


async def _watch(
    opening: AbstractAsyncContextManager[Shown],
    title: str,
    seconds: float | None,
    output: Output,
) -> Overview:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if seconds is not None:
        loop.call_later(seconds, ended.set)
    async with opening as shown:
        with _shown(title, output) as show:
            return await _follow(shown, ended, show)


async def _follow(shown: Shown, ended: asyncio.Event, show: Show) -> Overview:
    """Keep looking until told to end; the last look is the answer."""
    pods = observe_pods(shown.cluster, SYSTEM_CLOCK, SystemRandom())
    nodes = observe_nodes(shown.cluster, SYSTEM_CLOCK, SystemRandom())
    tasks = [asyncio.create_task(informer.run()) for informer in (pods, nodes)]

    def look() -> Overview:
        return overview(
            (each.item for each in nodes.snapshot().objects()),
            (each.item for each in pods.snapshot().objects()),
            shown.glance(),
        )

    try:
        async with asyncio.timeout(SYNC_SECONDS_MAX):
            await asyncio.gather(pods.wait_synced(), nodes.wait_synced())
        while not ended.is_set():
            show(look())
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), REFRESH_SECONDS)
        return look()
    except TimeoutError:
        cause = pods.last_error or nodes.last_error or "no answer"
        raise BadInputError(f"the cluster could not be read: {cause}") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
