"""A namespace, as far as quotas go by it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.core.model.pod import no_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceObject:
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    phase: str = ""
    """Active or Terminating; empty where nobody has written it yet."""
