"""Remove an installation after its AAQ object was deleted.

First nothing is gated any more, then every waiting pod is released, then the objects go. Quotas of
tenants and the definitions of their kinds stay, unless the AAQ object says otherwise. Each step can
be repeated, so that another operator goes on where this one ended.
"""

from collections.abc import Callable, Sequence
from typing import Final

from bursar.app.cluster.kinds import CRDS
from bursar.app.cluster.ports import (
    Clock,
    ForbiddenError,
    Key,
    NotFoundError,
    Preconditions,
    Query,
    ReadWriter,
    Resource,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.cluster.sighting import locate
from bursar.app.log import Log
from bursar.app.operator.applied import SELECTOR
from bursar.app.operator.kinds import DELETED, Target
from bursar.app.quota.kinds import AAQS
from bursar.app.quota.release.force_release import ForcedReleases, release_all, stop_gating
from bursar.wire.model.pod_row import PodRowDecoder

LOG: Final = Log("operator")
QUOTAS_ANNOTATION: Final = "bursar.io/delete-quotas"
"""Annotation of the AAQ object: with the value true, the definitions of the kinds of quotas are
deleted too, and with them all quotas of all tenants."""
NAMED_MAX: Final = 3
"""How many pods a message names."""


async def free_pods(cluster: ReadWriter, clock: Clock) -> list[str]:
    """Stop gating and release every waiting pod. Returns why that is not done yet.

    Raises `ClusterError`.
    """
    await stop_gating(cluster)
    done = await release_all(cluster, cluster, clock, decode=PodRowDecoder().decode)
    LOG.info("waiting pods were released", pods=len(done.released), failed=len(done.failed))
    return _blocked(done)


def _blocked(done: ForcedReleases) -> list[str]:
    if not done.failed:
        return []
    first = sorted(done.failed.items())[:NAMED_MAX]
    texts = ", ".join(f"{key} ({error.message})" for key, error in first)
    return [f"{len(done.failed)} pods still have the gate: {texts}"]


async def delete_objects(
    cluster: ReadWriter,
    home: str,
    *,
    may_write: Callable[[], bool],
    record: Callable[[Target], None],
    with_definitions: bool,
) -> list[str]:
    """Delete all objects of the installation, by a fresh list. Returns what is still there."""
    left = []
    for resource in DELETED:
        left += await _delete_kind(cluster, resource, home, may_write, record)
    if with_definitions and not left:
        own = f"{AAQS.plural}.{AAQS.group}"
        found = await _listed(cluster, CRDS, home)
        others = [each for each in found if each[0].name != own]
        left += await _delete(cluster, CRDS, others, may_write, record)
    return left


async def _delete_kind(
    cluster: ReadWriter,
    resource: Resource,
    home: str,
    may_write: Callable[[], bool],
    record: Callable[[Target], None],
) -> list[str]:
    try:
        found = await _listed(cluster, resource, home)
    except NotFoundError:
        # An older API server does not have the kind.
        return []
    return await _delete(cluster, resource, found, may_write, record)


async def _listed(cluster: ReadWriter, resource: Resource, home: str) -> list[tuple[Key, str]]:
    def identified(body: bytes) -> tuple[Key, str]:
        identity = locate(body)
        if identity is None:
            raise ValueError("the object has no name")
        return identity.key, identity.uid

    place = home if resource.is_namespaced else ""
    return await list_all(
        cluster, resource, Query(namespace=place, label_selector=SELECTOR), identified
    )


async def _delete(
    cluster: ReadWriter,
    resource: Resource,
    found: Sequence[tuple[Key, str]],
    may_write: Callable[[], bool],
    record: Callable[[Target], None],
) -> list[str]:
    left: list[str] = []
    for key, uid in found:
        target = Target(resource, key)
        if not may_write():
            return [*left, f"{target} is still there"]
        try:
            await cluster.delete(resource, key, preconditions=Preconditions(uid=uid))
        except NotFoundError:
            continue
        except ForbiddenError as error:
            left.append(f"{target}: {error.message}")
        else:
            record(target)
    return left
