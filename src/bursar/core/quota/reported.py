"""A quota as its object holds it: the limits, and the usage that its status reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from bursar.core.model.pod import no_labels
from bursar.core.model.resources import ResourceList, nothing
from bursar.core.quota.quota import Quota


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
    spec: object = None
    """Plain data, exactly as it is stored; only of cluster-wide quotas, which are copied."""
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
