"""`bursar release`: take the quota gate off pods, without asking a quota."""

import sys

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.quota.release.force_release import (
    ForcedReleases,
    force_release,
    gated_pods,
    release_all,
    stop_gating,
)
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster
from bursar.cli.output.formats import Output, emit_document, output_option
from bursar.core.model.pod_row import PodRow
from bursar.core.model.problem import counted
from bursar.wire.model.pod_row import PodRowDecoder


@click.command(short_help="Remove the quota gate from pods, without checking quotas.")
@click.argument("names", metavar="[POD]...", nargs=-1)
@click.option(
    "-n", "--namespace", help="Namespace of the pods. Default with --all: all namespaces."
)
@click.option("--all", "is_all", is_flag=True, help="Release all pods that have the gate.")
@click.option(
    "--stop-gating",
    "is_last",
    is_flag=True,
    help="With --all: first delete the objects that gate new pods.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
@output_option
def release(  # noqa: PLR0913 - one parameter for each option
    *,
    names: tuple[str, ...],
    namespace: str | None,
    is_all: bool,
    is_last: bool,
    is_sure: bool,
    kubeconfig: str | None,
    context: str,
    output: Output,
) -> int:
    """Remove the quota gate from pods, whether or not the quotas have room.

    A pod that has other scheduling gates keeps the quota gate too, unless
    --stop-gating is given. While policies or webhooks protect the gate, only the
    controller's service account may remove it. Before you uninstall Bursar, run
    `bursar release --all --stop-gating`: it stops the gate and its protection, and
    releases every pod. Scheduling gates of other components always stay.
    """
    if is_all == bool(names):
        raise click.UsageError("name pods, or give --all")
    if names and not namespace:
        raise click.UsageError("pods are named within a namespace: give -n")
    if is_last and (namespace or not is_all):
        raise click.UsageError("--stop-gating is for all pods: give --all, without -n")
    if is_last:
        return _say(answer_of(_stop(kubeconfig, context, is_sure=is_sure)), [], output)
    work = _release(
        frozenset(names), namespace or "", kubeconfig, context, is_sure=is_sure or not is_all
    )
    done, missing = answer_of(work)
    return _say(done, missing, output)


async def _release(
    names: frozenset[str], namespace: str, kubeconfig: str | None, context: str, *, is_sure: bool
) -> tuple[ForcedReleases, list[str]]:
    decode = PodRowDecoder().decode
    async with live_cluster(kubeconfig, context) as cluster:
        rows = await gated_pods(cluster, decode, namespace)
        chosen = [row for row in rows if not names or row.name in names]
        missing = sorted(names - {row.name for row in chosen})
        if chosen and not is_sure:
            _ask(chosen)
        with click.progressbar(
            length=len(chosen), label="releasing", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:
            done = await force_release(
                cluster, cluster, chosen, decode=decode, progress=lambda: bar.update(1)
            )
    return done, missing


async def _stop(kubeconfig: str | None, context: str, *, is_sure: bool) -> ForcedReleases:
    decode = PodRowDecoder().decode
    async with live_cluster(kubeconfig, context) as cluster:
        if not is_sure:
            _ask(await gated_pods(cluster, decode, ""), "Stop gating, and release")
        for name in await stop_gating(cluster):
            click.echo(f"deleted {name}", err=True)
        return await release_all(cluster, cluster, SYSTEM_CLOCK, decode=decode)


def _ask(rows: list[PodRow], question: str = "Release") -> None:
    places = len({row.namespace for row in rows})
    what = f"{counted(len(rows), 'pod')} in {counted(places, 'namespace')}"
    if not sys.stdin.isatty():
        raise BadInputError(f"{what} would be released; give --yes")
    click.confirm(f"{question} {what}?", abort=True, err=True)


def _say(done: ForcedReleases, missing: list[str], output: Output) -> int:
    failed = {str(key): str(error.message) for key, error in sorted(done.failed.items())}
    if output is Output.TABLE:
        click.echo(f"{counted(len(done.released), 'pod')} released")
        for name in missing:
            click.echo(f"bursar: {name}: no such pod behind the gate", err=True)
        for name, problem in failed.items():
            click.echo(f"bursar: {name}: {problem}", err=True)
    else:
        released = sorted(map(str, done.released))
        emit_document({"released": released, "failed": failed, "notGated": missing}, output)
    return NO if failed or missing else OK
