"""The fields of a pod that matter for its local ephemeral storage."""

from dataclasses import dataclass
from typing import Final

from bursar.core.model.cgroup.oom import is_critical
from bursar.core.model.demand import CONTAINERS_ALONE, pod_limits, pod_requests
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import ZERO, Quantity

RESOURCE: Final = "ephemeral-storage"


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


def storage_pod(pod: Pod, *, has_user_namespace: bool = False) -> StoragePod:
    return StoragePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        request=_request(pod),
        limit=pod_limits(pod).get(RESOURCE),
        containers=tuple(
            StorageContainer(
                name=each.name,
                request=each.resources.requests.get(RESOURCE, ZERO),
                limit=_positive(each.resources.limits.get(RESOURCE)),
            )
            for each in pod.containers
        ),
        volumes=tuple(
            EmptyDirVolume(
                name=each.name, size_limit=_positive(each.size_limit), is_on_disk=not each.medium
            )
            for each in pod.empty_dirs
        ),
        priority=pod.priority or 0,
        is_critical=is_critical(pod),
        is_ended=pod.is_terminated,
        has_user_namespace=has_user_namespace,
    )


def _positive(amount: Quantity | None) -> Quantity | None:
    return None if amount is None or amount <= ZERO else amount


def _request(pod: Pod) -> Quantity:
    """The request by which the kubelet ranks pods.

    Pod-level resources cannot have ephemeral storage, and with them the kubelet does not look at
    the containers. Overhead counts only on top of a request.
    """
    if pod.resources is not None and (pod.resources.requests or pod.resources.limits):
        return ZERO
    request = pod_requests(pod, CONTAINERS_ALONE).get(RESOURCE, ZERO)
    return request if request.is_zero else request + pod.overhead.get(RESOURCE, ZERO)
