"""`bursar top licences`: cluster-level resources, who holds them and who waits."""

from collections.abc import Sequence

import click

from bursar.app.extender.report import Holding, PoolLine, pool_lines, read_objects
from bursar.cli.exit_codes import OK
from bursar.cli.live_cluster import answer_of, live_cluster
from bursar.cli.options import flag
from bursar.cli.output.formats import Output, emit_document, emit_table, output_option, printable
from bursar.cli.pools.source import objects_of_files
from bursar.cli.quota.source import require_files_or_cluster, source_options


@click.command(short_help="Show cluster-level resources such as licences.")
@source_options
@flag("--by-namespace", "Show what the pods of each namespace hold and wait for.")
@output_option
def licences(
    *,
    files: Sequence[str],
    kubeconfig: str | None,
    context: str,
    by_namespace: bool,
    output: Output,
) -> int:
    """Show the capacity of ClusterResources, what pods hold of it, and what waits.

    Used is what pods with a node request that have not ended. A pod without a node
    waits, unless it is behind a scheduling gate. From files, or from the cluster
    kubectl would talk to.
    """
    require_files_or_cluster(files, kubeconfig, context)
    if files:
        lines = pool_lines(objects_of_files(files))
    else:
        lines = answer_of(_lines_of_cluster(kubeconfig, context))
    if output is not Output.TABLE:
        emit_document({"clusterResources": [_document(line) for line in lines]}, output)
    elif not lines:
        click.echo("bursar: no ClusterResource", err=True)
    elif by_namespace:
        columns = ("NAME", "NAMESPACE", "USED", "PODS", "WAITING", "WAITING PODS")
        emit_table(
            columns,
            [
                (line.state.pool.name, name, *_cells(each))
                for line in lines
                for name, each in line.namespaces.items()
            ],
        )
    else:
        _show(lines)
    return OK


async def _lines_of_cluster(kubeconfig: str | None, context: str) -> list[PoolLine]:
    async with live_cluster(kubeconfig, context) as cluster:
        return pool_lines(await read_objects(cluster))


def _show(lines: Sequence[PoolLine]) -> None:
    columns = (
        *("NAME", "RESOURCE", "CAPACITY", "FREE"),
        *("USED", "PODS", "WAITING", "WAITING PODS"),
    )
    emit_table(
        columns,
        [
            (
                line.state.pool.name,
                line.state.pool.resource,
                str(line.state.pool.capacity),
                str(line.free),
                *_cells(line.total),
            )
            for line in lines
        ],
    )
    for line in lines:
        if line.problem:
            name = printable(line.state.pool.name)
            click.echo(f"bursar: {name} is not in use: {printable(line.problem)}", err=True)


def _cells(holding: Holding) -> tuple[str, str, str, str]:
    return (
        str(holding.used),
        str(holding.pods),
        str(holding.waiting),
        str(holding.waiting_pods),
    )


def _document(line: PoolLine) -> dict[str, object]:
    state = line.state
    return {
        "name": state.pool.name,
        "resource": state.pool.resource,
        "capacity": str(state.pool.capacity),
        "free": str(line.free),
        **_holding(line.total),
        "problem": line.problem,
        "shares": [
            {
                "name": name,
                "namespace": place,
                "maximum": str(account.hard_quantity),
                "used": str(account.used),
            }
            for (name, place), account in sorted(state.shares.items())
        ],
        "namespaces": [
            {"namespace": name, **_holding(each)} for name, each in line.namespaces.items()
        ],
    }


def _holding(holding: Holding) -> dict[str, object]:
    return {
        "used": str(holding.used),
        "pods": holding.pods,
        "waiting": str(holding.waiting),
        "waitingPods": holding.waiting_pods,
    }
