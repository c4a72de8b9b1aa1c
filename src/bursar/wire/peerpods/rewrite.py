"""The rewrite of a peer pod's document.

The resources leave the containers, the first container asks for one VM, and annotations have
the size of the VM. Every other field stays as it is, also a field that is newer than this
program.
"""

from collections.abc import Mapping
from typing import Final

from bursar.core.model.defaulting import with_defaults
from bursar.core.model.names import bytes_of
from bursar.core.model.pod import Container, Pod
from bursar.core.peerpods.annotations import Rewrite
from bursar.core.peerpods.decision import (
    ANNOTATIONS_BYTES_MAX,
    NO_ROOM,
    Decision,
    Denied,
    Untouched,
    decide,
)
from bursar.core.peerpods.names import RECORD_ANNOTATION
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from bursar.wire.documents.tree import Value
from bursar.wire.peerpods.pod import (
    CONTAINERS,
    INIT_CONTAINERS,
    RESOURCES,
    object_in,
    objects_in,
    read_pod,
    read_resource_fields,
)
from bursar.wire.peerpods.record import format_record, read_record
from bursar.wire.structs.fields import FieldError

ONE_VM: Final = "1"

_KNOWN: Final = frozenset({"requests", "limits", "claims"})


def rewrite(
    document: dict[str, Value], settings: PeerPodSettings, *, lacks_defaults: bool = False
) -> tuple[Decision, dict[str, Value]]:
    """The decision about a pod, and the pod's document afterwards.

    The document is a new one if the pod is rewritten, and shares with the old one every branch
    that does not change. A pod from a file `lacks_defaults`, which the API server fills in
    before it calls a webhook; they are then filled in for the decision.
    """
    if not is_peer_pod(document, settings):
        return Untouched(), document
    try:
        pod = read_pod(document)
    except FieldError as error:
        return Denied(str(error)), document
    if not pod.containers:
        return Untouched(), document
    if lacks_defaults:
        pod = with_defaults(pod)
    record = read_record(pod.annotations)
    decision = decide(pod, settings, record=record, fields=read_resource_fields(document))
    if isinstance(decision, Denied):
        return decision, document
    annotations = _annotations(decision)
    if decision.record is not None and (problem := _room_problem(annotations)):
        return Denied(problem), document
    return decision, _rewritten(document, pod, annotations, settings)


def is_peer_pod(document: dict[str, Value], settings: PeerPodSettings) -> bool:
    """Whether the pod's runtime class is one of the target classes, by its whole name."""
    spec = document.get("spec")
    name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    return isinstance(name, str) and name in settings.runtime_classes


# ------------------------------------------------------------------ annotations


def _annotations(decision: Rewrite) -> Mapping[str, str]:
    if decision.record is None:
        return decision.annotations
    return {**decision.annotations, RECORD_ANNOTATION: format_record(decision.record)}


def _room_problem(annotations: Mapping[str, str]) -> str:
    total = sum(bytes_of(text) for pair in annotations.items() for text in pair)
    if total <= ANNOTATIONS_BYTES_MAX:
        return ""
    return f"{NO_ROOM}with it they have {total} bytes; Kubernetes allows {ANNOTATIONS_BYTES_MAX}"


# ------------------------------------------------------------------ the document


def _rewritten(
    document: dict[str, Value],
    pod: Pod,
    annotations: Mapping[str, str],
    settings: PeerPodSettings,
) -> dict[str, Value]:
    after = {**document, "spec": _spec(document, pod, settings)}
    if annotations != pod.annotations:
        metadata = object_in(document, "metadata", "metadata")
        held = object_in(metadata, "annotations", "metadata.annotations")
        kept = {key: text for key, text in held.items() if key in annotations}
        changed = {k: text for k, text in annotations.items() if pod.annotations.get(k) != text}
        after["metadata"] = {**metadata, "annotations": {**kept, **changed}}
    return after


def _spec(document: dict[str, Value], pod: Pod, settings: PeerPodSettings) -> dict[str, Value]:
    spec = dict(object_in(document, "spec", "spec"))
    for key, containers in ((CONTAINERS, pod.containers), (INIT_CONTAINERS, pod.init_containers)):
        if containers:
            spec[key] = [
                _emptied(raw, container, settings, has_vm=key == CONTAINERS and index == 0)
                for index, (raw, container) in enumerate(
                    zip(objects_in(spec, key, key), containers, strict=True)
                )
            ]
    if settings.mode is Mode.EFFECTIVE and spec.get(RESOURCES):
        unknown = _unknown(object_in(spec, RESOURCES, RESOURCES))
        if unknown:
            spec[RESOURCES] = unknown
        else:
            del spec[RESOURCES]
    return spec


def _emptied(
    raw: dict[str, Value], container: Container, settings: PeerPodSettings, *, has_vm: bool
) -> dict[str, Value]:
    """The container with no resources but the VM, the kept ones and unknown fields.

    Upstream's mode replaces `resources` as a whole, as upstream does.
    """
    held = object_in(raw, RESOURCES, RESOURCES)
    is_effective = settings.mode is Mode.EFFECTIVE
    left = _unknown(held) if is_effective else {}
    sides = (("requests", container.resources.requests), ("limits", container.resources.limits))
    for side, amounts in sides:
        entries: dict[str, Value] = {}
        if is_effective and settings.kept:
            written = object_in(held, side, side)
            entries = {
                name: written.get(name, str(amount))
                for name, amount in amounts.items()
                if name in settings.kept
            }
        if has_vm:
            entries[settings.vm_resource] = ONE_VM
        if entries:
            left[side] = entries
    return {**raw, RESOURCES: left} if left or held else raw


def _unknown(resources: dict[str, Value]) -> dict[str, Value]:
    return {key: value for key, value in resources.items() if key not in _KNOWN}
