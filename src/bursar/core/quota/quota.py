"""A quota: how much the pods of one namespace, or of several, may use together.

Three kinds of object become the same value: the ResourceQuota of Kubernetes, and AAQ's
namespaced and cluster-wide quotas. Only AAQ's two hold pods back at a scheduling gate. A
ResourceQuota is read so that it can be recounted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import total_ordering
from typing import Final

from bursar.core.model.resources import ResourceList, nothing
from bursar.core.model.selector import Selector
from bursar.core.quota.scopes import ScopeRule

GATE: Final = "ApplicationAwareQuotaGate"
"""The scheduling gate that a pod keeps until its quotas have enough free."""
ORDER_ANNOTATION: Final = "bursar.io/order"
"""Annotation on a quota: the order in which waiting pods are released."""


class QuotaKind(Enum):
    """The kind of object of a quota; the values are the kinds of the API."""

    NATIVE = "ResourceQuota"
    NAMESPACED = "ApplicationAwareResourceQuota"
    CLUSTER = "ApplicationAwareClusterResourceQuota"


class Order(Enum):
    """The order of release among pods that wait for one quota."""

    BACKFILL = "backfill"
    """By priority, then age, then name; a pod that fits may pass one that does not."""
    STRICT = "strict"
    """The same order, and no pod passes another."""
    FIFO = "fifo"
    """By age, then name, ignoring priority; no pod passes another."""


@total_ordering
@dataclass(frozen=True, slots=True)
class QuotaKey:
    """Kind, namespace (empty for cluster-wide quotas) and name of a quota."""

    kind: QuotaKind
    namespace: str
    name: str

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
