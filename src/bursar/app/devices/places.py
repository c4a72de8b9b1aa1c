"""Where things are on a node unless somebody says otherwise; agent and manifests must agree."""

from enum import Enum
from typing import Final

SOCKET_FOLDER: Final = "/var/run/koordlet/pod-resources"
"""Koordinator's own, so that those who use its proxy have nothing to change."""
KUBELET_FOLDER: Final = "/var/lib/kubelet"
"""What kubelet has as its --root-dir."""
SOCKET: Final = "kubelet.sock"
HTTP_PORT: Final = 9479


class PodsFrom(Enum):
    """Who tells the agent which pods its node has."""

    KUBELET = "kubelet"
    READ_ONLY = "kubelet-read-only"
    API = "api"
