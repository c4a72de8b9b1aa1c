"""Reading once, in pages, everything that quotas are about. Nothing is followed afterwards."""

from collections.abc import Callable
from typing import Final, TypeVar

from bursar.adapters.reading_once import read_all
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import (
    ForbiddenError,
    NotFoundError,
    Query,
    Reader,
    Resource,
)
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.report import Inventory
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.reported import QuotaObject
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.quota import decode_quota

Progress = Callable[[str, int], None]
"""Told the kind, and how many of it have been read so far."""

T = TypeVar("T")


async def read_inventory(
    reader: Reader, *, namespace: str = "", progress: Progress | None = None
) -> Inventory:
    """Read a cluster, or what is needed to judge the quotas of one namespace.

    Whoever may see only that namespace is served, too: cluster-wide quotas that may not be
    seen are left out, with a word about it. Raises `ClusterError`.
    """
    reading = _Reading(reader, progress or _silent)
    quotas = [
        quota
        for kind in (QuotaKind.NATIVE, QuotaKind.NAMESPACED)
        for quota in await reading.quotas(kind, namespace)
    ]
    try:
        cluster_wide = await reading.quotas(QuotaKind.CLUSTER)
    except ForbiddenError as error:
        if not namespace:
            raise
        cluster_wide = []
        reading.problems.append(f"left out: cluster-wide quotas: {error}")
    where = "" if cluster_wide else namespace
    rows = await reading.objects(PODS, PodRowDecoder().decode, where)
    # After the pods, so that the namespace of each was there before it.
    namespaces = [] if where else await reading.objects(NAMESPACES, decode_namespace)
    return Inventory(
        rows=rows,
        namespaces=namespaces,
        quotas=(*quotas, *cluster_wide),
        problems=tuple(reading.problems),
    )


def _silent(_kind: str, _count: int) -> None:
    pass


class _Reading:
    def __init__(self, reader: Reader, progress: Progress) -> None:
        self._reader, self._progress = reader, progress
        self.problems: Final[list[str]] = []

    async def quotas(self, kind: QuotaKind, namespace: str = "") -> list[QuotaObject]:
        """All quotas of a kind; none where the kind is not installed."""
        try:
            return await self.objects(
                QUOTAS[kind], lambda body: decode_quota(kind, body), namespace
            )
        except NotFoundError:
            return []

    async def objects(
        self, resource: Resource, decode: Callable[[bytes], T], namespace: str = ""
    ) -> list[T]:
        return await read_all(
            self._reader,
            resource,
            Query(namespace=namespace),
            decode,
            problems=self.problems,
            progress=lambda count: self._progress(resource.plural, count),
        )
