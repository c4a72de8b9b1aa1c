"""The embedded cluster of `bursar up`: objects, simulation, admission and controller."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.crds import crd_documents
from bursar.adapters.files.manifests import read_objects_as_written
from bursar.adapters.files.packaged import packaged
from bursar.adapters.memory.manifests import (
    UnknownKindError,
    is_for_no_cluster,
    known_documents,
    load_manifests,
)
from bursar.adapters.memory.plugins.limits import cluster_with_limits
from bursar.adapters.memory.plugins.peer_pods import rewrite_peer_pods
from bursar.adapters.memory.quota_admission import QuotaAdmission
from bursar.adapters.memory.quotas import check_quota
from bursar.adapters.memory.simulation.nodes import SIMULATED
from bursar.adapters.memory.simulation.simulation import Simulation
from bursar.adapters.memory.snapshot_file import SavedStateError, load, save
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.ports import ClusterError, ForbiddenError, Json
from bursar.app.cluster.time_limit import end
from bursar.app.controller.controller import Controller, ControllerSettings
from bursar.app.controller.sources import term_sources
from bursar.app.counting.settings import CountingSettings
from bursar.app.names import OWN_NAMESPACE
from bursar.app.quota.views.read_model import NO_BOOKS, BooksView, view_of
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.output.formats import printable
from bursar.cli.up.start_line import print_line, show_progress_line
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.quota.targeting import Targeting
from bursar.entry.counting import open_counting
from bursar.entry.up.watched_cluster import ShownCluster

EXAMPLE: Final = "examples/cluster"

OBJECTS_PER_REPORT: Final = 250
"""Objects after which the progress of loading is shown again."""

JsonObject = Mapping[str, Json]

_OWN_NAMESPACE_MANIFEST: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": OWN_NAMESPACE},
}


@asynccontextmanager
async def embedded_cluster(
    files: Sequence[str],
    seed: int,
    state: Path | None = None,
    *,
    counting: CountingSettings,
) -> AsyncIterator[ShownCluster]:
    """Run a cluster in this process until the context ends.

    It starts with the objects of the state file, and is saved to it at the end. If the file does
    not exist yet, or no state file is given, it starts with the manifests.
    """
    # The seed makes runs repeatable; nothing here is secret.
    source, luck = Random(seed), Random(seed)  # noqa: S311
    targeting = Targeting(own_namespace=OWN_NAMESPACE)
    keeper = QuotaAdmission(
        targeting,
        decode=lambda body: controller.decode_row(body),  # noqa: PLW0108 - there is none yet
    )
    cluster = cluster_with_limits(
        SYSTEM_CLOCK,
        source=source,
        mutating=(rewrite_peer_pods(PeerPodSettings()), keeper.gate),
        validating=(keeper.check_resize, check_quota),
    )
    keeper.reader = cluster
    if _load_state(cluster, state):
        # The bare seed would generate names and uids that saved objects have already.
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
                yield ShownCluster(cluster, lambda: _view(controller))
            finally:
                await end(working)
    finally:
        _save_state(cluster, state)


def _view(controller: Controller) -> BooksView:
    term = controller.term
    if term is None:
        return NO_BOOKS
    sources = term.sources.books
    return view_of(term.books, sources.explain, sources.counter)


def _controller(
    cluster: MemoryCluster, luck: Random, targeting: Targeting, counting: CountingSettings
) -> Controller:
    return Controller(
        cluster,
        SYSTEM_CLOCK,
        luck,
        settings=ControllerSettings(namespace=OWN_NAMESPACE, identity="bursar-up"),
        open_sources=lambda: term_sources(
            cluster, SYSTEM_CLOCK, luck, targeting, counting=open_counting(counting)
        ),
    )


async def _load_files(cluster: MemoryCluster, files: Sequence[str]) -> None:
    show_progress_line("reading the manifests")
    written = read_objects_as_written(files or [packaged(EXAMPLE)], sys.stdin.buffer)
    await load_manifests(cluster, [*crd_documents(), _OWN_NAMESPACE_MANIFEST])
    try:
        known, others = known_documents(cluster, _loaded(body for body, _ in written))
        _say_passed_over(others)
        await load_manifests(
            cluster,
            map(_simulated, known),
            _say_refused,
            lambda done: _report(done, len(known)),
        )
    except (UnknownKindError, ClusterError) as error:
        raise BadInputError(f"{', '.join(files) or EXAMPLE}: {error}") from None


def _report(done: int, of: int) -> None:
    if done and done % OBJECTS_PER_REPORT == 0:
        show_progress_line(f"loaded {done:,} of {of:,} objects")


def _loaded(bodies: Iterable[JsonObject]) -> list[JsonObject]:
    loaded = []
    for body in bodies:
        if is_for_no_cluster(body):
            what = printable(str(body.get("kind")))
            print_line(f"left out: {what}, which is no object of a cluster")
        else:
            loaded.append(body)
    return loaded


def _say_passed_over(objects: Iterable[JsonObject]) -> None:
    """Say which kinds of the files are not in the cluster, with the number of their objects."""
    counts = Counter(
        f"{printable(str(each.get('kind')))} ({printable(str(each.get('apiVersion')))})"
        for each in objects
    )
    for kind, count in sorted(counts.items()):
        print_line(f"skipped {count} {kind}: the embedded cluster does not have this kind")


def _say_refused(body: JsonObject, error: ForbiddenError) -> None:
    """Say that a quota or a LimitRange refused an object; the others are loaded."""
    kind = printable(str(body.get("kind")))
    print_line(f"refused {kind}: {printable(error.message)}")


def _load_state(cluster: MemoryCluster, state: Path | None) -> bool:
    """Load the saved cluster. Returns whether there was one."""
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
    """Raise `BadInputError` at the start, and not at the end, if the state cannot be saved."""
    folder = state.resolve().parent
    if not folder.is_dir():
        raise BadInputError(f"{state}: the folder does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(f"{state}: nothing can be written to the folder")


def _simulated(body: JsonObject) -> JsonObject:
    """The object; a Node is marked as simulated, whatever its manifest says."""
    metadata = body.get("metadata")
    if body.get("kind") != "Node" or not isinstance(metadata, Mapping):
        return body
    annotations = metadata.get("annotations")
    kept = annotations if isinstance(annotations, Mapping) else {}
    return {**body, "metadata": {**metadata, "annotations": {**kept, SIMULATED: "true"}}}
