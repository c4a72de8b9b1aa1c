"""A pod in a few hundred bytes: what accounting needs of each of a hundred thousand.

Whatever the pods of a workload have in common is one object that all of them refer to:
their labels, and in their *profile* everything else, above all what they ask for.
Amounts stay exact quantities; being shared, they need no smaller form. What differs
from pod to pod is packed.
"""

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from bursar.core.model.demand import ASSIGNED, QUOTA, pod_limits, pod_requests
from bursar.core.model.pod import PHASES_TERMINATED, Pod
from bursar.core.model.qos import QosClass, qos_class
from bursar.core.model.resources import ResourceList


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """What a pod asks for, by everybody's way of counting. Many pods share one."""

    quota_requests: ResourceList
    """What a quota counts."""
    quota_limits: ResourceList
    assigned_requests: ResourceList
    """What the scheduler counts once the pod sits on a node."""
    qos: QosClass

    @classmethod
    def of(cls, pod: Pod) -> "PodDemand":
        requests = MappingProxyType(pod_requests(pod, QUOTA))
        return cls(
            quota_requests=requests,
            quota_limits=MappingProxyType(pod_limits(pod, QUOTA)),
            # The two ways differ in nothing but the pod's own status.
            assigned_requests=requests
            if pod.status_resources is None
            else MappingProxyType(pod_requests(pod, ASSIGNED)),
            qos=qos_class(pod),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProfile:
    """What the pods of a workload have in common. They all refer to one."""

    namespace: str
    priority: int | None
    priority_class: str
    runtime_class: str
    gates: tuple[str, ...]
    deadline_s: int | None
    """`activeDeadlineSeconds`, which decides about the scope Terminating."""
    demand: PodDemand


class Stamp(NamedTuple):
    """Which pod, in which state, and since when: what no two pods have in common."""

    uid: str
    resource_version: str
    created_s: int
    """Seconds since 1970; 0 if the object does not say."""

    def packed(self) -> "bytes | Stamp":
        """The same in 29 bytes; itself if it is not what an API server writes."""
        if (
            _UUID.fullmatch(self.uid)
            and _DECIMAL.fullmatch(self.resource_version)
            and 0 <= self.created_s < _CREATED_MAX
        ):
            return (
                bytes.fromhex(self.uid.replace("-", ""))
                + int(self.resource_version).to_bytes(8)
                + self.created_s.to_bytes(5)
            )
        return self


_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CREATED_MAX: Final = 1 << 40
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def _unpacked(stamp: bytes) -> Stamp:
    uid = stamp[:16].hex()
    return Stamp(
        f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}",
        str(int.from_bytes(stamp[16:24])),
        int.from_bytes(stamp[24:]),
    )


class PodRow(NamedTuple):
    """One pod. A tuple, because it is the smallest thing that can still name its parts."""

    name: str
    packed_stamp: bytes | Stamp
    label_texts: tuple[str, ...]
    """Keys and values in turn."""
    node_name: str
    phase: str
    deletion_s: int | None
    """When a deletion under way is due; None while nobody has asked for one."""
    profile: PodProfile

    @property
    def stamp(self) -> Stamp:
        held = self.packed_stamp
        return _unpacked(held) if isinstance(held, bytes) else held

    @property
    def namespace(self) -> str:
        return self.profile.namespace

    @property
    def demand(self) -> PodDemand:
        return self.profile.demand

    @property
    def labels(self) -> dict[str, str]:
        return dict(zip(self.label_texts[::2], self.label_texts[1::2], strict=True))

    @property
    def is_terminated(self) -> bool:
        return self.phase in PHASES_TERMINATED
