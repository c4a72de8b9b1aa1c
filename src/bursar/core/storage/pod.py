"""The fields of a pod that matter for its local ephemeral storage."""

from dataclasses import dataclass

from bursar.core.model.quantity import ZERO, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageContainer:
    name: str
    request: Quantity = ZERO
    limit: Quantity | None = None
    """None without a limit. The kubelet takes a limit of zero as none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDirVolume:
    name: str
    size_limit: Quantity | None = None
    """None without a positive `sizeLimit`."""
    is_on_disk: bool = True
    """False for the media `Memory` and `HugePages`, which do not count as ephemeral storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePod:
    namespace: str
    name: str
    uid: str
    request: Quantity = ZERO
    """What the kubelet compares a pod's use with when the node's disk is nearly full."""
    limit: Quantity | None = None
    """The limit of the whole pod, overhead included; None if no container has one."""
    containers: tuple[StorageContainer, ...] = ()
    """App containers. The kubelet checks no limits of init containers and sidecars."""
    volumes: tuple[EmptyDirVolume, ...] = ()
    priority: int = 0
    is_critical: bool = False
    """Static pods, mirror pods and system-critical priorities, which are never evicted."""
    is_ended: bool = False
    has_user_namespace: bool = False
    """`hostUsers: false`. Only such a pod cannot change the project id of its files."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name
