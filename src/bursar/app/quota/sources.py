"""The informers that feed the books: pods, namespaces and quotas of one cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final, Protocol

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import RunningInformer, Watched, observe
from bursar.app.cluster.observe_kinds import observe_namespaces, observe_pod_rows
from bursar.app.cluster.ports import Clock, Discoverer
from bursar.app.counting.feeds import CounterFeed, Counting, LeftOut, ObjectFeed
from bursar.app.counting.provenance import Explain
from bursar.app.quota.departed_quotas import Exists, exists_in
from bursar.app.quota.kinds import APPLIED_CLUSTER_QUOTAS, QUOTAS
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.counting import Counter, NativeCounter
from bursar.core.quota.quota import AppliedQuota, QuotaKind, QuotaObject
from bursar.core.quota.targeting import Targeting
from bursar.wire.quota.objects import decode_applied_quota, decode_quota
from bursar.wire.quota.unreadable import read_quota

EVERY_KIND: Final = (QuotaKind.NAMESPACED, QuotaKind.CLUSTER)
"""The kinds of quota that hold pods back."""


class Cluster(Watched, Discoverer, Protocol):
    """The cluster as the books use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSources:
    """The informers that the books depend on. The caller that made them runs them."""

    pods: Informer[PodRow]
    namespaces: Informer[Sighting[NamespaceObject]]
    quotas: tuple[Informer[Sighting[QuotaObject]], ...]
    exists: Exists
    """Asks the cluster whether it has a quota."""
    targeting: Targeting
    counter: Counter = field(default_factory=NativeCounter)
    """What pods cost. Its facts are in the rows of `pods`."""
    explain: Explain | None = None
    """Which counter charges a pod what, and why; None if all pods are counted natively."""
    feeds: tuple[CounterFeed, ...] = ()
    """What keeps the counter informed. A term runs them."""
    left_out: LeftOut | None = None
    """Why pods are counted without an answer that their counter needs; None if they never are."""
    awaited_feeds: tuple[ObjectFeed, ...] = ()
    """The feeds whose objects decide what running pods cost; a part of `feeds`."""

    def informers(self) -> tuple[RunningInformer, ...]:
        quotas: tuple[RunningInformer, ...] = self.quotas
        return (self.pods, self.namespaces, *quotas)


def quota_sources(
    cluster: Cluster,
    clock: Clock,
    random: Random,
    targeting: Targeting,
    kinds: Sequence[QuotaKind] = EVERY_KIND,
    *,
    counting: Counting | None = None,
) -> QuotaSources:
    """Informers that are not running yet. Without `counting`, pods are counted natively."""
    counting = counting or Counting.of(())
    counter = counting.counter
    kind_feeds = tuple(kind.feed(cluster, clock, random) for kind in counting.kinds)
    return QuotaSources(
        pods=observe_pod_rows(cluster, clock, random, counter.derive_facts),
        namespaces=observe_namespaces(cluster, clock, random),
        quotas=tuple(observe_quotas(cluster, clock, random, kind) for kind in kinds),
        exists=partial(exists_in, cluster),
        targeting=targeting,
        counter=counter,
        explain=None if isinstance(counter, NativeCounter) else counting.explain,
        feeds=(*kind_feeds, *counting.feeds),
        left_out=counting.left_out,
        awaited_feeds=kind_feeds,
    )


def observe_quotas(
    cluster: Watched, clock: Clock, random: Random, kind: QuotaKind
) -> Informer[Sighting[QuotaObject]]:
    """Watch all quotas of one kind."""
    decode = decode_quota if kind is QuotaKind.NATIVE else read_quota
    return observe(cluster, clock, random, QUOTAS[kind], partial(decode, kind))


def observe_applied_quotas(
    cluster: Watched, clock: Clock, random: Random
) -> Informer[Sighting[AppliedQuota]]:
    """Watch the copies of cluster-wide quotas in all namespaces."""
    return observe(cluster, clock, random, APPLIED_CLUSTER_QUOTAS, decode_applied_quota)
