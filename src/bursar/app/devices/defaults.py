"""Default paths and port of the agent, used by `bursar agent` and by its manifests."""

from enum import Enum
from typing import Final

SOCKET_FOLDER: Final = "/var/run/koordlet/pod-resources"
"""The folder of Koordinator's proxy, so that its clients need no change."""
KUBELET_FOLDER: Final = "/var/lib/kubelet"
"""Kubelet's --root-dir."""
SOCKET: Final = "kubelet.sock"
HTTP_PORT: Final = 9479


class PodsFrom(Enum):
    """Where the agent reads the pods of its node."""

    KUBELET = "kubelet"
    READ_ONLY = "kubelet-read-only"
    API = "api"
