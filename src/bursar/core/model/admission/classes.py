"""RuntimeClasses and PriorityClasses, with the fields that admission copies into pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bursar.core.model.pod import Toleration
from bursar.core.model.resources import ResourceList
from bursar.core.sharing import no_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClass:
    name: str
    overhead: ResourceList | None = None
    """`overhead.podFixed`; None if the class has no overhead."""
    node_selector: Mapping[str, str] = field(default_factory=no_labels)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    name: str
    value: int
    is_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


BUILT_IN: Final = (
    PriorityClass(name="system-cluster-critical", value=2_000_000_000),
    PriorityClass(name="system-node-critical", value=2_000_001_000),
)
"""The PriorityClasses that every cluster has."""
