"""What the proxy needs: kubelet's responses, and the node's pods and devices."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from bursar.core.devices.allocation import Problem
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod


class Version(Enum):
    """Versions of the PodResources API; both are served on one socket."""

    V1 = "v1"
    V1ALPHA1 = "v1alpha1"


class Method(Enum):
    """Methods of the PodResources API. Version v1alpha1 has only `List`."""

    LIST = "List"
    GET = "Get"
    ALLOCATABLE = "GetAllocatableResources"


class CallError(Exception):
    """A gRPC call that ended with another code than OK. The proxy passes it on unchanged."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"gRPC code {code}: {text}")
        self.code = code
        """The gRPC code: 2 UNKNOWN, 8 RESOURCE_EXHAUSTED, 12 UNIMPLEMENTED, 14 UNAVAILABLE."""
        self.text = text


class Kubelet(Protocol):
    """Kubelet's PodResources API. Messages are bytes, so unknown fields pass through."""

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        """Raises `CallError`. `within_s` is the time left until the client's deadline."""


class SourceError(Exception):
    """The pods of this node cannot be read at the moment. The text says why, in one line."""


class PodSource(Protocol):
    """Where pods and their annotations are read: kubelet's `/pods`, or the API server."""

    async def read(self) -> Sequence[DevicePod]:
        """All pods of this node, no older than the start of the call. Raises `SourceError`."""


class InventorySource(Protocol):
    def current(self) -> Inventory | None:
        """The devices of this node; None if there is no inventory, or it is not known yet."""


class Reporter(Protocol):
    """Receives problems of pods' devices, to record them as events or log lines."""

    def report(self, pod: DevicePod, problem: Problem) -> None:
        """Called once for each problem of a pod, however often it is found."""
