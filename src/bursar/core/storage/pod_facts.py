"""What a pod's spec says about its local ephemeral storage."""

from bursar.core.model.cgroup.oom import is_critical
from bursar.core.model.demand import CONTAINERS_ALONE, pod_limits, pod_requests
from bursar.core.model.names import EPHEMERAL_STORAGE
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.storage.pod import EmptyDirVolume, StorageContainer, StoragePod


def storage_pod(pod: Pod, *, has_user_namespace: bool = False) -> StoragePod:
    return StoragePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        request=_request(pod),
        limit=pod_limits(pod).get(EPHEMERAL_STORAGE),
        containers=tuple(
            StorageContainer(
                name=each.name,
                request=each.resources.requests.get(EPHEMERAL_STORAGE, ZERO),
                limit=_positive(each.resources.limits.get(EPHEMERAL_STORAGE)),
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
    request = pod_requests(pod, CONTAINERS_ALONE).get(EPHEMERAL_STORAGE, ZERO)
    return request if request.is_zero else request + pod.overhead.get(EPHEMERAL_STORAGE, ZERO)
