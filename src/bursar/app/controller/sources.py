"""The informers of one term: everything that the controller watches while it leads."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bursar.app.admission.gate_switch import observe_gate
from bursar.app.capacity.sources import CapacityPlaces
from bursar.app.capacity.watched_sources import CapacitySources, capacity_sources
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import RunningInformer, observe
from bursar.app.cluster.ports import Clock
from bursar.app.controller.queue_limit import observe_full_queues
from bursar.app.counting.feeds import Counting
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.managed.cluster_resource_quotas import ClusterResourceQuotas
from bursar.app.quota.managed.names import owner_key
from bursar.app.quota.sources import (
    EVERY_KIND,
    Cluster,
    QuotaSources,
    observe_applied_quotas,
    quota_sources,
)
from bursar.core.quota.quota import AppliedQuota, Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.targeting import Targeting
from bursar.wire.cluster.object_identity import find_identity
from bursar.wire.quota.objects import decode_quota


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSources:
    books: QuotaSources
    native_quotas: Informer[Sighting[QuotaObject]]
    applied_quotas: Informer[Sighting[AppliedQuota]] | None
    """None if the kinds of cluster-wide quotas are not installed."""
    cluster_managed: ClusterResourceQuotas | None
    """None if the kinds of cluster-wide quotas are not installed."""
    gate: Informer[Sighting[bool]]
    """Whether new pods are gated. Nothing waits for it: the service account may not be readable."""
    full_queues: Informer[Sighting[str]]
    """The namespaces in which too many pods wait, as written down. Nothing waits for it."""
    capacity: CapacitySources | None = None
    """None if the controller does not set the capacity of nodes."""

    def informers(self) -> tuple[RunningInformer, ...]:
        return (*self.awaited(), *(() if self.capacity is None else self.capacity.informers()))

    def awaited(self) -> tuple[RunningInformer, ...]:
        """The informers that must be synced before anything is decided about quotas."""
        applied = () if self.applied_quotas is None else (self.applied_quotas,)
        return (*self.books.informers(), self.native_quotas, *applied)


def _managed_only(body: bytes) -> QuotaObject:
    """A ResourceQuota, of which only the key is kept if it is not managed for another quota.

    A tenant may be permitted to write ResourceQuotas of a megabyte.
    """
    found = find_identity(body)
    if found is not None:
        key = QuotaKey(QuotaKind.NATIVE, found.namespace, found.name)
        if owner_key(key) is None:
            return QuotaObject(quota=Quota(key=key))
    return decode_quota(QuotaKind.NATIVE, body)


def term_sources(  # noqa: PLR0913 - the informers depend on all of them
    cluster: Cluster,
    clock: Clock,
    random: Random,
    targeting: Targeting,
    kinds: Sequence[QuotaKind] = EVERY_KIND,
    *,
    counting: Counting | None = None,
    places: CapacityPlaces | None = None,
) -> TermSources:
    """Informers that are not running yet.

    `kinds` are the kinds of quota that are installed. Without `counting`, pods are counted
    natively. Without `places`, the ConfigMaps that declare capacity, nodes are left alone.
    """
    books = quota_sources(cluster, clock, random, targeting, kinds, counting=counting)
    has_cluster_quotas = QuotaKind.CLUSTER in kinds
    return TermSources(
        books=books,
        native_quotas=observe(cluster, clock, random, QUOTAS[QuotaKind.NATIVE], _managed_only),
        applied_quotas=observe_applied_quotas(cluster, clock, random)
        if has_cluster_quotas
        else None,
        cluster_managed=ClusterResourceQuotas(cluster, clock, random)
        if has_cluster_quotas
        else None,
        gate=observe_gate(cluster, clock, random, targeting.own_namespace),
        full_queues=observe_full_queues(cluster, clock, random, targeting.own_namespace),
        capacity=None
        if places is None
        else capacity_sources(cluster, clock, random, places=places, pods=books.pods),
    )
