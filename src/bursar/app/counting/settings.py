"""How an installation counts pods: the settings of every counter."""

from dataclasses import dataclass, field

from bursar.app.counting.sidecars.settings import SidecarSettings
from bursar.core.counting.device_settings import DeviceCounting
from bursar.core.counting.peer_pods import PeerPodCounting
from bursar.core.kubevirt.mode import VmiMode


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingSettings:
    """By default, peer pods are charged for their VMs, and all other pods are counted natively.

    The migration of a VM is not charged twice.
    """

    vmi_mode: VmiMode = VmiMode.POD_USAGE
    """How pods of KubeVirt's VMs are counted. AAQ's controller has the same default.

    Without the policies of `bursar manifests kubevirt`, a tenant gains least by forged launcher
    pods in this mode: ADR 0016 says how much.
    """
    peer_pods: PeerPodCounting = field(default_factory=PeerPodCounting)
    devices: DeviceCounting = field(default_factory=DeviceCounting)
    sidecars: SidecarSettings | None = None
    policies: bool = False
    """Count by CountingPolicies. Pods are then kept whole, which needs memory."""
