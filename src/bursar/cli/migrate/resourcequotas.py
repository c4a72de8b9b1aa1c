"""`bursar migrate resourcequotas`: native quotas as quotas that hold pods at the gate."""

import json
import sys
from collections.abc import Sequence
from typing import Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import read_objects_as_written
from bursar.app.migration.quota_import.native_quotas import (
    BOTH_COUNT,
    Imported,
    Original,
    Surroundings,
    imported,
)
from bursar.app.migration.quota_import.run import (
    Import,
    Outcome,
    Result,
    cluster_original,
    native_original,
    read_originals,
)
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import answer_of, cluster_options, live_cluster
from bursar.cli.options import duration, files, flag, shown
from bursar.cli.output.formats import printable
from bursar.cli.reading.files_or_cluster import require_files_or_cluster
from bursar.wire.documents.json_writing import json_text
from bursar.wire.documents.yaml_writing import yaml_stream

READERS: Final = {
    ("v1", "ResourceQuota"): native_original,
    ("quota.openshift.io/v1", "ClusterResourceQuota"): cluster_original,
}


@click.command(short_help="Import ResourceQuotas and OpenShift's ClusterResourceQuotas.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-n", "--namespace", default="", help="Only this namespace. Default: all.")
@files("Read manifests instead of a cluster: files, folders, or -. Repeatable.")
@flag("--apply", "Create the quotas in the cluster.")
@flag("--delete-originals", "With --apply: delete each original whose new quota is in force.")
@flag("--yes", "Do not ask before originals are deleted.")
@duration("--timeout", "60s", "How long to wait until a new quota is in force.")
@shown("--bursar-namespace", "aaq", "Namespace of Bursar, whose pods are never gated.")
@cluster_options
@shown("-o --output", "yaml", "Format of the manifests.", type=click.Choice(["json", "yaml"]))
def resourcequotas(  # noqa: PLR0913 - one parameter for each option
    *,
    names: tuple[str, ...],
    namespace: str,
    files: tuple[str, ...],
    apply: bool,
    delete_originals: bool,
    yes: bool,
    timeout: float,
    bursar_namespace: str,
    kubeconfig: str | None,
    context: str,
    output: str,
) -> int:
    """Print native quotas as quotas of Bursar: YAML for kubectl apply.

    A ResourceQuota becomes an ApplicationAwareResourceQuota, a ClusterResourceQuota
    an ApplicationAwareClusterResourceQuota. What cannot be carried over is printed
    on standard error. The originals stay, and both count until you delete them.
    """
    if delete_originals and not apply:
        raise click.UsageError("--delete-originals needs --apply")
    require_files_or_cluster(files, kubeconfig, context)
    if files and apply:
        raise click.UsageError("-f prints manifests; --apply imports the quotas of a cluster")
    chosen = frozenset(names)
    if files:
        around = Surroundings(home=bursar_namespace)
        quotas = _selected(_read_files(files), around, chosen, namespace)
    else:
        found, around = answer_of(_read(kubeconfig, context, namespace, bursar_namespace))
        quotas = _selected(found, around, chosen, namespace)
    _tell(quotas)
    if not apply:
        _print(quotas, output)
        return OK
    if delete_originals and not yes:
        _ask(quotas)
    work = _apply(quotas, kubeconfig, context, deletes=delete_originals, seconds=timeout)
    results = answer_of(work, about="the import stopped: ")
    is_bad = any(each.outcome in {Outcome.FAILED, Outcome.DIFFERS} for each in results)
    return NO if is_bad or any(each.why_kept for each in results) else OK


def _selected(
    found: Sequence[Original], around: Surroundings, names: frozenset[str], namespace: str
) -> list[Imported]:
    chosen = [
        each
        for each in found
        if (not names or each.metadata.name in names)
        and (not namespace or each.metadata.namespace == namespace)
    ]
    missing = sorted(names - {each.metadata.name for each in chosen})
    if missing:
        raise BadInputError(f"no quota is named {printable(', '.join(missing))}")
    return [imported(each, around) for each in chosen]


def _read_files(files: Sequence[str]) -> list[Original]:
    found = []
    for body, origin in read_objects_as_written(files, sys.stdin.buffer):
        read = READERS.get((str(body.get("apiVersion")), str(body.get("kind"))))
        if read is None:
            continue
        try:
            found.append(read(json.dumps(body).encode()))
        except ValueError as error:
            raise BadInputError(f"{origin}: {printable(str(error))}") from None
    return found


async def _read(
    kubeconfig: str | None, context: str, namespace: str, home: str
) -> tuple[list[Original], Surroundings]:
    async with live_cluster(kubeconfig, context) as cluster:
        return await read_originals(cluster, namespace, home)


async def _apply(
    quotas: Sequence[Imported],
    kubeconfig: str | None,
    context: str,
    *,
    deletes: bool,
    seconds: float,
) -> list[Result]:
    async with live_cluster(kubeconfig, context) as cluster:
        work = Import(
            cluster=cluster,
            clock=SYSTEM_CLOCK,
            deletes=deletes,
            timeout_seconds=seconds,
            on_result=_report,
        )
        return await work.run(quotas)


def _report(result: Result) -> None:
    name = f"{result.quota.resource.kind} {result.quota.original.key}"
    problem = f": {result.problem}" if result.problem else ""
    click.echo(printable(f"{name}: {result.outcome.value}{problem}"))
    if result.is_original_deleted:
        click.echo(printable(f"{result.quota.original}: deleted"))
    elif result.why_kept:
        click.echo(printable(f"{result.quota.original}: kept, because {result.why_kept}"))


def _tell(quotas: Sequence[Imported]) -> None:
    for each in quotas:
        verb = "is not imported: " if each.manifest is None else ""
        for note in each.notes:
            click.echo(f"bursar: {printable(f'{each.original}: {verb}{note}')}", err=True)
    if any(each.manifest is not None for each in quotas):
        click.echo(f"bursar: {BOTH_COUNT}", err=True)


def _ask(quotas: Sequence[Imported]) -> None:
    count = sum(each.is_replaceable for each in quotas)
    if not sys.stdin.isatty():
        raise BadInputError(f"{count} quotas would be deleted; give --yes")
    click.confirm(f"Delete up to {count} originals after the import?", abort=True, err=True)


def _print(quotas: Sequence[Imported], output: str) -> None:
    documents = [each.manifest for each in quotas if each.manifest is not None]
    if output == "json":
        click.echo(json_text({"apiVersion": "v1", "kind": "List", "items": documents}))
    elif documents:
        click.echo(yaml_stream(documents), nl=False)
    else:
        click.echo("bursar: there is no quota to import", err=True)
