"""Which cluster a person's verb is about: the one kubectl would talk to."""

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
    """A cluster that answers. Most verbs only read."""


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig` and `--context`; the command receives a `str | None` and a `str`."""
    with_context = click.option(
        "--context", default="", help="Look at this context of your kubeconfig."
    )(command)
    return click.option(
        "--kubeconfig",
        type=click.Path(),
        help="Look at the cluster of this file. Default: where kubectl would look.",
    )(with_context)


def kubeconfigs(named: str | None) -> Sequence[str]:
    """The file that was named, else where kubectl would look."""
    if named is not None:
        return [named]
    listed = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return listed or [str(Path.home() / ".kube" / "config")]


@asynccontextmanager
async def live_cluster(kubeconfig: str | None, context: str) -> AsyncIterator[LiveCluster]:
    """The cluster. Raises `BadInputError` if it is not known where that is."""
    # Only whoever talks to a cluster should wait for an HTTP client to be imported.
    from bursar.adapters.kube.client import KubeClient  # noqa: PLC0415
    from bursar.adapters.kube.config import load_kubeconfig  # noqa: PLC0415
    from bursar.adapters.kube.config_error import ConfigError  # noqa: PLC0415

    try:
        access = load_kubeconfig(kubeconfigs(kubeconfig), context=context)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom()) as client:
        yield client
