"""`bursar scheduler-config`: the configuration that makes kube-scheduler call the extender."""

from collections.abc import Sequence
from typing import Final

import click

from bursar.app.extender.names import EXTENDER
from bursar.app.extender.report import read_pools
from bursar.app.extender.scheduler_config import (
    SchedulerConfig,
    scheduler_configuration,
    service_url,
)
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.live_cluster import answer_of, live_cluster
from bursar.cli.options import shown
from bursar.cli.output.formats import Output, emit_document, printable
from bursar.cli.pools.source import objects_of_files
from bursar.cli.reading.files_or_cluster import require_files_or_cluster, source_options
from bursar.core.model.names import is_extended
from bursar.core.model.pod import DEFAULT_SCHEDULER
from bursar.core.pools.pool import Pool

FOLDER: Final = "/etc/kubernetes/pki/bursar-extender"


@click.command(short_help="Print the KubeSchedulerConfiguration that calls the extender.")
@source_options
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME",
    help="Extended resource that the extender manages. Repeatable. Default: those of all "
    "ClusterResources of the files or the cluster.",
)
@shown("-n --namespace", "aaq", "Namespace of the installation.")
@click.option(
    "--url",
    default="",
    help="URL of the extender. Default: that of its Service. A scheduler on the host's network "
    "may need the Service's cluster IP.",
)
@shown("--ca-file", f"{FOLDER}/ca.crt", "CA of the extender's certificate, where the scheduler is.")
@shown("--cert-file", f"{FOLDER}/tls.crt", "The scheduler's client certificate.")
@shown("--key-file", f"{FOLDER}/tls.key", "The key of the scheduler's client certificate.")
@shown(
    "--scheduler-kubeconfig",
    "/etc/kubernetes/scheduler.conf",
    "Kubeconfig of the scheduler; empty to leave it out.",
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help=f"Scheduler name of a profile. Repeatable. Default: {DEFAULT_SCHEDULER}.",
)
@shown("-o --output", "yaml", "Format of the output.", type=click.Choice(["yaml", "json"]))
def scheduler_config(  # noqa: PLR0913 - one parameter for each option
    *,
    files: Sequence[str],
    kubeconfig: str | None,
    context: str,
    resources: tuple[str, ...],
    namespace: str,
    url: str,
    ca_file: str,
    cert_file: str,
    key_file: str,
    scheduler_kubeconfig: str,
    scheduler_names: tuple[str, ...],
    output: str,
) -> int:
    """Print a KubeSchedulerConfiguration for kube-scheduler --config. Nothing is changed.

    The scheduler asks the extender only about pods that request one of the
    managed resources, and reads its configuration once, when it starts. So
    print it again, and restart the scheduler, after a ClusterResource with a
    new resource was created.
    """
    names = resources or _names(files, kubeconfig, context)
    for name in names:
        if not is_extended(name):
            raise BadInputError(f"{printable(name)}: not the name of an extended resource")
    if not names:
        raise BadInputError("no ClusterResource, and no --resource")
    if url and not url.startswith("https://"):
        raise click.UsageError("--url must start with https://")
    document = scheduler_configuration(
        SchedulerConfig(
            url=url or service_url(namespace),
            resources=tuple(names),
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            # The certificate is for the name of the Service, whatever the URL is.
            server_name=f"{EXTENDER}.{namespace}.svc" if url else "",
            kubeconfig=scheduler_kubeconfig,
            scheduler_names=scheduler_names or (DEFAULT_SCHEDULER,),
        )
    )
    emit_document(document, Output(output))
    return OK


def _names(files: Sequence[str], kubeconfig: str | None, context: str) -> list[str]:
    require_files_or_cluster(files, kubeconfig, context)
    pools = objects_of_files(files).pools if files else answer_of(_read(kubeconfig, context))
    return sorted({pool.resource for pool in pools})


async def _read(kubeconfig: str | None, context: str) -> list[Pool]:
    async with live_cluster(kubeconfig, context) as cluster:
        return await read_pools(cluster)
