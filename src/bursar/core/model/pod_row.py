"""A pod in a few hundred bytes, for processes that hold all pods of a cluster.

Pods of one workload share a *profile* with all common fields, including the demand. Amounts stay
exact quantities; because they are shared, they need no smaller form. Fields that differ between
pods are packed. Labels are not kept: a tenant can write twenty thousand, and a counter that needs
some of them has them in its facts.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from bursar.core.model.demand import ASSIGNED, QUOTA, pod_limits, pod_requests
from bursar.core.model.names import CPU, EPHEMERAL_STORAGE, MEMORY
from bursar.core.model.pod import PHASES_TERMINATED, Pod
from bursar.core.model.qos import QosClass, qos_class, stored_qos
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import NOTHING, ResourceList

QUOTA_GATE: Final = "ApplicationAwareQuotaGate"
"""The scheduling gate that a pod keeps until its quotas have enough free."""
OTHER_GATES_MAX: Final = 10
"""Most scheduling gates of others that are kept by name. A tenant can write tens of thousands."""
NAMES_MAX: Final = 128
NAMES_LENGTH_MAX: Final = 8192
"""Resource names, and characters in them, up to which amounts of a pod are counted in advance.

A name has up to 317 characters. See `PodDemand.rest`.
"""
DEMAND_BYTES: Final = 512
NAME_BYTES: Final = 256
"""Approximate bytes of a demand, and of one amount in it with its name."""
ALWAYS_COUNTED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""The resource names that are counted of every pod, however many others it has."""
TOO_MANY_NAMES: Final = (
    f"the pod has more than {NAMES_MAX} resource names, or more than {NAMES_LENGTH_MAX} characters "
    "in them, so that it can only be counted natively"
)


class DemandInNames(Protocol):
    """Counts a pod that has very many resource names, from a compressed form of it."""

    @property
    def weight(self) -> int:
        """Bytes of the compressed form."""

    def __call__(self, names: frozenset[str]) -> "PodDemand":
        """The demand in these resource names only. The QoS class follows from them alone."""


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class PodDemand:
    """The demand of a pod as quota and scheduler count it. Many pods share one object.

    A tenant can give a pod fifteen thousand resource names. Of a pod with more than `NAMES_MAX`, or
    with longer ones than `NAMES_LENGTH_MAX` together, only `ALWAYS_COUNTED` are in the lists here;
    `in_names` counts others if a quota lists them.
    """

    quota_requests: ResourceList
    """Requests as quotas count them."""
    quota_limits: ResourceList
    assigned_requests: ResourceList
    """Requests as the scheduler counts them for a pod with a node."""
    qos: QosClass
    rest: DemandInNames | None = None
    """Counts other names than `ALWAYS_COUNTED`; None if the lists above have all names."""

    @property
    def weight(self) -> int:
        """Approximate bytes in memory that are not shared with other demands."""
        lists = (self.quota_requests, self.quota_limits)
        names = sum(map(len, lists)) * NAME_BYTES
        return DEMAND_BYTES + names + (0 if self.rest is None else self.rest.weight)

    def in_names(self, names: Iterable[str]) -> "PodDemand":
        """The demand with at least these resource names.

        Of limits, which no quota counts under other names, it may have `ALWAYS_COUNTED` only.
        """
        return self if self.rest is None else self.rest(frozenset(names))

    @classmethod
    def of(cls, pod: Pod) -> "PodDemand":
        requests = MappingProxyType(pod_requests(pod, QUOTA))
        limits = pod_limits(pod, QUOTA)
        return cls(
            quota_requests=requests,
            quota_limits=_shared_limits(requests, limits),
            # The two differ only in the use of pod-level status.
            assigned_requests=requests
            if pod.status_resources is None
            else MappingProxyType(pod_requests(pod, ASSIGNED)),
            qos=qos_class(pod),
        )


def _shared_limits(requests: ResourceList, limits: ResourceList) -> ResourceList:
    """The limits, as an object that is there already if possible."""
    if not limits:
        return NOTHING
    return requests if _look_alike(requests, limits) else MappingProxyType(limits)


def _look_alike(one: ResourceList, other: ResourceList) -> bool:
    """Whether amounts are equal in value, text and format."""
    return one == other and all(_looks(one[name]) == _looks(other[name]) for name in one)


def _looks(amount: Quantity) -> tuple[Hashable, ...]:
    return amount.format, amount.scale, amount.big, amount.verbatim


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class PodProfile:
    """The fields that pods of a workload have in common. They share one object."""

    namespace: str
    priority: int | None
    priority_class: str
    runtime_class: str
    gates: tuple[str, ...]
    """The quota gate, if the pod has it, and at most `OTHER_GATES_MAX` scheduling gates of others.
    """
    deadline_s: int | None
    """`activeDeadlineSeconds`, for the quota scope Terminating."""
    crosses_namespaces: bool
    """Whether its pod affinity crosses namespaces, for the scope CrossNamespacePodAffinity."""
    reported_qos: QosClass | None
    """The QoS class in the status; None if there is none."""
    demand: PodDemand
    gates_left_out: int = 0
    """How many further scheduling gates the pod has."""
    gate_index: int = 0
    """The index of the quota gate in `spec.schedulingGates`, if the pod has it."""

    @property
    def qos(self) -> QosClass:
        """The QoS class for quota scopes: the stored one, else the computed one."""
        return self.reported_qos or self.demand.qos


