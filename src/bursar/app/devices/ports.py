"""What the pod-resources proxy needs: kubelet's own answers, and the node's pods and devices."""

from collections.abc import Callable, Container, Sequence
from enum import Enum
from typing import Protocol, TypeAlias

from bursar.core.devices.allocation import Additions, Entry, PodKey, Problem, ReportedPod
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod


class Version(Enum):
    """Of kubelet's API; both are served on one socket."""

    V1 = "v1"
    V1ALPHA1 = "v1alpha1"


class CallError(Exception):
    """A call that ended with another code than OK; passed on as it came."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"gRPC code {code}: {text}")
        self.code = code
        """gRPC's number: 2 UNKNOWN, 8 RESOURCE_EXHAUSTED, 12 UNIMPLEMENTED, 14 UNAVAILABLE."""
        self.text = text


class Kubelet(Protocol):
    """Kubelet's socket. Requests and answers are bytes: what we do not know passes through.

    Every method raises `CallError`. `within_s` is what is left of the client's own deadline.
    """

    async def list(self, version: Version, request: bytes, within_s: float | None) -> bytes: ...

    async def get(self, request: bytes, within_s: float | None) -> bytes: ...

    async def allocatable(self, request: bytes, within_s: float | None) -> bytes: ...


Planner: TypeAlias = Callable[[ReportedPod], Additions | None]
"""What to add about a pod; None to leave it as it is."""


class PodsAnswer(Protocol):
    """Kubelet's answer about pods, whole or one, open for additions."""

    def keys(self) -> Sequence[PodKey]:
        """Which pods it is about."""

    def add(self, wanted: Container[PodKey], planner: Planner) -> None:
        """Ask the planner about each pod that is wanted; the others are not even looked at."""

    def keep_only_with_devices(self) -> None:
        """Leave out pods that have no devices, for clients that cannot take a long answer."""

    def encode(self) -> bytes: ...


class AllocatableAnswer(Protocol):
    def entries(self) -> Sequence[Entry]: ...

    def add(self, entries: Sequence[Entry]) -> None: ...

    def encode(self) -> bytes: ...


class Codec(Protocol):
    """Raises `ValueError` for bytes that are no such message."""

    def pods(self, version: Version, body: bytes) -> PodsAnswer: ...

    def pod(self, body: bytes) -> PodsAnswer: ...

    def asked_for(self, request: bytes) -> PodKey:
        """Which pod a request of Get is about."""

    def allocatable(self, body: bytes) -> AllocatableAnswer: ...


class SourceError(Exception):
    """The pods of this node cannot be had at the moment. The text says why, in one line."""


class PodSource(Protocol):
    """Where pods and their annotations come from: kubelet's /pods, or the API server."""

    async def read(self) -> Sequence[DevicePod]:
        """All pods of this node, as of a moment after the call began. Raises `SourceError`."""


class InventorySource(Protocol):
    def current(self) -> Inventory | None:
        """The devices of this node; None if nobody keeps a list of them, or it is not known yet."""


class Reporter(Protocol):
    """Who hears of what is wrong with a pod's devices: events, logs."""

    def tell(self, pod: DevicePod, problem: Problem) -> None:
        """Called once for each problem of a pod, however often it is met."""
