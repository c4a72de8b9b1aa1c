"""A pod, as far as its devices go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bursar.core.devices.claim import Claims, no_amounts

CLAIM_PREFIX: Final = "claim:"
"""Before the name of a ResourceClaim, where a pod's status has the name of a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceContainer:
    name: str
    asks: Mapping[str, int] = field(default_factory=no_amounts)
    """Extended resources, the greater of request and limit, rounded up to whole units."""
    sidecars_before: int = 0
    """Of an init container: how many of the pod's sidecars run beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A device that the pod's own status says a container has."""

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
    """As the API writes it, so that texts compare as moments do."""
    scheduler: str = ""
    sidecars: tuple[DeviceContainer, ...] = ()
    """Init containers that stay; kubelet lists them first."""
    containers: tuple[DeviceContainer, ...] = ()
    passing: tuple[DeviceContainer, ...] = ()
    """Init containers that end before the others begin; kubelet's API does not list them."""
    claims: tuple[Claims, ...] = ()
    """By source, for those whose annotation is there."""
    stated: tuple[KnownDevice, ...] = ()
    """What kubelet wrote to the pod's status, where it does."""
    is_terminal: bool = False
    is_terminating: bool = False

    def asks_for(self, resource: str) -> int:
        """What it asks for as a whole, as schedulers see it: the most at any one time."""
        beside = [each.asks.get(resource, 0) for each in self.sidecars]
        running = sum(beside) + sum(each.asks.get(resource, 0) for each in self.containers)
        starting = (
            each.asks.get(resource, 0) + sum(beside[: each.sidecars_before])
            for each in self.passing
        )
        return max(running, *starting, 0)