class Gates(NamedTuple):
    """The fields of a profile about scheduling gates."""

    kept: tuple[str, ...]
    left_out: int
    place: int
    """The index of the quota gate, if the pod has it."""

    @classmethod
    def of(cls, names: Sequence[str]) -> "Gates":
        """Keep the quota gate and the first ones of others, in the order of the pod."""
        has_gate = QUOTA_GATE in names
        others = [name for name in names if name != QUOTA_GATE][:OTHER_GATES_MAX]
        kept = tuple(name for name in names if name == QUOTA_GATE or name in others)
        return cls(kept, len(names) - len(kept), names.index(QUOTA_GATE) if has_gate else 0)


class Deletion(NamedTuple):
    """A pending deletion."""

    due_s: int
    """`deletionTimestamp` in seconds since 1970. It includes the grace period."""
    grace_s: int | None
    """`deletionGracePeriodSeconds`; None if it is absent."""


class Stamp(NamedTuple):
    """The uid, resourceVersion and creation time of a pod."""

    uid: str
    resource_version: str
    created_s: int
    """Creation time in seconds since 1970; 0 if it is absent."""

    def packed(self) -> "bytes | Stamp":
        """The stamp in 29 bytes; the stamp itself if its values have no packed form."""
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


def _unpacked_uid(stamp: bytes) -> str:
    uid = stamp[:16].hex()
    return f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}"


def _unpacked(stamp: bytes) -> Stamp:
    return Stamp(
        _unpacked_uid(stamp),
        str(int.from_bytes(stamp[16:24])),
        int.from_bytes(stamp[24:]),
    )


DeriveFacts: TypeAlias = Callable[[bytes], Hashable | None]
"""Given a whole pod as JSON, returns what the counter needs beyond the fields of a row.

It is called each time a pod is decoded, and the result is kept in `PodRow.facts`, so it should
be small. It must not raise, whatever the pod's owner has written.
"""


class Extras(NamedTuple):
    """What only some pods have."""

    deletion: Deletion | None = None
    facts: Hashable | None = None


class PodRow(NamedTuple):
    """One pod. A named tuple needs the least memory."""

    name: str
    packed_stamp: bytes | Stamp
    node_name: str
    phase: str
    extras: Extras | None
    """None for a pod that is not being deleted and has no facts, so that it costs no memory."""
    profile: PodProfile

    @property
    def deletion(self) -> Deletion | None:
        """The deletion under way; None if none was requested."""
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
    def uid(self) -> str:
        """The uid of the stamp. The books need it for every pod, and unpack nothing else."""
        held = self.packed_stamp
        return _unpacked_uid(held) if isinstance(held, bytes) else held.uid

    @property
    def created_s(self) -> int:
        """The creation time of the stamp. As for `uid`, nothing else is unpacked."""
        held = self.packed_stamp
        return int.from_bytes(held[24:]) if isinstance(held, bytes) else held.created_s

    @property
    def namespace(self) -> str:
        return self.profile.namespace

    @property
    def demand(self) -> PodDemand:
        return self.profile.demand

    @property
    def is_terminated(self) -> bool:
        return self.phase in PHASES_TERMINATED


# ------------------------------------------------------------------ from a pod decoded whole

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def row_of(pod: Pod, facts: Hashable | None = None) -> PodRow:
    """The row of a pod from a file. It shares nothing and has no resourceVersion.

    `facts` is what the counter derived from the whole pod.
    """
    gates = Gates.of(pod.scheduling_gates)
    deletion = (
        None if pod.deleted_at is None else Deletion(epoch_s(pod.deleted_at), pod.deletion_grace_s)
    )
    return PodRow(
        pod.name,
        Stamp(pod.uid, "", 0 if pod.created_at is None else epoch_s(pod.created_at)).packed(),
        pod.node_name,
        pod.phase,
        None if deletion is None and facts is None else Extras(deletion, facts),
        PodProfile(
            namespace=pod.namespace,
            priority=pod.priority,
            priority_class=pod.priority_class,
            runtime_class=pod.runtime_class,
            gates=gates.kept,
            deadline_s=pod.deadline_s,
            crosses_namespaces=pod.crosses_namespaces,
            reported_qos=stored_qos(pod.reported_qos),
            demand=PodDemand.of(pod),
            gates_left_out=gates.left_out,
            gate_index=gates.place,
        ),
    )


def epoch_s(time: datetime) -> int:
    """Whole seconds since 1970."""
    return (time - _EPOCH) // _SECOND
