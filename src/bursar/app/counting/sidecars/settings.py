"""The settings of counting by sidecars."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

SOCKETS_FOLDER: Final = "/var/run/aaq-sockets"
"""AAQ's folder."""
TIMEOUT_SECONDS: Final = 10.0


class SidecarScope(Enum):
    """The input of a sidecar beside the pod itself."""

    NAMESPACE = "namespace"
    """All pods of the namespace, as AAQ sends them."""
    POD = "pod"
    """No other pods."""


class SidecarFallback(Enum):
    """What becomes of a pod about which a sidecar has no good answer."""

    HOLD = "hold"
    """The pod waits."""
    NATIVE = "native"
    """The pod is counted without that sidecar, as AAQ does."""


class SidecarTrust(Enum):
    """Which sockets are used."""

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
