"""Decoding pods from the API server's JSON to rows of a few hundred bytes.

The structs here are a subset of `wire.model.pod`, because the controller keeps every pod of the
cluster and decodes it again with each watch event. `benchmarks/informer.py` measures 413 bytes
for a row and 7,463 for the same pod as structs of `wire.model.pod`; a row also takes a third of
the time of a core pod.

The fields that decide the demand of a pod stay undecoded. Pods of one workload have the same
bytes there, so a digest of these bytes finds a demand that was computed before. A demand that
was not seen yet is computed by the code for all pods (`wire.model.pod.to_core`,
`core.model.demand`), so there is no second set of rules that could differ.

Tenants write pods, so no cache here grows with what they write: profiles live as long as a row has
them, and the other caches are bounded by bytes. Of a pod with very many resource names, only few
are counted at once, and the others are kept compressed (`wire.model.wide_demand`).
"""

from datetime import datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from bursar.core.model.pod import CONDITION_RESIZE_PENDING
from bursar.core.model.pod_row import (
    Deletion,
    DeriveFacts,
    Extras,
    Gates,
    PodDemand,
    PodProfile,
    PodRow,
    Stamp,
    epoch_s,
)
from bursar.core.model.qos import stored_qos
from bursar.core.sharing import Generations, Living
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.scheduling import PodAffinity
from bursar.wire.model.wide_demand import demand_of
from bursar.wire.structs.fields import FieldError, RawResourceList
from bursar.wire.structs.interning import Interner, text_bytes
from bursar.wire.structs.metadata import Condition, Named
from bursar.wire.structs.struct import Struct

try:
    # hashlib has this function too, but imports OpenSSL for its others, which takes long.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

TEXTS_MAX: Final = 16_384
TEXTS_BYTES_MAX: Final = 2 << 20
DEMANDS_MAX: Final = 512
DEMANDS_BYTES_MAX: Final = 1 << 20
"""Bounds of each of the two generations of a cache. Tenants control what is cached."""

