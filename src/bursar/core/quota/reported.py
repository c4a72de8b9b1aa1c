"""A quota as its object holds it: the limits, and what the status says about their use."""

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
    """Limits and use as a status has them."""

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
    """A quota with what is around it in its object."""

    quota: Quota
    resource_version: str = ""
    generation: int = 0
    """0 for kinds that count none."""
    created_at: datetime | None = None
    is_deleting: bool = False
    owner_uid: str = ""
    """Of the object that controls this one; empty if none does."""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    spec: object = None
    """To the letter, as plain data; only of quotas that are copied into namespaces."""
    order_problem: str = ""
    """Why the order that was asked for is not the one in force; empty if it is."""
    reported_hard: ResourceList = field(default_factory=nothing)
    """For a quota over several namespaces, this and the next are about all of them together."""
    reported_used: ResourceList = field(default_factory=nothing)
    reported_namespaces: Mapping[str, Reported] = field(default_factory=lambda: NO_NAMESPACES)
    """By namespace; empty for quotas of one namespace."""
    reported_summary: str = ""
    reported_conditions: tuple[ReportedCondition, ...] = ()
    status_problem: str = ""
    """Why the status counts as none; empty if it could be read."""
