"""The cluster that a verb reads: the one kubectl would use.

In a pod without a kubeconfig this is the cluster of the pod, as its service account.
"""

import os
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.ports import ClusterError, Reader, Watcher, Writer
from bursar.app.names import SERVICE_ACCOUNT_FOLDER
from bursar.cli import options
from bursar.cli.errors.exit_codes import BadInputError

if TYPE_CHECKING:
    from bursar.adapters.kube.access import ClusterAccess
    from bursar.adapters.kube.client import KubeClient

T = TypeVar("T")

CONNECT_SECONDS: Final = 1.3
"""How long a command tries to connect. With its start, a command ends within two seconds if
nothing answers at the address. It is long enough for one lost packet to be sent again."""
SILENCE_SECONDS: Final = 1.5
"""How long a command waits for the first answer before it says so. It is a little longer than
connecting may take."""
LOOK_SECONDS: Final = 0.1


class LiveCluster(Reader, Watcher, Writer, Protocol):
    """A real cluster. Most verbs only read from it."""

    async def version(self) -> bytes:
        """What the API server says of its version."""

    async def node_summary(self, node: str) -> bytes:
        """The `/stats/summary` of a node's kubelet, through the API server."""


cluster_options: Final = options.cluster(
    "Kubeconfig of the cluster. Default: $KUBECONFIG, else ~/.kube/config, else the pod's account."
)


def named_cluster(kubeconfig: str | None, context: str) -> "ClusterAccess":
    """The access to the cluster of a kubeconfig, by default of those that kubectl would read.

    Raises `BadInputError` if the kubeconfig cannot be used.
    """
    from bursar.adapters.kube.kubeconfig.config import load_kubeconfig  # noqa: PLC0415 - imports YAML
    from bursar.adapters.kube.kubeconfig.merge import MissingKubeconfigError  # noqa: PLC0415

    paths = [kubeconfig] if kubeconfig is not None else _kubectls_kubeconfigs()
    try:
        return load_kubeconfig(paths, context=context, environment=os.environ, clock=SYSTEM_CLOCK)
    except MissingKubeconfigError:
        raise BadInputError(_without_kubeconfig(kubeconfig, paths)) from None


def _without_kubeconfig(named: str | None, paths: Sequence[str]) -> str:
    """What was looked at, and what to give instead."""
    from bursar.cli.errors.cluster import has_option  # noqa: PLC0415 - only for errors
    from bursar.cli.output.formats import printable  # noqa: PLC0415

    files = ", or read files with -f" if has_option("files") else ""
    listed = printable(", ".join(paths))
    if named is not None:
        return f"{listed}: no such file; name a kubeconfig that exists{files}"
    if os.environ.get("KUBECONFIG"):
        where = f"$KUBECONFIG names {listed}: no such file"
    else:
        where = f"$KUBECONFIG is not set, and there is no {listed}"
    return f"no kubeconfig: {where}; name one with --kubeconfig{files}"


def _kubectls_kubeconfigs() -> Sequence[str]:
    listed = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if listed:
        return listed
    from pathlib import Path  # noqa: PLC0415 - commands that read files need none

    return [str(Path.home() / ".kube" / "config")]


def kubectls_cluster(
    kubeconfig: str | None,
    context: str,
    environment: Mapping[str, str],
    *,
    account_folder: str | None = None,
) -> "ClusterAccess":
    """The access that kubectl would use. Raises `BadInputError`.

    If nothing is named and there is no kubeconfig, a process in a pod uses the pod's service
    account, whose files are in `account_folder`.
    """
    from bursar.adapters.kube.access import load_in_cluster  # noqa: PLC0415 - imports TLS

    is_named = kubeconfig is not None or context or environment.get("KUBECONFIG")
    if (
        is_named
        or not environment.get("KUBERNETES_SERVICE_HOST")
        or any(os.access(path, os.F_OK) for path in _kubectls_kubeconfigs())
    ):
        return named_cluster(kubeconfig, context)
    folder = account_folder or SERVICE_ACCOUNT_FOLDER
    return load_in_cluster(environment, clock=SYSTEM_CLOCK, folder=folder)


def kubectls_namespace(kubeconfig: str | None, context: str) -> str:
    """The namespace that kubectl would use: that of the context, else `default`."""
    return kubectls_cluster(kubeconfig, context, os.environ).namespace


@asynccontextmanager
async def live_cluster(kubeconfig: str | None, context: str) -> AsyncIterator[LiveCluster]:
    """Connect to the cluster. Raises `BadInputError` if it is not known how, or the cluster fails.

    Use it inside `answer_of`.
    """
    # Imported here, since a verb that reads files should not pay for an HTTP client.
    import asyncio  # noqa: PLC0415
    from random import SystemRandom  # noqa: PLC0415

    from bursar.adapters.kube.client import KubeClient  # noqa: PLC0415
    from bursar.adapters.kube.transport import Limits  # noqa: PLC0415
    from bursar.cli.errors.cluster import cluster_error_text  # noqa: PLC0415
    from bursar.cli.output.formats import printable  # noqa: PLC0415

    access = kubectls_cluster(kubeconfig, context, os.environ)
    place = printable(f"{access.server} (context {access.context})")
    limits = Limits(connect_seconds=CONNECT_SECONDS)
    try:
        async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom(), limits=limits) as it:
            silence = asyncio.create_task(_tell_silence(it, place))
            try:
                yield it
            finally:
                silence.cancel()
    except ClusterError as error:
        raise BadInputError(printable(cluster_error_text(place, error))) from None


async def _tell_silence(client: "KubeClient", place: str) -> None:
    """Say so if the server accepts a connection and does not answer. It may only be busy."""
    import asyncio  # noqa: PLC0415 - see live_cluster

    waited = 0.0
    while waited < SILENCE_SECONDS:
        await asyncio.sleep(LOOK_SECONDS)
        waited = waited + LOOK_SECONDS if client.is_first_answer_due else 0.0
    click.echo(f"bursar: {place}: no answer yet; waiting, Ctrl-C ends it", err=True)


def answer_of(work: Coroutine[None, None, T], *, about: str = "") -> T:
    """The result of work on a cluster. Raises `BadInputError` if the cluster fails.

    The text of the error begins with `about`.
    """
    import asyncio  # noqa: PLC0415 - see live_cluster

    from bursar.adapters.http1.command_loop import CommandLoop  # noqa: PLC0415 - imports sockets

    try:
        with asyncio.Runner(loop_factory=CommandLoop) as runner:
            return runner.run(work)
    except BadInputError as error:
        raise BadInputError(f"{about}{error}") from None
    except ValueError as error:
        from bursar.cli.output.formats import printable  # noqa: PLC0415 - agents print no tables

        problem = about or "the cluster could not be read: "
        raise BadInputError(f"{problem}{printable(str(error))}") from None
