"""A pod, as far as its devices go."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.core.devices.claim import Claims, no_amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceContainer:
    name: str
    asks: Mapping[str, int] = field(default_factory=no_amounts)
    """Extended resources, the greater of request and limit, rounded up to whole units."""


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
    claims: tuple[Claims, ...] = ()
    """By source, for those whose annotation is there."""
    stated: tuple[KnownDevice, ...] = ()
    """What kubelet wrote to the pod's status, where it does."""
    is_terminal: bool = False
    is_terminating: bool = False
