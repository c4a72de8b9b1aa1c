"""The inventory: all pods, namespaces and quotas of a cluster, or of a few files, read once.

Reports about quotas are computed from it. No controller has to run for them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.listing import list_all
from bursar.app.cluster.ports import ForbiddenError, NotFoundError, Query, Reader, Resource
from bursar.app.quota.kinds import QUOTAS
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import PodRow, row_of
from bursar.core.quota.quota import QuotaKind, QuotaObject
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.quota import decode_quota

DEFAULT_NAMESPACE: Final = "default"
"""Where kubectl creates an object whose manifest names no namespace."""

Progress = Callable[[str, int], None]
"""Called with a kind and the number of its objects that have been read so far."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    rows: Sequence[PodRow] = ()
    namespaces: Sequence[NamespaceObject] = ()
    quotas: Sequence[QuotaObject] = ()
    undescribed: frozenset[str] = frozenset()
    """Namespaces that are only known by name. They count as having no labels."""
    problems: tuple[str, ...] = ()
    """One line for each object or kind that was left out, with the reason."""


# ------------------------------------------------------------------ from manifests


def inventory_of(
    pods: Iterable[Pod], namespaces: Iterable[NamespaceObject], quotas: Iterable[QuotaObject]
) -> Inventory:
    """The inventory of manifests. Of objects with the same name the last one counts."""
    placed = {(row.namespace, row.name): row for row in map(_placed_row, pods)}
    described = {each.name: each for each in namespaces}
    known = {each.quota.key: each for each in map(_placed_quota, quotas)}
    named = {row.namespace for row in placed.values()} | {key.namespace for key in known}
    undescribed = frozenset(named - described.keys() - {""})
    return Inventory(
        rows=tuple(placed.values()),
        namespaces=(
            *described.values(),
            *(NamespaceObject(name=name) for name in sorted(undescribed)),
        ),
        quotas=tuple(known.values()),
        undescribed=undescribed,
    )


def _placed_row(pod: Pod) -> PodRow:
    placed = pod if pod.namespace else replace(pod, namespace=DEFAULT_NAMESPACE)
    return row_of(with_defaults(placed))


def _placed_quota(seen: QuotaObject) -> QuotaObject:
    key = seen.quota.key
    if key.namespace or key.kind is QuotaKind.CLUSTER:
        return seen
    placed = replace(seen.quota, key=replace(key, namespace=DEFAULT_NAMESPACE))
    return replace(seen, quota=placed)


# ------------------------------------------------------------------ from a cluster


async def read_inventory(
    reader: Reader, *, namespace: str = "", progress: Progress = lambda _kind, _count: None
) -> Inventory:
    """List a cluster, or only what the quotas of one namespace depend on.

    If the caller may read that namespace only, cluster-wide quotas are left out and
    `problems` says so. Raises `ClusterError`.
    """
    problems: list[str] = []

    async def objects(resource: Resource, decode: Callable[[bytes], T], place: str = "") -> list[T]:
        return await list_all(
            reader,
            resource,
            Query(namespace=place),
            decode,
            problems=problems,
            progress=lambda count: progress(resource.plural, count),
        )

    async def quotas_of(kind: QuotaKind, place: str = "") -> list[QuotaObject]:
        """All quotas of a kind; none if the kind is not installed."""
        try:
            return await objects(QUOTAS[kind], partial(decode_quota, kind), place)
        except NotFoundError:
            return []

    quotas = [
        *await quotas_of(QuotaKind.NATIVE, namespace),
        *await quotas_of(QuotaKind.NAMESPACED, namespace),
    ]
    try:
        cluster_wide = await quotas_of(QuotaKind.CLUSTER)
    except ForbiddenError as error:
        if not namespace:
            raise
        cluster_wide = []
        problems.append(f"left out: cluster-wide quotas: {error}")
    where = "" if cluster_wide else namespace
    rows = await objects(PODS, PodRowDecoder().decode, where)
    # Namespaces are listed after the pods, so that each pod's namespace is in the list.
    namespaces = [] if where else await objects(NAMESPACES, decode_namespace)
    return Inventory(
        rows=rows,
        namespaces=namespaces,
        quotas=(*quotas, *cluster_wide),
        problems=tuple(problems),
    )
