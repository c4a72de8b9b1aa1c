"""What the books are fed from: informers of pods, namespaces and quotas on one cluster."""

from collections.abc import Sequence
from random import Random
from typing import Final, cast

import msgspec

from bursar.adapters.capacity_sources import CapacityPlaces, capacity_sources
from bursar.adapters.observed import Cluster, observe
from bursar.adapters.pod_rows import pod_rows
from bursar.adapters.quota_kinds import observe_namespaces, observe_quotas
from bursar.app.cluster.ports import Clock, Json
from bursar.app.quota.applied import AppliedQuota
from bursar.app.quota.controller import TermSources
from bursar.app.quota.desk import Sources
from bursar.app.quota.kinds import APPLIED_CLUSTER_QUOTAS
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.targeting import Targeting

EVERY_KIND: Final = (QuotaKind.NAMESPACED, QuotaKind.CLUSTER)
"""The kinds of quota that hold pods back."""


def quota_sources(
    cluster: Cluster,
    clock: Clock,
    random: Random,
    targeting: Targeting,
    kinds: Sequence[QuotaKind] = EVERY_KIND,
) -> Sources:
    """Informers that have not been run yet."""
    return Sources(
        pods=pod_rows(cluster, clock, random),
        namespaces=observe_namespaces(cluster, clock, random),
        quotas=tuple(observe_quotas(cluster, clock, random, kind) for kind in kinds),
        targeting=targeting,
    )


def term_sources(
    cluster: Cluster,
    clock: Clock,
    random: Random,
    targeting: Targeting,
    kinds: Sequence[QuotaKind] = EVERY_KIND,
    *,
    places: CapacityPlaces | None = None,
) -> TermSources:
    """All that a controller follows while it leads.

    Kinds of quota that are not installed are left out; the capacity of nodes is kept only if
    it is said where it is declared.
    """
    books = quota_sources(cluster, clock, random, targeting, kinds)
    applied = (
        observe(cluster, clock, random, APPLIED_CLUSTER_QUOTAS, decode_applied_quota)
        if QuotaKind.CLUSTER in kinds
        else None
    )
    return TermSources(
        books=books,
        native_quotas=observe_quotas(cluster, clock, random, QuotaKind.NATIVE),
        applied_quotas=applied,
        capacity=None
        if places is None
        else capacity_sources(cluster, clock, random, places=places, pods=books.pods),
    )


class _Owner(msgspec.Struct):
    uid: str | None = None
    controller: bool | None = None


class _AppliedMeta(msgspec.Struct, rename="camel"):
    labels: dict[str, str | None] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Applied(msgspec.Struct):
    metadata: _AppliedMeta
    spec: object = None
    status: dict[str, object] | None = None


_APPLIED: Final = msgspec.json.Decoder(_Applied)


def decode_applied_quota(body: bytes) -> AppliedQuota:
    """Raises a `ValueError` for what is not one."""
    raw = _APPLIED.decode(body)
    meta = raw.metadata
    owners = (owner.uid for owner in meta.owner_references or () if owner.controller)
    return AppliedQuota(
        labels={key: value or "" for key, value in (meta.labels or {}).items()},
        owner_uid=next(owners, None) or "",
        is_deleting=meta.deletion_timestamp is not None,
        spec=cast("Json", raw.spec),
        status=cast("dict[str, Json]", raw.status or {}),
    )
