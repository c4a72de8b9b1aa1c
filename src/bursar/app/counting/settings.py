"""How an installation counts pods: the settings of every counter."""

from dataclasses import dataclass, field

from bursar.core.counting.devices import DeviceCounting
from bursar.core.counting.peer_pods import PeerPodCounting


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingSettings:
    """By default, peer pods are charged for their VMs, and all other pods are counted natively."""

    peer_pods: PeerPodCounting = field(default_factory=PeerPodCounting)
    devices: DeviceCounting = field(default_factory=DeviceCounting)
