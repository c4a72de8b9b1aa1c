"""What a pod wants of the other pods on a node: free ports, pods near it, pods far from it.

Only required rules are here. Preferred ones change which node the scheduler chooses, never
whether there is one.
"""

from dataclasses import dataclass
from typing import Final

from bursar.core.model.selector import NOTHING, Selector

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the text in a pod, nothing is bound to it
TCP: Final = "TCP"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A port of the node that a container takes."""

    port: int
    protocol: str = TCP
    address: str = ANY_ADDRESS

    def conflicts_with(self, other: "HostPort") -> bool:
        """The same port and protocol, and the same address or one that is every address."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in {self.address, other.address}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """One required term of `podAffinity` or `podAntiAffinity`."""

    topology_key: str
    selector: Selector = NOTHING
    own_namespace: bool = True
    """Whether the term is about the namespace of the pod that has it."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """One of `topologySpreadConstraints` with `whenUnsatisfiable: DoNotSchedule`."""

    topology_key: str
    max_skew: int = 1
    selector: Selector = NOTHING
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether nodes count that the pod's node selector and affinity exclude: not if true."""
    honors_taints: bool = False
    """Whether nodes count whose taints the pod does not tolerate: not if true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRules:
    """The rules of one pod about other pods, and the volumes that it waits for."""

    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[str, ...] = ()
    """Names of volumes that may tie the pod to some nodes, such as PersistentVolumeClaims."""


NO_RULES: Final = SchedulingRules()
