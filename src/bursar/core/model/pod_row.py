"""A pod in a few hundred bytes: what accounting needs of each of a hundred thousand.

Whatever the pods of a workload have in common is one object that all of them refer to:
their labels, and in their *profile* everything else, above all what they ask for.
Amounts stay exact quantities; being shared, they need no smaller form. What differs
from pod to pod is packed.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from bursar.core.model.demand import ASSIGNED, QUOTA, pod_limits, pod_requests
from bursar.core.model.pod import PHASES_TERMINATED, Pod
from bursar.core.model.qos import QosClass, qos_class
from bursar.core.model.quantity import Quantity
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
        limits = pod_limits(pod, QUOTA)
        return cls(
            quota_requests=requests,
            quota_limits=requests if _look_alike(requests, limits) else MappingProxyType(limits),
            # The two ways differ in nothing but the pod's own status.
            assigned_requests=requests
            if pod.status_resources is None
            else MappingProxyType(pod_requests(pod, ASSIGNED)),
            qos=qos_class(pod),
        )


def _look_alike(one: ResourceList, other: ResourceList) -> bool:
    """Equal in all that is visible of the amounts, not only in the numbers."""
    return one == other and all(_looks(one[name]) == _looks(other[name]) for name in one)


def _looks(amount: Quantity) -> tuple[Hashable, ...]:
    return amount.format, amount.scale, amount.big, amount.verbatim


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
    crosses_namespaces: bool
    """Whether its pod (anti-)affinity looks into other namespaces; decides about that scope."""
    reported_qos: QosClass | None
    """The class the API server has stored; None for a pod it has not."""
    demand: PodDemand

    @property
    def qos(self) -> QosClass:
        """The class that scopes go by. A stored one stays, whatever its rules have become."""
        return self.reported_qos or self.demand.qos


class Deletion(NamedTuple):
    """A deletion under way."""

    due_s: int
    """When the pod has to be gone, in seconds since 1970, its grace included."""
    grace_s: int | None
    """`deletionGracePeriodSeconds`; None if the object does not say."""


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


class Extras(NamedTuple):
    """What only some pods have."""

    deletion: Deletion | None = None
    facts: Hashable | None = None


class PodRow(NamedTuple):
    """One pod. A tuple, because it is the smallest thing that can still name its parts."""

    name: str
    packed_stamp: bytes | Stamp
    label_texts: tuple[str, ...]
    """Keys and values in turn."""
    node_name: str
    phase: str
    extras: Extras | None
    """None for a pod that is not being deleted and has no facts, so that it costs no memory."""
    profile: PodProfile

    @property
    def deletion(self) -> Deletion | None:
        """The deletion under way; None if nobody has asked for one."""
        return None if self.extras is None else self.extras.deletion

    @property
    def facts(self) -> Hashable | None:
        """What a counter derived from the whole pod; None if it needs nothing more."""
        return None if self.extras is None else self.extras.facts

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


# ------------------------------------------------------------------ from a pod decoded whole

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_QOS: Final = {qos.value: qos for qos in QosClass}


def row_of(pod: Pod) -> PodRow:
    """The row of a pod that was read from a file, with nothing shared and no resource version."""
    return PodRow(
        pod.name,
        Stamp(pod.uid, "", 0 if pod.created_at is None else epoch_s(pod.created_at)).packed(),
        tuple(text for pair in pod.labels.items() for text in pair),
        pod.node_name,
        pod.phase,
        None
        if pod.deleted_at is None
        else Extras(Deletion(epoch_s(pod.deleted_at), pod.deletion_grace_s)),
        PodProfile(
            namespace=pod.namespace,
            priority=pod.priority,
            priority_class=pod.priority_class,
            runtime_class=pod.runtime_class,
            gates=pod.scheduling_gates,
            deadline_s=pod.deadline_s,
            crosses_namespaces=pod.crosses_namespaces,
            reported_qos=stored_qos(pod.reported_qos),
            demand=PodDemand.of(pod),
        ),
    )


def stored_qos(text: str) -> QosClass | None:
    """The class named in a pod's status; None for a text that names none."""
    return _QOS.get(text)


def epoch_s(time: datetime) -> int:
    """Whole seconds since 1970."""
    return (time - _EPOCH) // _SECOND
