"""`bursar version`: the version of this program, and of a cluster if one is named."""

import platform

import click

from bursar import __version__
from bursar.cli.errors.exit_codes import OK
from bursar.cli.live_cluster import answer_of, live_cluster
from bursar.cli.options import cluster
from bursar.cli.output.formats import Output, emit_document, output_option, printable


@click.command(short_help="Show the version of Bursar, Python and a cluster.")
@cluster("Kubeconfig of the cluster whose version to show as well.")
@output_option
def version(*, kubeconfig: str | None, context: str, output: Output) -> int:
    """Show the version of Bursar, and of the Python that runs it.

    No cluster is contacted, unless --kubeconfig or --context names one: then the version of its
    API server is shown as well.
    """
    versions = {"bursar": __version__, "python": platform.python_version()}
    if kubeconfig is not None or context:
        versions["server"] = answer_of(_server_version(kubeconfig, context))
    if output is Output.TABLE:
        for name, text in versions.items():
            click.echo(f"{name} {printable(text)}")
    else:
        emit_document(versions, output)
    return OK


async def _server_version(kubeconfig: str | None, context: str) -> str:
    from bursar.wire.cluster.server_version import decode_server_version  # noqa: PLC0415

    async with live_cluster(kubeconfig, context) as reader:
        return decode_server_version(await reader.version()).text
