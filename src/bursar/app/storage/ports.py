"""What the accounting of a node's disk needs: folders of pods, and the kubelet's figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from bursar.core.storage.pod import StoragePod
from bursar.core.storage.pressure import Filesystem
from bursar.core.storage.summary import Summary
from bursar.core.storage.usage import Measure


def _none() -> Mapping[str, Measure]:
    return MappingProxyType({})


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """What the folders of one pod hold."""

    volumes: Mapping[str, Measure] = field(default_factory=_none)
    logs: Mapping[str, int] = field(default_factory=_nothing)
    """Logs of each container, in bytes."""
    other: int = 0
    """Files directly in the pod's log folder, and its `/etc/hosts`."""


class DiskError(Exception):
    """The folders of the node cannot be read. The text says why, in one line."""


@dataclass(slots=True)
class DiskCounts:
    """What the scans cost so far."""

    rounds: int = 0
    looks: int = 0
    """Files and folders that were looked at."""
    seconds: float = 0.0
    """Time of the processor."""
    folders: int = 0
    """Folders that are remembered."""
    unfinished: int = 0
    """Volumes whose scan did not end in the last round."""


class Disk(Protocol):
    @property
    def counts(self) -> DiskCounts: ...

    async def measure(self, pods: Sequence[StoragePod]) -> Mapping[str, DiskUse]:
        """The use of each pod, by uid, after a bounded time. Raises `DiskError`."""

    def filesystem(self) -> Filesystem:
        """The filesystem of the kubelet's folder. Raises `DiskError`."""


class SummaryError(Exception):
    """The kubelet's summary cannot be read. The text says why, in one line."""


class SummarySource(Protocol):
    async def read(self) -> Summary:
        """The kubelet's `/stats/summary`. Raises `SummaryError`."""
