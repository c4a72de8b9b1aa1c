"""`bursar up`: the embedded cluster with its simulation and controller, or a real cluster."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import click

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.crds import crd_documents
from bursar.adapters.files.manifests import read_objects_as_written
from bursar.adapters.files.packaged import packaged
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.memory.manifests import (
    UnknownKindError,
    is_for_no_cluster,
    load_manifests,
)
from bursar.adapters.memory.quota_admission import QuotaAdmission
from bursar.adapters.memory.quotas import check_quota
from bursar.adapters.memory.simulation.nodes import SIMULATED
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.adapters.memory.snapshot_file import SavedStateError, load, save
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.observe import Cluster
from bursar.app.cluster.observe_kinds import observe_nodes, observe_pods
from bursar.app.cluster.ports import ClusterError, Json
from bursar.app.cluster.time_limit import end
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.counting.settings import CountingSettings
from bursar.app.names import DEFAULT_NAMESPACE
from bursar.app.quota.read_model import NO_BOOKS, BooksView, view_of
from bursar.app.reports.overview import Overview, overview
from bursar.cli.exit_codes import BadInputError
from bursar.cli.output.formats import printable
from bursar.cli.processes.process_options import ClusterChoice
from bursar.cli.processes.up import UpSettings
from bursar.core.quota.targeting import Targeting
from bursar.entry.counting import open_counting
from bursar.entry.log_output import warnings_as_text
from bursar.entry.process import cluster_access

EXAMPLE: Final = "examples/cluster"
REFRESH_SECONDS: Final = 0.25
SYNC_SECONDS_MAX: Final = 30

Show = Callable[[Overview], None]

JsonObject = Mapping[str, Json]

_OWN_NAMESPACE: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": DEFAULT_NAMESPACE},
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A cluster to look at, and the books that are kept of it, if they are kept here."""

    cluster: Cluster
    controller: Controller | None = None

    def view(self) -> BooksView:
        term = None if self.controller is None else self.controller.term
        if term is None:
            return NO_BOOKS
        sources = term.sources.books
        return view_of(term.books, sources.explain, sources.counter)


def run_up(settings: UpSettings, show: Show) -> Overview:
    """Show the cluster until SIGTERM, SIGINT or the end of the given time; return its last state.

    Raises `BadInputError` and `ClusterError`.
    """
    choice = settings.cluster
    cluster = (
        _real_cluster(choice)
        if choice.is_named
        else embedded_cluster(
            settings.files, settings.seed, settings.state, counting=settings.counting
        )
    )
    with warnings_as_text():
        return asyncio.run(_watch(cluster, settings.seconds, show))


async def _watch(
    opening: AbstractAsyncContextManager[Shown], seconds: float | None, show: Show
) -> Overview:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if seconds is not None:
        loop.call_later(seconds, ended.set)
    async with opening as shown:
        return await _follow(shown, ended, show)


