"""The cluster that a verb reads: the one kubectl would use.

In a pod without a kubeconfig this is the cluster of the pod, as its service account.
"""

import os
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.ports import ClusterError, Reader, Watcher, Writer
from bursar.cli import options
from bursar.cli.exit_codes import BadInputError

if TYPE_CHECKING:
    from bursar.adapters.kube.access import ClusterAccess

T = TypeVar("T")


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
    from bursar.adapters.kube.config import load_kubeconfig  # noqa: PLC0415 - imports YAML

    paths = [kubeconfig] if kubeconfig is not None else _kubectls_kubeconfigs()
    return load_kubeconfig(paths, context=context, environment=os.environ, clock=SYSTEM_CLOCK)


def _kubectls_kubeconfigs() -> Sequence[str]:
    listed = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return listed or [str(Path.home() / ".kube" / "config")]


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
    from bursar.adapters.kube.access import (  # noqa: PLC0415 - imports TLS
        SERVICE_ACCOUNT_FOLDER,
        load_in_cluster,
    )

    is_named = kubeconfig is not None or context or environment.get("KUBECONFIG")
    if (
        is_named
        or not environment.get("KUBERNETES_SERVICE_HOST")
        or any(Path(path).exists() for path in _kubectls_kubeconfigs())
    ):
        return named_cluster(kubeconfig, context)
    folder = account_folder or SERVICE_ACCOUNT_FOLDER
    return load_in_cluster(environment, clock=SYSTEM_CLOCK, folder=folder)


def kubectls_namespace(kubeconfig: str | None, context: str) -> str:
    """The namespace that kubectl would use: that of the context, else `default`."""
    return kubectls_cluster(kubeconfig, context, os.environ).namespace


@asynccontextmanager
async def live_cluster(kubeconfig: str | None, context: str) -> AsyncIterator[LiveCluster]:
    """Connect to the cluster. Raises `BadInputError` if it is not known how."""
    # Imported here, since a verb that reads files should not pay for an HTTP client.
    from random import SystemRandom  # noqa: PLC0415

    from bursar.adapters.kube.client import KubeClient  # noqa: PLC0415

    access = kubectls_cluster(kubeconfig, context, os.environ)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom()) as client:
        yield client


def answer_of(
    work: Coroutine[None, None, T], *, about: str = "the cluster could not be read: "
) -> T:
    """The result of work on a cluster. Raises `BadInputError` if the cluster fails."""
    import asyncio  # noqa: PLC0415 - see live_cluster

    try:
        return asyncio.run(work)
    except (ClusterError, ValueError) as error:
        from bursar.cli.output.formats import printable  # noqa: PLC0415 - agents print no tables

        raise BadInputError(f"{about}{printable(str(error))}") from None
