"""The settings of counting by sidecars."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

SOCKETS_FOLDER: Final = "/var/run/aaq-sockets"
"""AAQ's folder for the sockets of sidecars."""
TIMEOUT_SECONDS: Final = 10.0


class SidecarScope(Enum):
    """Which pods a sidecar receives beside the pod that it counts."""

    NAMESPACE = "namespace"
    """All pods of the namespace, as AAQ sends them."""
    POD = "pod"
    """No other pods."""


class SidecarFallback(Enum):
    """What happens to a pod while a sidecar has no good answer about it."""

    HOLD = "hold"
    """The pod waits."""
    NATIVE = "native"
    """The pod is counted without that sidecar, as AAQ does."""


class SidecarTrust(Enum):
    """Which sockets of the folder the controller connects to."""

    FOLDER = "folder"
    """Every socket in the folder."""
    OWNER = "owner"
    """Sockets of root or of the controller's user, in a folder that others cannot write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSettings:
    expected: int
    folder: str = SOCKETS_FOLDER
    scope: SidecarScope = SidecarScope.NAMESPACE
    fallback: SidecarFallback = SidecarFallback.HOLD
    trust: SidecarTrust = SidecarTrust.FOLDER
    timeout_s: float = TIMEOUT_SECONDS
