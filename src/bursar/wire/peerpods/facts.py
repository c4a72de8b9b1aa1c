"""What a quota must know of a peer pod, read from the pod's JSON."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from typing import Final

import msgspec

from bursar.core.counting.peer_pods import (
    TYPE_LENGTH_MAX,
    Amounts,
    PeerPodFacts,
    UnreadablePeerPod,
)
from bursar.core.model.demand import DemandOptions, pod_limits, pod_requests
from bursar.core.model.pod import Pod
from bursar.core.model.pod_row import TOO_MANY_NAMES
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
from bursar.core.sharing import Generations
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.amounts import require_amounts_of_pod
from bursar.wire.model.pod_row import RowSpec, RowStatus, counted_part, decisive_digest
from bursar.wire.model.wide_demand import is_wide
from bursar.wire.structs.body import decode_body
from bursar.wire.structs.fields import RawTexts, printable
from bursar.wire.structs.metadata import ObjectMeta
from bursar.wire.structs.struct import Struct

FACTS_MAX: Final = 2048
FACTS_BYTES_MAX: Final = 1 << 20
"""Bounds of each of the two generations of facts that are remembered. Pods of one workload have the
same, and so has a pod after each of its updates."""
AMOUNT_BYTES: Final = 400
"""About the bytes of one amount with its name, which a tenant can make long."""

RECORD_LENGTH_MAX: Final = 1 << 14
"""Longest record that is read; enough for a hundred containers. A tenant causes this work with
every change of the pod."""
PROBLEM_LENGTH_MAX: Final = 512

_TOO_LONG: Final = (
    f"annotation {RECORD_ANNOTATION} is longer than {RECORD_LENGTH_MAX} characters: split the pod, "
    "or give its containers fewer resource names"
)
_ANNOTATIONS: Final = (
    RECORD_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
    VCPUS_ANNOTATION,
    MEMORY_ANNOTATION,
    GPUS_ANNOTATION,
)
_ENCODER: Final = msgspec.json.Encoder()
_WITHOUT_OVERHEAD: Final = DemandOptions(use_status=True, exclude_overhead=True)
"""Count as quotas do, without the overhead: it is charged on top of the VM."""


class _Meta(Struct):
    annotations: RawTexts | None = None


class _Pod(Struct):
    metadata: _Meta | None = None
    spec: RowSpec | None = None
    status: RowStatus | None = None


def peer_pod_facts(
    body: bytes, runtime_classes: Collection[str]
) -> PeerPodFacts | UnreadablePeerPod | None:
    """The facts of a peer pod; None for a pod of another runtime class."""
    try:
        pod = decode_body(body, _Pod)
    except ValueError as error:
        return UnreadablePeerPod(printable(str(error), PROBLEM_LENGTH_MAX))
    spec, status = pod.spec or RowSpec(), pod.status or RowStatus()
    if spec.runtime_class_name not in runtime_classes:
        return None
    held = (pod.metadata and pod.metadata.annotations) or {}
    annotations: RawTexts = {key: held[key] for key in _ANNOTATIONS if key in held}
    if len(annotations.get(RECORD_ANNOTATION) or "") > RECORD_LENGTH_MAX:
        return UnreadablePeerPod(_TOO_LONG)
    digest = decisive_digest(spec, status)
    if RECORD_ANNOTATION in annotations:
        for part in _parts_beside_a_record(spec, status):
            digest.update(part)
    digest.update(_ENCODER.encode(annotations))
    key = digest.digest()
    known = _KNOWN.find(key)
    if known is None:
        known = _read(spec, status, annotations)
        _KNOWN.keep(key, known)
    return known


def _parts_beside_a_record(spec: RowSpec, status: RowStatus) -> Iterator[msgspec.Raw]:
    """What decides in addition: the record names containers, and their status is not in it."""
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        yield container.name
    for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
        yield from (each.name, each.resources, each.allocated_resources)


def _read(
    spec: RowSpec, status: RowStatus, annotations: RawTexts
) -> PeerPodFacts | UnreadablePeerPod:
    try:
        raw = counted_part(spec, status)
        if is_wide(raw):
            return UnreadablePeerPod(TOO_MANY_NAMES)
        raw.metadata = ObjectMeta(annotations=annotations)
        pod = wire_pod.to_core(raw)
        require_amounts_of_pod(pod)
    except ValueError as error:
        return UnreadablePeerPod(printable(str(error), PROBLEM_LENGTH_MAX))
    return _facts(pod)


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


def _weigh(found: PeerPodFacts | UnreadablePeerPod) -> int:
    if isinstance(found, UnreadablePeerPod):
        return 2 * PROBLEM_LENGTH_MAX
    lists = (found.requests, found.limits, found.overhead)
    return AMOUNT_BYTES * (1 + sum(map(len, lists))) + sum(
        len(name) for amounts in lists for name, _ in amounts
    )


_KNOWN: Final[Generations[bytes, PeerPodFacts | UnreadablePeerPod]] = Generations(
    FACTS_MAX, _weigh, FACTS_BYTES_MAX
)
