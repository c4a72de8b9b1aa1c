"""What the feed of sidecars needs from outside, sockets and calls, and what metrics read of it."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from bursar.core.counting.sidecars import SidecarCounter


class SidecarFailure(Enum):
    """Why a question has no good answer."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TOO_LARGE = "too-large"
    BAD_ANSWER = "bad-answer"
    SAYS_ERROR = "says-error"


class SidecarError(Exception):
    """A call without a good answer. The text is for the pod's owner to read."""

    def __init__(self, failure: SidecarFailure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


class Sidecar(Protocol):
    """A kept connection to one sidecar. Messages are bytes; every call has a time limit."""

    async def evaluate(self, request: bytes) -> bytes:
        """Raises `SidecarError`."""

    async def is_healthy(self) -> bool:
        """Raises `SidecarError`."""

    async def close(self) -> None: ...


class SidecarSockets(Protocol):
    def find(self) -> Mapping[str, Hashable]:
        """The usable sockets by file name, each with a value that tells it from a later socket.

        Problems are logged.
        """

    def connect(self, name: str) -> Sidecar: ...


@dataclass(slots=True)
class SidecarCounters:
    """Totals since the term began."""

    calls: int = 0
    swept: int = 0
    """Calls among `calls` that asked again about a pod because other pods have changed."""
    failures: dict[SidecarFailure, int] = field(
        default_factory=lambda: dict.fromkeys(SidecarFailure, 0)
    )
    call_seconds: float = 0.0
    bytes_sent: int = 0


@runtime_checkable
class SidecarView(Protocol):
    """What metrics read of the feed."""

    @property
    def connected(self) -> int: ...

    @property
    def counter(self) -> SidecarCounter: ...

    @property
    def counters(self) -> SidecarCounters: ...
