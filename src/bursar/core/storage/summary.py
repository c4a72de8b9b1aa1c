"""The kubelet's own figures of disk use, which its `/stats/summary` reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bursar.core.storage.pressure import Filesystem
from bursar.core.storage.usage import ContainerUse


def _no_containers() -> Mapping[str, ContainerUse]:
    return MappingProxyType({})


def _no_volumes() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    namespace: str
    name: str
    uid: str
    containers: Mapping[str, ContainerUse] = field(default_factory=_no_containers)
    volumes: Mapping[str, int] = field(default_factory=_no_volumes)
    """Bytes used, of volumes of every kind."""
    ephemeral: int | None = None
    """The kubelet's sum, which it compares with the pod's limit."""


def _no_pods() -> Mapping[str, PodSummary]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    node: str = ""
    pods: Mapping[str, PodSummary] = field(default_factory=_no_pods)
    """By uid."""
    nodefs: Filesystem | None = None
    imagefs: Filesystem | None = None

    @property
    def has_image_filesystem(self) -> bool:
        """Whether images have a filesystem of their own.

        The summary does not name devices. Equal sizes and equal numbers of inodes are taken as one
        filesystem.
        """
        if self.nodefs is None or self.imagefs is None:
            return False
        node, image = self.nodefs, self.imagefs
        return (node.capacity, node.inodes) != (image.capacity, image.inodes)
