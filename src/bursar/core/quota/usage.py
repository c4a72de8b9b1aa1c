"""What Kubernetes counts for one pod.

Every stored pod counts as an object (`count/pods`). All other names, `pods` included, count
only until the pod has ended: until it has finished, or its deletion is overdue, as it is for
pods of a lost node.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bursar.core.model.names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    PODS,
    QUOTA_REQUESTS_PREFIX,
    is_extended,
    is_hugepages,
)
from bursar.core.model.pod_row import ALWAYS_COUNTED, DemandInNames, PodDemand, PodRow
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.names import DEVICE_CLASS_PREFIX, LIMITS_PREFIX, POD_COUNT

_ONE: Final = Quantity.of(1)
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_REQUESTS: Final = {name: QUOTA_REQUESTS_PREFIX + name for name in _COMPUTE}
"""The names of their requests, as the same texts for all pods."""


def is_counted(row: PodRow, now_s: int) -> bool:
    """Whether the pod has not ended, so that it counts for more than an object.

    The grace period of a deletion is added to its deletionTimestamp, which already includes it.
    Kubernetes' quota evaluator does the same.
    """
    if row.is_terminated:
        return False
    deletion = row.deletion
    if deletion is None or deletion.grace_s is None:
        return True
    return now_s <= deletion.due_s + deletion.grace_s


def native_usage(demand: PodDemand, *, is_counted: bool) -> ResourceList:
    """What a ResourceQuota counts for the pod, by the names that a quota may list."""
    if not is_counted:
        return {POD_COUNT: _ONE}
    return {POD_COUNT: _ONE, PODS: _ONE} | dict(_computed(demand))


def counted_resource(name: str) -> str:
    """The resource that a name in a quota counts the requests of; empty if there is none.

    >>> [counted_resource(each) for each in ("requests.example.com/gpu", "hugepages-2Mi", "pods")]
    ['example.com/gpu', 'hugepages-2Mi', '']
    """
    if name.startswith(QUOTA_REQUESTS_PREFIX):
        return name.removeprefix(QUOTA_REQUESTS_PREFIX)
    return name if name.startswith(HUGEPAGES_PREFIX) else ""


def is_always_counted(name: str) -> bool:
    """Whether the native usage of every pod has this name, however many names the pod has."""
    resource = counted_resource(name)
    return not resource or resource in ALWAYS_COUNTED


def native_usage_in(rest: DemandInNames, names: Iterable[str]) -> ResourceList:
    """The native usage in these names, of a pod that has very many.

    `rest` is that of the pod's demand.
    """
    resources = frozenset(filter(None, map(counted_resource, names)))
    return native_usage(rest(resources), is_counted=True)


def _computed(demand: PodDemand) -> Iterator[tuple[str, Quantity]]:
    for name, amount in demand.quota_requests.items():
        if name in _COMPUTE or is_hugepages(name):
            yield name, amount
            yield _REQUESTS.get(name) or QUOTA_REQUESTS_PREFIX + name, amount
        elif is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX):
            yield QUOTA_REQUESTS_PREFIX + name, amount
    for name in _COMPUTE:
        if name in demand.quota_limits:
            yield LIMITS_PREFIX + name, demand.quota_limits[name]
