"""Which cluster `bursar up` looks at: the embedded one, brought to life here, or a real one."""

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import bursar
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import ManifestError, read_objects_as_written
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.config import ConfigError, load_kubeconfig
from bursar.adapters.memory.manifests import UnknownKindError, load_manifests
from bursar.adapters.memory.simulation.life import Simulation
from bursar.adapters.memory.simulation.nodes import SIMULATED
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.observed import Cluster
from bursar.app.ports import ClusterError, Json
from bursar.cli.ending import BadInputError

EXAMPLE: Final = "examples/cluster"

JsonObject = Mapping[str, Json]


@asynccontextmanager
async def embedded_cluster(files: Sequence[str], seed: int) -> AsyncIterator[Cluster]:
    """A cluster in this process, started with what the files hold, living until it is left."""
    try:
        written = read_objects_as_written(files or [_example_folder()], sys.stdin.buffer)
    except ManifestError as error:
        raise BadInputError(str(error)) from None
    # The seed makes runs repeatable; nothing here is secret.
    cluster = MemoryCluster(SYSTEM_CLOCK, source=Random(seed))  # noqa: S311
    try:
        await load_manifests(cluster, [_simulated(body) for body, _ in written])
    except (UnknownKindError, ClusterError) as error:
        raise BadInputError(f"{', '.join(files) or EXAMPLE}: {error}") from None
    async with Simulation(cluster, SYSTEM_CLOCK, Random(seed)):  # noqa: S311
        yield cluster


@asynccontextmanager
async def real_cluster(kubeconfigs: Sequence[str], context: str) -> AsyncIterator[Cluster]:
    """The cluster of a kubeconfig, to be looked at."""
    try:
        access = load_kubeconfig(kubeconfigs, context=context)
    except ConfigError as error:
        raise BadInputError(str(error)) from None
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom()) as client:
        yield client


def _example_folder() -> str:
    """Beside the package in a checkout, inside it where it was installed."""
    package = Path(bursar.__file__).parent
    for root in (package.parents[1], package):
        if (root / EXAMPLE).is_dir():
            return str(root / EXAMPLE)
    raise BadInputError("the example cluster is not installed; give manifests with -f")


def _simulated(body: JsonObject) -> JsonObject:
    """A node of the embedded cluster is a simulated one, whatever its manifest says."""
    metadata = body.get("metadata")
    if body.get("kind") != "Node" or not isinstance(metadata, Mapping):
        return body
    annotations = metadata.get("annotations")
    kept = annotations if isinstance(annotations, Mapping) else {}
    return {**body, "metadata": {**metadata, "annotations": {**kept, SIMULATED: "true"}}}
