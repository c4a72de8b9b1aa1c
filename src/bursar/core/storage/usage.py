"""How much of the node's disk a pod uses, as the kubelet adds it up. Amounts are bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final


class Way(Enum):
    """How a folder was measured."""

    SCAN = "scan"
    """Blocks of the files that are in the folder. Files that were deleted while a process has
    them open are missing."""
    QUOTA = "quota"
    """The filesystem's own count by project id. Deleted files that are open are included."""
    KUBELET = "kubelet"
    """The kubelet's figure of `/stats/summary`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The size of one folder."""

    used: int
    inodes: int = 0
    way: Way = Way.SCAN
    is_complete: bool = True
    """False: at least this much. The folder is not measured to its end."""
    problem: str = ""
    """Why the measure is not complete, or could be wrong."""
    age_ms: int = 0
    """A change of a file is seen at the latest after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUse:
    writable: int | None = None
    """The writable layer; None if it is not known."""
    logs: int | None = None

    @property
    def is_known(self) -> bool:
        return self.writable is not None and self.logs is not None


NO_USE: Final = ContainerUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    containers: Mapping[str, ContainerUse] = field(default_factory=lambda: MappingProxyType({}))
    volumes: Mapping[str, Measure] = field(default_factory=lambda: MappingProxyType({}))
    """Volumes on the node's disk: emptyDir volumes and configMap volumes."""
    other: int = 0
    """The pod's `/etc/hosts` file, and files directly in its log folder."""

    @property
    def total(self) -> int:
        """What counts against the pod's limit. What is not known adds nothing."""
        return self.writable + self.logs + self.volume_bytes + self.other

    @property
    def logs(self) -> int:
        return sum(each.logs or 0 for each in self.containers.values())

    @property
    def writable(self) -> int:
        return sum(each.writable or 0 for each in self.containers.values())

    @property
    def volume_bytes(self) -> int:
        return sum(each.used for each in self.volumes.values())

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing in `total`."""
        return all(each.is_known for each in self.containers.values()) and all(
            each.is_complete for each in self.volumes.values()
        )

    @property
    def age_ms(self) -> int:
        return max((each.age_ms for each in self.volumes.values()), default=0)
