"""The cluster that a verb reads: the one kubectl would use."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any, Protocol

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.ports import Reader, Writer
from bursar.cli.exit_codes import BadInputError


class LiveCluster(Reader, Writer, Protocol):
    """A real cluster. Most verbs only read from it."""


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig` and `--context`; the command receives a `str | None` and a `str`."""
    with_context = click.option(
        "--context",
        default="",
        metavar="NAME",
        help="Context of the kubeconfig to use. Default: its current context.",
    )(command)
    return click.option(
        "--kubeconfig",
        type=click.Path(),
        help="Kubeconfig of the cluster. Default: $KUBECONFIG, else ~/.kube/config.",
    )(with_context)


def kubeconfigs(named: str | None) -> Sequence[str]:
    """The named kubeconfig, else those that kubectl would read."""
    if named is not None:
        return [named]
    listed = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return listed or [str(Path.home() / ".kube" / "config")]


@asynccontextmanager
async def live_cluster(kubeconfig: str | None, context: str) -> AsyncIterator[LiveCluster]:
    """Connect to the cluster. Raises `BadInputError` if the kubeconfig cannot be used."""
    # Imported here, since a verb that reads files should not pay for an HTTP client.
    from bursar.adapters.client_auth.config_error import ConfigError  # noqa: PLC0415
    from bursar.adapters.kube.client import KubeClient  # noqa: PLC0415
    from bursar.adapters.kube.config import load_kubeconfig  # noqa: PLC0415

    try:
        access = load_kubeconfig(
            kubeconfigs(kubeconfig), context=context, environment=os.environ, clock=SYSTEM_CLOCK
        )
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom()) as client:
        yield client