async def _follow(shown: Shown, ended: asyncio.Event, show: Show) -> Overview:
    """Keep looking until told to end; the last look is the answer."""
    pods = observe_pods(shown.cluster, SYSTEM_CLOCK, SystemRandom())
    nodes = observe_nodes(shown.cluster, SYSTEM_CLOCK, SystemRandom())
    tasks = [asyncio.create_task(informer.run()) for informer in (pods, nodes)]

    def look() -> Overview:
        return overview(
            (each.item for each in nodes.snapshot().objects()),
            (each.item for each in pods.snapshot().objects()),
            shown.view(),
        )

    try:
        async with asyncio.timeout(SYNC_SECONDS_MAX):
            await asyncio.gather(pods.wait_synced(), nodes.wait_synced())
        while not ended.is_set():
            show(look())
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), REFRESH_SECONDS)
        return look()
    except TimeoutError:
        cause = pods.last_error or nodes.last_error or "no answer"
        raise BadInputError(f"the cluster could not be read: {cause}") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def embedded_cluster(
    files: Sequence[str],
    seed: int,
    state: Path | None = None,
    *,
    counting: CountingSettings,
) -> AsyncIterator[Shown]:
    """A cluster in this process, living until it is left.

    It starts with what the state file holds and is kept there in the end. Without such a
    file yet, or without a state at all, it starts with the manifests.
    """
    # The seed makes runs repeatable; nothing here is secret.
    source, luck = Random(seed), Random(seed)  # noqa: S311
    targeting = Targeting(own_namespace=DEFAULT_NAMESPACE)
    keeper = QuotaAdmission(
        targeting,
        decode=lambda body: controller.decode_row(body),  # noqa: PLW0108 - there is none yet
    )
    cluster = MemoryCluster(
        SYSTEM_CLOCK,
        source=source,
        mutating=(keeper.gate,),
        validating=(keeper.check_resize, check_quota),
    )
    keeper.reader = cluster
    if _load_state(cluster, state):
        # From where it began, the seed would give the names and uids that are there already.
        source.seed(f"{seed} {cluster.revision}")
        luck.seed(f"{seed} {cluster.revision}")
    else:
        await _load_files(cluster, files)
    controller = _controller(cluster, luck, targeting, counting)
    keeper.find_resizes = lambda: controller.resize_service
    keeper.find_full_queues = lambda: controller.full_queues
    try:
        async with Simulation(cluster, SYSTEM_CLOCK):
            working = asyncio.create_task(controller.run())
            try:
                yield Shown(cluster, controller)
            finally:
                await end(working)
    finally:
        _save_state(cluster, state)


def _controller(
    cluster: MemoryCluster, luck: Random, targeting: Targeting, counting: CountingSettings
) -> Controller:
    return Controller(
        cluster,
        SYSTEM_CLOCK,
        luck,
        settings=ControllerSettings(namespace=DEFAULT_NAMESPACE, identity="bursar-up"),
        open_sources=lambda: term_sources(
            cluster, SYSTEM_CLOCK, luck, targeting, counting=open_counting(counting)
        ),
    )


async def _load_files(cluster: MemoryCluster, files: Sequence[str]) -> None:
    written = read_objects_as_written(files or [packaged(EXAMPLE)], sys.stdin.buffer)
    await load_manifests(cluster, [*crd_documents(), _OWN_NAMESPACE])
    try:
        await load_manifests(cluster, _loaded(body for body, _ in written))
    except (UnknownKindError, ClusterError) as error:
        raise BadInputError(f"{', '.join(files) or EXAMPLE}: {error}") from None


def _loaded(bodies: Iterable[JsonObject]) -> list[JsonObject]:
    loaded = []
    for body in bodies:
        if is_for_no_cluster(body):
            what = printable(str(body.get("kind")))
            click.echo(f"bursar up: left out: {what}, which is no object of a cluster", err=True)
        else:
            loaded.append(_simulated(body))
    return loaded


def _load_state(cluster: MemoryCluster, state: Path | None) -> bool:
    """Whether there was a cluster to go on with."""
    if state is None:
        return False
    _require_place_for(state)
    if not state.exists():
        return False
    load(cluster, state)
    return True


def _save_state(cluster: MemoryCluster, state: Path | None) -> None:
    try:
        if state is not None:
            save(cluster, state)
    except SavedStateError as error:
        raise BadInputError(f"the cluster could not be saved: {error}") from None


def _require_place_for(state: Path) -> None:
    """Say now, and not after an hour, that the state cannot be saved."""
    folder = state.resolve().parent
    if not folder.is_dir():
        raise BadInputError(f"{state}: the folder does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(f"{state}: nothing can be written to the folder")


@asynccontextmanager
async def _real_cluster(choice: ClusterChoice) -> AsyncIterator[Shown]:
    """The cluster of a kubeconfig, to be looked at."""
    access = cluster_access(choice)
    async with KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom()) as client:
        yield Shown(client)


def _simulated(body: JsonObject) -> JsonObject:
    """A node of the embedded cluster is a simulated one, whatever its manifest says."""
    metadata = body.get("metadata")
    if body.get("kind") != "Node" or not isinstance(metadata, Mapping):
        return body
    annotations = metadata.get("annotations")
    kept = annotations if isinstance(annotations, Mapping) else {}
    return {**body, "metadata": {**metadata, "annotations": {**kept, SIMULATED: "true"}}}