_ABSENT: Final = msgspec.Raw(b"null")
_Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class _RowMeta(Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: _Time | None = None
    deletion_timestamp: _Time | None = None
    deletion_grace_period_seconds: int | None = None


class _RowContainer(Struct):
    name: msgspec.Raw = _ABSENT
    restart_policy: msgspec.Raw = _ABSENT
    resources: msgspec.Raw = _ABSENT


class _RowAffinity(Struct):
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class RowSpec(Struct):
    """The spec of a pod. What only decides its demand is not decoded."""

    containers: list[_RowContainer] | None = None
    init_containers: list[_RowContainer] | None = None
    resources: msgspec.Raw = _ABSENT
    overhead: msgspec.Raw = _ABSENT
    node_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None
    scheduling_gates: msgspec.Raw = _ABSENT
    active_deadline_seconds: int | None = None
    affinity: _RowAffinity | None = None


class _RowContainerStatus(Struct):
    name: msgspec.Raw = _ABSENT
    resources: msgspec.Raw = _ABSENT
    allocated_resources: msgspec.Raw = _ABSENT


class _RowCondition(Struct):
    type: str | None = None
    reason: str | None = None


class RowStatus(Struct):
    """The status of a pod. What only decides its demand is not decoded."""

    phase: str | None = None
    qos_class: str | None = None
    conditions: list[_RowCondition] | None = None
    container_statuses: list[_RowContainerStatus] | None = None
    init_container_statuses: list[_RowContainerStatus] | None = None
    resources: msgspec.Raw = _ABSENT
    allocated_resources: msgspec.Raw = _ABSENT


class _RowPod(Struct):
    metadata: _RowMeta | None = None
    spec: RowSpec | None = None
    status: RowStatus | None = None


_NO_META: Final = _RowMeta()
_NO_SPEC: Final = RowSpec()
_NO_STATUS: Final = RowStatus()
_PODS: Final = msgspec.json.Decoder(_RowPod)
_REQUIREMENTS: Final = msgspec.json.Decoder(wire_pod.ResourceRequirements | None)
_TEXT: Final = msgspec.json.Decoder(str | None)
_GATES: Final = msgspec.json.Decoder(list[Named] | None)
_AMOUNTS: Final = msgspec.json.Decoder(RawResourceList | None)
_ENCODER: Final = msgspec.json.Encoder()


class PodRowDecoder:
    """Decodes pods to rows. It caches what pods have in common, so use one decoder for all pods."""

    def __init__(self, derive_facts: DeriveFacts | None = None) -> None:
        """`derive_facts` derives what the counter needs of a pod beyond a row; None: nothing."""
        self._derive_facts = derive_facts
        self._texts: Interner[str] = Interner(TEXTS_MAX, text_bytes, TEXTS_BYTES_MAX)
        self._demands: Generations[bytes, PodDemand] = Generations(
            DEMANDS_MAX, lambda demand: demand.weight, DEMANDS_BYTES_MAX
        )
        self._profiles: Living[bytes, PodProfile] = Living()

    def decode(self, body: bytes) -> PodRow:
        """Decode a pod. Raises `FieldError` or another `ValueError`."""
        pod = _PODS.decode(body)
        meta, status = pod.metadata or _NO_META, pod.status or _NO_STATUS
        spec = pod.spec or _NO_SPEC
        if not meta.name:
            raise FieldError("metadata.name", "required, but missing")
        text = self._texts.shared
        created, due = meta.creation_timestamp, meta.deletion_timestamp
        stamp = Stamp(
            meta.uid or "",
            meta.resource_version or "",
            0 if created is None else epoch_s(created),
        )
        return PodRow(
            meta.name,
            stamp.packed(),
            text(spec.node_name or ""),
            text(status.phase or ""),
            self._extras(body, due, meta.deletion_grace_period_seconds),
            self._profile(meta.namespace or "", spec, status),
        )

    def _extras(self, body: bytes, due: datetime | None, grace_s: int | None) -> Extras | None:
        derive = self._derive_facts
        facts = None if derive is None else derive(body)
        deletion = None if due is None else Deletion(epoch_s(due), grace_s)
        return None if deletion is None and facts is None else Extras(deletion, facts)

    def _profile(self, namespace: str, spec: RowSpec, status: RowStatus) -> PodProfile:
        crosses = spec.affinity is not None and wire_pod.crosses_namespaces(
            spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
        )
        shape = (
            namespace,
            spec.priority,
            spec.priority_class_name or "",
            spec.runtime_class_name or "",
            spec.active_deadline_seconds,
            crosses,
            status.qos_class,
        )
        digest = decisive_digest(spec, status)
        of_demand = digest.digest()
        digest.update(_ENCODER.encode(shape))
        digest.update(spec.scheduling_gates)
        of_profile = digest.digest()
        profile = self._profiles.find(of_profile)
        if profile is None:
            text = self._texts.shared
            gates = Gates.of(
                [gate.name or "" for gate in _GATES.decode(spec.scheduling_gates) or ()]
            )
            profile = PodProfile(
                namespace=text(namespace),
                priority=spec.priority,
                priority_class=text(spec.priority_class_name or ""),
                runtime_class=text(spec.runtime_class_name or ""),
                gates=tuple([text(gate) for gate in gates.kept]),
                deadline_s=spec.active_deadline_seconds,
                crosses_namespaces=crosses,
                reported_qos=stored_qos(status.qos_class or ""),
                demand=self._demand(of_demand, spec, status),
                gates_left_out=gates.left_out,
                gate_index=gates.place,
            )
            self._profiles.keep(of_profile, profile)
        return profile

    def _demand(self, digest: bytes, spec: RowSpec, status: RowStatus) -> PodDemand:
        demand = self._demands.find(digest)
        if demand is None:
            demand = demand_of(counted_part(spec, status))
            self._demands.keep(digest, demand)
        return demand


# ------------------------------------------------------------------ what decides a demand


def decisive_digest(spec: RowSpec, status: RowStatus) -> blake2b:
    """A digest of all that decides the demand of a pod, to be updated with more.

    Its collisions cannot be constructed, and among 10**9 pods one occurs with a probability of
    10**-30.
    """
    return blake2b(_decisive_bytes(spec, status), digest_size=20)


def _decisive_bytes(spec: RowSpec, status: RowStatus) -> bytes:
    """The bytes that decide the demand: everything that `counted_part` reads.

    The counts separate the sections. The status of containers is left out if it repeats the spec,
    as for nearly all pods, because it then has no effect. Names of containers only assign a status
    to its container, so they are left out as well.
    """
    containers, starting = spec.containers or [], spec.init_containers or []
    statuses = status.container_statuses or []
    init_statuses = status.init_container_statuses or []
    is_settled = _is_settled(containers + starting, statuses + init_statuses)
    reason = _resize_reason(status)
    parts: list[bytes | msgspec.Raw] = [
        b"%d,%d,%d,%d" % (is_settled, len(containers), len(starting), len(statuses)),
        spec.resources,
        spec.overhead,
        status.resources,
        status.allocated_resources,
        b"null" if reason is None else msgspec.json.encode(reason),
    ]
    for container in (*containers, *starting):
        parts += (container.restart_policy, container.resources)
    if not is_settled:
        parts += [each.name for each in (*containers, *starting)]
        for each in (*statuses, *init_statuses):
            parts += (each.name, each.resources, each.allocated_resources)
    return b",".join(parts)


def _is_settled(containers: list[_RowContainer], statuses: list[_RowContainerStatus]) -> bool:
    """Whether the status of each container repeats its spec literally, or is empty."""
    wanted = {bytes(each.name): bytes(each.resources) for each in containers}
    if len(wanted) != len(containers):
        return False
    for status in statuses:
        spec, allocated = wanted.get(bytes(status.name)), bytes(status.allocated_resources)
        if spec is None or spec != bytes(status.resources):
            return False
        if allocated != b"null" and b'"requests":' + allocated not in spec:
            return False
    return True


def _resize_reason(status: RowStatus) -> str | None:
    """The reason of the first resize condition, as in `demand.is_resize_infeasible`."""
    for condition in status.conditions or ():
        if condition.type == CONDITION_RESIZE_PENDING:
            return condition.reason or ""
    return None


def counted_part(spec: RowSpec, status: RowStatus) -> wire_pod.Pod:
    """The pod with the fields that its demand depends on. Raises `FieldError`."""
    reason = _resize_reason(status)
    condition = Condition(type=CONDITION_RESIZE_PENDING, reason=reason)
    return wire_pod.Pod(
        spec=wire_pod.PodSpec(
            containers=_containers(spec.containers),
            init_containers=_containers(spec.init_containers),
            resources=_REQUIREMENTS.decode(spec.resources),
            overhead=_AMOUNTS.decode(spec.overhead),
        ),
        status=wire_pod.PodStatus(
            conditions=[] if reason is None else [condition],
            container_statuses=_statuses(status.container_statuses),
            init_container_statuses=_statuses(status.init_container_statuses),
            resources=_REQUIREMENTS.decode(status.resources),
            allocated_resources=_AMOUNTS.decode(status.allocated_resources),
        ),
    )


def _containers(raw: list[_RowContainer] | None) -> list[wire_pod.Container]:
    return [
        wire_pod.Container(
            name=_TEXT.decode(each.name),
            restart_policy=_TEXT.decode(each.restart_policy),
            resources=_REQUIREMENTS.decode(each.resources),
        )
        for each in raw or ()
    ]


def _statuses(raw: list[_RowContainerStatus] | None) -> list[wire_pod.ContainerStatus]:
    return [
        wire_pod.ContainerStatus(
            name=_TEXT.decode(each.name),
            resources=_REQUIREMENTS.decode(each.resources),
            allocated_resources=_AMOUNTS.decode(each.allocated_resources),
        )
        for each in raw or ()
    ]
