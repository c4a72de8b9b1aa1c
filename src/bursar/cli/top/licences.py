"""`bursar top licences`: cluster-level resources, who holds them and who waits."""

from collections.abc import Sequence

import click

from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.app.extender.report import Holding, PoolLine, pool_lines
from bursar.cli.errors.exit_codes import OK
from bursar.cli.options import flag
from bursar.cli.output.formats import printable
from bursar.cli.output.listing import (
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.pools.source import pool_objects_of
from bursar.cli.reading.reading import Objects, Reading, reading_all_options

HOLDING_COLUMNS = tuple(map(Column, ("USED", "PODS", "WAITING", "WAITING PODS")))


@click.command(short_help="Show cluster-level resources such as licences.")
@reading_all_options
@flag("--by-namespace", "Show what the pods of each namespace hold and wait for.")
@format_options
def licences(*, reading: Reading, by_namespace: bool, format: Format) -> int:
    """Show the capacity of ClusterResources, what pods hold of it, and what waits.

    Used is what pods with a node request; ended pods do not count. A pod without a node
    waits, unless it is behind a scheduling gate. -l selects ClusterResources. With
    -n, only rows of --by-namespace about that namespace are shown.
    """
    printer = ListingPrinter(format, is_watching=reading.is_watching)

    def show(objects: Objects) -> int:
        lines = [
            line
            for line in pool_lines(pool_objects_of(objects.manifests, is_live=reading.is_live))
            if objects.is_selected(CLUSTER_RESOURCES.kind, "", line.state.pool.name)
        ]
        if by_namespace:
            printer.show(_by_namespace(lines, reading.namespace or ""))
        else:
            printer.show(_by_pool(lines))
            _tell_problems(lines)
        return OK

    wanted = [Wanted(resource=each) for each in (CLUSTER_RESOURCES, NAMESPACES, PODS)]
    return reading.show(wanted, show, kept=(CLUSTER_RESOURCES,))


def _by_pool(lines: Sequence[PoolLine]) -> Listing:
    return Listing(
        columns=(*map(Column, ("NAME", "RESOURCE", "CAPACITY", "FREE")), *HOLDING_COLUMNS),
        rows=tuple(
            Row(
                cells=(
                    line.state.pool.name,
                    line.state.pool.resource,
                    str(line.state.pool.capacity),
                    str(line.free),
                    *_cells(line.total),
                ),
                document=_document(line),
                name=_name(line),
            )
            for line in lines
        ),
        nothing="no ClusterResource",
        wrapped=lambda documents: {"clusterResources": documents},
    )


def _by_namespace(lines: Sequence[PoolLine], shown_namespace: str) -> Listing:
    return Listing(
        columns=(*map(Column, ("NAME", "NAMESPACE")), *HOLDING_COLUMNS),
        rows=tuple(
            Row(
                cells=(line.state.pool.name, namespace, *_cells(each)),
                document=None,
                name=_name(line),
            )
            for line in lines
            for namespace, each in line.namespaces.items()
            if shown_namespace in {"", namespace}
        ),
        nothing="no pod requests a ClusterResource" if lines else "no ClusterResource",
        # A pool's document has its namespaces.
        document={"clusterResources": [_document(line) for line in lines]},
    )


def _tell_problems(lines: Sequence[PoolLine]) -> None:
    for line in lines:
        if line.problem:
            name = printable(line.state.pool.name)
            click.echo(f"bursar: {name} is not in use: {printable(line.problem)}", err=True)


def _name(line: PoolLine) -> str:
    return f"clusterresource/{line.state.pool.name}"


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
                "namespace": namespace,
                "maximum": str(account.hard_quantity),
                "used": str(account.used),
            }
            for (name, namespace), account in sorted(state.shares.items())
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
