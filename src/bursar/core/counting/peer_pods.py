"""The counter of peer pods: charges the VM that a peer pod gets.

The rewrite of peer pods empties the containers, so native counting sees a pod that asks for
nothing. Several places tell how large the VM is: the containers, the record of what the rewrite
removed, the size annotations, and the instance type. A tenant can write each of them. So the
greatest amount of each resource counts: no place can lower what another one says.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from bursar.core.counting.counter import Counted, Pending, fact_of
from bursar.core.model.names import CPU, MEMORY, QUOTA_REQUESTS_PREFIX, is_extended
from bursar.core.model.pod_row import PodDemand, PodRow
from bursar.core.model.quantity import ZERO, Format, Quantity
from bursar.core.model.resources import ResourceList, add, maximum
from bursar.core.peerpods.instances import MIB, InstanceType, MachineSize
from bursar.core.peerpods.names import GPU_RESOURCE, RUNTIME_CLASS
from bursar.core.quota.counting import IndependentPods
from bursar.core.quota.usage import native_usage

NAME: Final = "peer pods"
DEDICATED_NAMES: Final = ("cpu/peerpod", "memory/peerpod", "gpus/peerpod", "instances/peerpod")
TYPE_LENGTH_MAX: Final = 63
"""Longest instance type that is kept of a pod. Clouds use less than half of it."""
UNREAD: Final = "the pod's annotations and resources were not read"

_ONE: Final = Quantity.of(1)


class PeerPodMode(Enum):
    """How quotas count peer pods. The words are those of AAQ's setting for VMs."""

    VIRTUAL = "VirtualResources"
    """The VM's amounts, under the names that all pods use."""
    DEDICATED = "DedicatedVirtualResources"
    """The VM's amounts, under names of their own: `DEDICATED_NAMES`."""
    IGNORE = "IgnorePeerPodCalculator"
    """Count peer pods as all other pods: the VM costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPodCounting:
    """How peer pods are recognised and counted. Raises `ValueError` for contradictions."""

    mode: PeerPodMode = PeerPodMode.VIRTUAL
    runtime_classes: frozenset[str] = frozenset({RUNTIME_CLASS})
    gpu_resources: tuple[str, ...] = (GPU_RESOURCE,)
    """Resource names that count as GPUs. GPUs that a pod did not request count as the first."""
    catalogue: tuple[InstanceType, ...] = ()
    """The sizes of instance types."""
    default_type: str = ""
    """The type of a VM whose pod neither names a type nor has a full size; empty if unknown."""

    def __post_init__(self) -> None:
        if not self.runtime_classes or "" in self.runtime_classes:
            raise ValueError("runtime classes: at least one is needed, and none may be empty")
        for name in self.gpu_resources:
            if not is_extended(name):
                raise ValueError(f"{name!r} is not the name of an extended resource")
        known = [each.name for each in self.catalogue]
        if self.default_type and self.default_type not in known:
            raise ValueError(f"the default type {self.default_type!r} is not in the catalogue")


class PeerPodFacts(NamedTuple):
    """What is known of a peer pod. Amounts are pairs, so that equal facts can share memory."""

    requests: "Amounts"
    """What the pod asked for, without overhead: the greater of the containers and the record."""
    limits: "Amounts"
    overhead: "Amounts"
    size: MachineSize
    """The size annotations, as the cloud-api-adaptor reads them."""
    machine_type: str
    """The annotated instance type, which then decides alone; empty if there is none."""
    has_record: bool


class UnreadablePeerPod(NamedTuple):
    """A peer pod whose size cannot be determined."""

    problem: str
    """Why, in one line that is safe to print."""


Amounts: TypeAlias = tuple[tuple[str, Quantity], ...]
DerivePeerPod: TypeAlias = Callable[[bytes], PeerPodFacts | UnreadablePeerPod | None]


class PeerPodCounter(IndependentPods):
    """Counts pods of the target runtime classes."""

    name: Final = NAME

    def __init__(self, settings: PeerPodCounting, derive: DerivePeerPod) -> None:
        self._settings: Final = settings
        self._derive: Final = derive
        self._classes: Final = settings.runtime_classes
        self._types: Final = {each.name: each for each in settings.catalogue}

    def derive_facts(self, body: bytes) -> PeerPodFacts | UnreadablePeerPod | None:
        return self._derive(body)

    def may_charge(self, resource: str) -> bool:
        bare = resource.removeprefix(QUOTA_REQUESTS_PREFIX)
        return self._settings.mode is PeerPodMode.DEDICATED and bare in DEDICATED_NAMES

    def count(self, row: PodRow) -> Counted | Pending | None:
        if row.profile.runtime_class not in self._classes:
            return None
        facts = fact_of(row, PeerPodFacts)
        if facts is None:
            unreadable = fact_of(row, UnreadablePeerPod)
            return Pending(UNREAD if unreadable is None else unreadable.problem)
        type_name = _type_name(facts, self._settings.default_type)
        machine, problem = _machine(facts.size, type_name, self._types)
        gpus = self._settings.gpu_resources
        requests = _raised(dict(facts.requests), machine, gpus)
        if self._settings.mode is PeerPodMode.DEDICATED:
            amounts = _dedicated(row, facts, requests, gpus)
        else:
            limits = maximum(dict(facts.limits), _compute(machine))
            amounts = _usage(row, *_with_overhead(requests, limits, dict(facts.overhead)))
        if problem:
            return Pending(problem, amounts)
        return Counted(amounts, _reason(facts, requests, gpus, type_name))


# ------------------------------------------------------------------ the size of the VM


def _type_name(facts: PeerPodFacts, default_type: str) -> str:
    """The instance type of the VM, by the rules of the adaptor; empty if the adaptor chooses it."""
    size = facts.size
    is_sized = size.gpus or (size.vcpus and size.memory_mib)
    return facts.machine_type or ("" if is_sized else default_type)


def _machine(
    size: MachineSize, named: str, types: Mapping[str, InstanceType]
) -> tuple[MachineSize, str]:
    """The least size of the VM, by its annotated size and the name of its instance type.

    The text says why the VM may be larger; it is empty if the size is known.
    """
    if not named:
        return size, ""
    known = types.get(named)
    if known is None:
        # The type decides the size of the VM, whatever else the pod says.
        return size, (
            f"the size of instance type {named!a} is not known: it must be in the catalogue of the "
            "controller (--peerpod-catalogue), or the pod must not name it"
        )
    vcpus, memory = max(size.vcpus, known.vcpus), max(size.memory_mib, known.memory_mib)
    return MachineSize(vcpus=vcpus, memory_mib=memory, gpus=max(size.gpus, known.gpus)), ""


def _compute(machine: MachineSize) -> ResourceList:
    amounts = {
        CPU: Quantity.of(machine.vcpus),
        MEMORY: Quantity.of(machine.memory_mib * MIB, Format.BINARY_SI),
    }
    return {name: amount for name, amount in amounts.items() if not amount.is_zero}


def _raised(asked: ResourceList, machine: MachineSize, gpus: tuple[str, ...]) -> ResourceList:
    """What the pod asked for, and at least the VM."""
    raised = maximum(asked, _compute(machine))
    # GPUs of several names are one number in the annotation, and one number of an instance type.
    missing = Quantity.of(machine.gpus) - _sum(asked, gpus)
    return add(raised, {gpus[0]: missing}) if missing > ZERO else raised


def _sum(amounts: ResourceList, names: tuple[str, ...]) -> Quantity:
    return sum((amounts.get(name, ZERO) for name in names), ZERO)


# ------------------------------------------------------------------ what is charged


def _with_overhead(
    requests: ResourceList, limits: ResourceList, overhead: ResourceList
) -> tuple[ResourceList, ResourceList]:
    """Overhead counts for every request, but only for limits that there are; see `demand`."""
    limited = {name: each for name, each in overhead.items() if not _is_missing(limits, name)}
    return add(requests, overhead), add(limits, limited)


def _is_missing(amounts: ResourceList, name: str) -> bool:
    return amounts.get(name, ZERO).is_zero


def _usage(row: PodRow, requests: ResourceList, limits: ResourceList) -> ResourceList:
    demand = PodDemand(
        quota_requests=requests,
        quota_limits=limits,
        assigned_requests=requests,
        qos=row.demand.qos,
    )
    return native_usage(demand, is_counted=True)


def _dedicated(
    row: PodRow, facts: PeerPodFacts, requests: ResourceList, gpus: tuple[str, ...]
) -> ResourceList:
    """The VM under names of its own, and natively what the pod still costs the cluster."""
    apart = {CPU, MEMORY, *gpus}

    def others(amounts: ResourceList) -> ResourceList:
        return {name: each for name, each in amounts.items() if name not in apart}

    lists = (requests, dict(facts.limits), dict(facts.overhead))
    removed = _usage(row, *_with_overhead(*map(others, lists)))
    native = native_usage(row.demand, is_counted=True)
    return {**maximum(native, removed), **dict(_dedicated_names(requests, gpus))}


def _dedicated_names(
    requests: ResourceList, gpus: tuple[str, ...]
) -> Iterator[tuple[str, Quantity]]:
    amounts = (requests.get(CPU, ZERO), requests.get(MEMORY, ZERO), _sum(requests, gpus), _ONE)
    for name, amount in zip(DEDICATED_NAMES, amounts, strict=True):
        yield name, amount
        yield QUOTA_REQUESTS_PREFIX + name, amount


# ------------------------------------------------------------------ the reason


def _reason(
    facts: PeerPodFacts, requests: ResourceList, gpus: tuple[str, ...], type_name: str
) -> str:
    """What the VM has, which places tell it, and the overhead that comes on top."""
    cpu, memory, gpu = requests.get(CPU, ZERO), requests.get(MEMORY, ZERO), _sum(requests, gpus)
    if cpu.is_zero and memory.is_zero and gpu.is_zero:
        vm = "VM of unknown size: the pod tells none, and there is no --peerpod-default-type"
    else:
        parts = [
            "unknown CPUs" if cpu.is_zero else f"{cpu} CPUs",
            "unknown memory" if memory.is_zero else f"{memory} of memory",
            *([] if gpu.is_zero else [f"{gpu} GPUs"]),
        ]
        vm = f"VM of {', '.join(parts)}; the greatest of {', '.join(_places(facts, type_name))}"
    overhead = ", ".join(f"{name} {each}" for name, each in facts.overhead)
    return f"{vm}; plus overhead: {overhead}" if overhead else vm


def _places(facts: PeerPodFacts, type_name: str) -> Iterator[str]:
    yield "containers"
    if facts.has_record:
        yield "record"
    if not facts.size.is_nothing:
        yield "size annotations"
    if facts.machine_type:
        yield f"instance type {type_name!a}"
    elif type_name:
        yield f"default type {type_name!a}"
