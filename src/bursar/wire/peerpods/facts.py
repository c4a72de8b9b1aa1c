"""What a quota must know of a peer pod, read from the pod's JSON."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Final

from bursar.core.counting.peer_pods import (
    TYPE_LENGTH_MAX,
    Amounts,
    PeerPodFacts,
    UnreadablePeerPod,
)
from bursar.core.model.demand import DemandOptions, pod_limits, pod_requests
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import TOO_MANY_NAMES
from bursar.core.model.quantity import Format
from bursar.core.model.resources import NOTHING, ResourceList, maximum
from bursar.core.peerpods.instances import MachineSize
from bursar.core.peerpods.machine_size import machine_size
from bursar.core.peerpods.names import (
    GPUS_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
    MEMORY_ANNOTATION,
    RECORD_ANNOTATION,
    VCPUS_ANNOTATION,
)
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.amounts import require_amounts_of_pod
from bursar.wire.model.wide_demand import is_wide
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import printable

FACTS_MAX: Final = 4096
"""Facts of different content that pods share. Pods of one workload have the same."""
SHARED_AMOUNTS_MAX: Final = 16
"""Most amounts in facts that are shared. Shared facts stay in memory after their pods, and a
tenant can invent names of resources, of 317 characters each. A usual pod has ten amounts."""

RECORD_LENGTH_MAX: Final = 1 << 14
"""Longest record that is read; enough for a hundred containers. A tenant causes this work with
every change of the pod."""
PROBLEM_LENGTH_MAX: Final = 512

_TOO_LONG: Final = (
    f"annotation {RECORD_ANNOTATION} is longer than {RECORD_LENGTH_MAX} characters: split the pod, "
    "or give its containers fewer resource names"
)
_WITHOUT_OVERHEAD: Final = DemandOptions(use_status=True, exclude_overhead=True)
"""Count as quotas do, without the overhead: it is charged on top of the VM."""


def peer_pod_facts(
    body: bytes, runtime_classes: Collection[str]
) -> PeerPodFacts | UnreadablePeerPod | None:
    """The facts of a peer pod; None for a pod of another runtime class."""
    try:
        raw = decode_body(body, wire_pod.Pod)
        if is_wide(raw):
            return UnreadablePeerPod(TOO_MANY_NAMES)
        pod = wire_pod.to_core(raw)
        require_amounts_of_pod(pod)
    except ValueError as error:
        return UnreadablePeerPod(printable(str(error), PROBLEM_LENGTH_MAX))
    if pod.runtime_class not in runtime_classes:
        return None
    if len(pod.annotations.get(RECORD_ANNOTATION, "")) > RECORD_LENGTH_MAX:
        return UnreadablePeerPod(_TOO_LONG)
    facts = _facts(pod)
    formats = _formats(facts)
    return _shared(facts, formats) if len(formats) <= SHARED_AMOUNTS_MAX else facts


def _facts(pod: Pod) -> PeerPodFacts:
    before = _before_the_rewrite(pod)
    asking = (pod,) if before is None else (pod, before)
    return PeerPodFacts(
        requests=_greatest(pod_requests(each, _WITHOUT_OVERHEAD) for each in asking),
        limits=_greatest(pod_limits(each, _WITHOUT_OVERHEAD) for each in asking),
        overhead=_greatest([pod.overhead]),
        size=_size(pod.annotations),
        # A longer text is cut, so it is none of the catalogue's.
        machine_type=pod.annotations.get(MACHINE_TYPE_ANNOTATION, "")[: TYPE_LENGTH_MAX + 1],
        has_record=before is not None,
    )


def _before_the_rewrite(pod: Pod) -> Pod | None:
    """The pod with what its record says; None if it has no record that can be read."""
    if RECORD_ANNOTATION not in pod.annotations:
        return None
    # Commands that read a file with a peer pod seldom read one that was rewritten.
    from bursar.core.peerpods.restored import restored  # noqa: PLC0415
    from bursar.wire.peerpods.record import read_record  # noqa: PLC0415

    record = read_record(pod.annotations)
    return None if record is None else restored(record, pod)


def _greatest(lists: Iterable[ResourceList]) -> Amounts:
    """The greatest amount of each name.

    A record can hold resources of the pod as a whole, which replace the sum of the containers. So
    the containers of a forged one could ask for less than they do without it.
    """
    nothing: ResourceList = NOTHING
    return tuple(sorted(reduce(maximum, lists, nothing).items()))


def _size(annotations: Mapping[str, str]) -> MachineSize:
    keys = (VCPUS_ANNOTATION, MEMORY_ANNOTATION, GPUS_ANNOTATION)
    read = machine_size(annotations.get(key, "") for key in keys)
    return MachineSize(
        vcpus=max(0, read.vcpus), memory_mib=max(0, read.memory_mib), gpus=max(0, read.gpus)
    )


def _formats(facts: PeerPodFacts) -> tuple[Format, ...]:
    lists = (facts.requests, facts.limits, facts.overhead)
    return tuple(amount.format for amounts in lists for _, amount in amounts)


@lru_cache(maxsize=FACTS_MAX)
def _shared(facts: PeerPodFacts, formats: tuple[Format, ...]) -> PeerPodFacts:  # noqa: ARG001
    """One object for equal facts. Equal amounts may have different formats, which are shown."""
    return facts
