"""A namespace, with the fields that quotas depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bursar.core.sharing import no_labels

DEFAULT_NAMESPACE: Final = "default"
"""Where kubectl creates an object whose manifest names no namespace."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label of each namespace whose value is its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceObject:
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    phase: str = ""
    """`Active` or `Terminating`; empty if the status has none."""
