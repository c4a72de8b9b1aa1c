"""A quota: how much the pods of one namespace, or of several, may use together.

Four kinds of object become the same value: the ResourceQuota of Kubernetes, the
ClusterResourceQuota of OpenShift, and AAQ's namespaced and cluster-wide quotas. Only AAQ's two hold
pods back at a scheduling gate. A ResourceQuota is read so that it can be recounted. The other two
enforce limits that a gate cannot enforce.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import total_ordering
from types import MappingProxyType
from typing import Final

from bursar.core.model.pod_row import QUOTA_GATE
from bursar.core.model.resources import ResourceList, nothing
from bursar.core.model.selectors.selector import Selector
from bursar.core.quota.scopes import ScopeRule
from bursar.core.sharing import no_labels

GATE: Final = QUOTA_GATE
"""The scheduling gate that a pod keeps until its quotas have enough free."""
ORDER_ANNOTATION: Final = "bursar.io/order"
"""Annotation on a quota: the order in which waiting pods are released."""


class QuotaKind(Enum):
    """The kind of object that an account belongs to; the values are the kinds of the API."""

    NATIVE = "ResourceQuota"
    NAMESPACED = "ApplicationAwareResourceQuota"
    CLUSTER = "ApplicationAwareClusterResourceQuota"
    OPENSHIFT = "ClusterResourceQuota"
    POOL = "ClusterResource"
    """Not a quota: a pool of `core/pools`, whose accounts are in a ledger of their own."""

    @property
    def is_cluster_wide(self) -> bool:
        """Whether a quota of this kind selects namespaces."""
        return self in {QuotaKind.CLUSTER, QuotaKind.OPENSHIFT}

    @property
    def holds_pods(self) -> bool:
        """Whether a quota of this kind holds pods back with a scheduling gate."""
        return self in {QuotaKind.NAMESPACED, QuotaKind.CLUSTER}


QUOTA_KINDS: Final = (QuotaKind.NATIVE, QuotaKind.NAMESPACED, QuotaKind.CLUSTER)
"""The kinds of quotas that Bursar reads everywhere. OpenShift's exists on OpenShift alone."""


class Order(Enum):
    """The order of release among pods that wait for one quota."""

    BACKFILL = "backfill"
    """By priority, then age, then name; a pod that fits may pass one that does not."""
    STRICT = "strict"
    """By priority, then age, then name; no pod passes another."""
    FIFO = "fifo"
    """By age, then name, ignoring priority; no pod passes another."""


@total_ordering
@dataclass(frozen=True, slots=True)
class QuotaKey:
    """Kind, namespace (empty for cluster-wide quotas) and name of a quota."""

    kind: QuotaKind
    namespace: str
    name: str

    def __hash__(self) -> int:
        # The hash of an enum is slow, and the books look up quotas for every pod.
        return hash((self.namespace, self.name))

    def __lt__(self, other: "QuotaKey") -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[int, str, str]:
        # The quotas of a namespace sort before cluster-wide ones.
        return (_KIND_RANK[self.kind], self.namespace, self.name)

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.value} {place}"


_KIND_RANK: Final = {kind: rank for rank, kind in enumerate(QuotaKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSelector:
    """Which namespaces a cluster-wide quota covers. Both conditions must hold."""

    labels: Selector | None = None
    """None matches any labels."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations that a namespace must all have, with equal values."""
    names: frozenset[str] = frozenset()
    """Further namespaces: those that a quota covered before its selector became unreadable."""

    def matches(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        if self.labels is not None and not self.labels.matches(labels):
            return False
        return all(annotations.get(key) == value for key, value in self.annotations.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    key: QuotaKey
    uid: str = ""
    hard: ResourceList = field(default_factory=nothing)
    scopes: tuple[ScopeRule, ...] = ()
    """From `scopes` and `scopeSelector`; all of them must match a pod."""
    selector: NamespaceSelector | None = None
    """Of a cluster-wide quota; None for the others."""
    order: Order = Order.BACKFILL
    problem: str = ""
    """Why the spec cannot be read; empty if it can.

    It is then unknown what the quota limits. Pods that it may cover wait: `scopes` and `selector`
    are those parts of the spec that can be read.
    """


# ------------------------------------------------------------------ quotas as objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Limits and usage in a status."""

    hard: ResourceList = field(default_factory=nothing)
    used: ResourceList = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCondition:
    type: str
    status: str
    reason: str
    message: str
    changed_at: datetime | None
    observed_generation: int


NO_NAMESPACES: Final[Mapping[str, Reported]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaObject:
    """A quota with the metadata and the status of its object."""

    quota: Quota
    resource_version: str = ""
    generation: int = 0
    """0 for kinds without `metadata.generation`."""
    created_at: datetime | None = None
    is_deleting: bool = False
    owner_uid: str = ""
    """Uid of the object that controls this one; empty if there is none."""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    """Empty for the kinds that hold pods back."""
    spec: object = None
    """Plain data, exactly as it is stored; only of cluster-wide quotas."""
    order_problem: str = ""
    """Why the order annotation is not in force; empty if it is."""
    reported_hard: ResourceList = field(default_factory=nothing)
    """Of a cluster-wide quota, this and `reported_used` are totals over all namespaces."""
    reported_used: ResourceList = field(default_factory=nothing)
    reported_namespaces: Mapping[str, Reported] = field(default_factory=lambda: NO_NAMESPACES)
    """By namespace, of a cluster-wide quota; empty for others."""
    reported_summary: str = ""
    reported_conditions: tuple[ReportedCondition, ...] = ()
    status_problem: str = ""
    """Why the status could not be decoded and counts as empty; empty if it could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedQuota:
    """The copy of a cluster-wide quota that one namespace is shown."""

    labels: Mapping[str, str] = field(default_factory=no_labels)
    owner_uid: str = ""
    """Uid of the object that controls this one; empty if there is none."""
    is_deleting: bool = False
    spec: object = None
    """Plain data, exactly as it is stored."""
    status: Mapping[str, object] = field(default_factory=dict)
    """Plain data, exactly as it is stored."""
