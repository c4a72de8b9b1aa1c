"""The fields of a pod that matter for its devices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bursar.core.devices.allocation import PodKey
from bursar.core.devices.claim import Claims, no_amounts

if TYPE_CHECKING:
    # Only agents that account for the node's disk load it.
    from bursar.core.storage.pod import StoragePod

CLAIM_PREFIX: Final = "claim:"
"""Prefix of a resource name in a pod's status if a ResourceClaim provides the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceContainer:
    name: str
    asks: Mapping[str, int] = field(default_factory=no_amounts)
    """Extended resources: the greater of request and limit, rounded up to whole units."""
    sidecars_before: int = 0
    """For an init container: how many sidecars are started before it and run beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDevice:
    """A device of a container in the pod's status (`allocatedResourcesStatus`)."""

    container: str
    resource: str
    device: str
    health: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePod:
    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    created: str = ""
    """`creationTimestamp` as the API writes it; as text it sorts by time."""
    scheduler: str = ""
    sidecars: tuple[DeviceContainer, ...] = ()
    """Init containers with restartPolicy Always; kubelet lists them first."""
    containers: tuple[DeviceContainer, ...] = ()
    init_containers: tuple[DeviceContainer, ...] = ()
    """Init containers that end before the app containers start; kubelet does not list them."""
    claims: tuple[Claims, ...] = ()
    """One for each source whose annotation the pod has."""
    status_devices: tuple[StatusDevice, ...] = ()
    """Devices in the pod's status, if kubelet writes them."""
    is_terminal: bool = False
    is_terminating: bool = False
    storage: "StoragePod | None" = None
    """What the accounting of the node's disk needs, which shares the cached pods with devices. None
    if the decoder was not asked for it."""

    @property
    def key(self) -> PodKey:
        return self.namespace, self.name

    def asks_for(self, resource: str) -> int:
        """The pod's total request, as the scheduler computes it: the most at any one time."""
        sidecars = [each.asks.get(resource, 0) for each in self.sidecars]
        running = sum(sidecars) + sum(each.asks.get(resource, 0) for each in self.containers)
        starting = (
            each.asks.get(resource, 0) + sum(sidecars[: each.sidecars_before])
            for each in self.init_containers
        )
        return max(running, *starting, 0)


def live_pods(pods: Iterable[DevicePod]) -> dict[PodKey, DevicePod]:
    """The pods by key. Of pods with the same key the one that lives is kept.

    A new pod may have the name of one that is still being deleted. Pods that have not ended
    win, then pods that are not being deleted, then the newest.
    """
    chosen: dict[PodKey, DevicePod] = {}
    for pod in pods:
        other = chosen.get(pod.key)
        if other is None or _rank(pod) > _rank(other):
            chosen[pod.key] = pod
    return chosen


def _rank(pod: DevicePod) -> tuple[bool, bool, str, str]:
    return not pod.is_terminal, not pod.is_terminating, pod.created, pod.uid
