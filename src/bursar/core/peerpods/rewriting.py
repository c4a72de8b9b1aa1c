"""Rewriting a pod so that its VM is paid for in the cloud, and not on the worker.

Resources leave the containers, their total becomes annotations that size the VM, and the
first container asks for one VM. The document is changed only there: every other field,
also one that is newer than this program, passes as it came.

The API server may ask again, after others have added defaults or containers. In the
effective mode what was removed before is on record and holds for the containers and names
it lists; what is new is added to it. So sizes grow and never shrink. Upstream's mode keeps
no record, and has upstream's result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.core.model.pod import NO_RESOURCES, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.pod import MIRROR_ANNOTATION
from bursar.core.peerpods.annotating import (
    Annotated,
    AnnotationsTooLargeError,
    annotate,
    annotate_as_upstream,
    require_room_for,
)
from bursar.core.peerpods.json_document import JsonObject, PatchStep, patch_between
from bursar.core.peerpods.judging import name_problems, resource_problems, told
from bursar.core.peerpods.reading import ShapeError, object_in, pod_in
from bursar.core.peerpods.record import (
    NO_RECORD,
    RECORD_ANNOTATION,
    Record,
    as_recorded,
    find_record,
)
from bursar.core.peerpods.removed import Removed, kind_of
from bursar.core.peerpods.settings import (
    GPUS_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
    MEMORY_ALIAS_ANNOTATION,
    MEMORY_ANNOTATION,
    VCPUS_ANNOTATION,
    Mode,
    PeerPodSettings,
)
from bursar.core.peerpods.sizing import SizeError, SizeTexts, effective_size, upstream_size
from bursar.core.peerpods.stripping import stripped
from bursar.core.peerpods.telling import News, warnings_about

ANNOTATIONS_READ: Final = (
    *(VCPUS_ANNOTATION, MEMORY_ANNOTATION, MEMORY_ALIAS_ANNOTATION, GPUS_ANNOTATION),
    *(MACHINE_TYPE_ANNOTATION, RECORD_ANNOTATION, MIRROR_ANNOTATION),
)
"""The rest has no say in what becomes of a pod, unless all together grow too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A peer pod after the rewrite; without steps it was as it should be."""

    steps: tuple[PatchStep, ...]
    warnings: tuple[str, ...]
    document: JsonObject
    size: SizeTexts
    """What the annotations say."""
    instance: str = ""
    """The instance type that was chosen, if one was."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """No peer pod, or one without containers, which the API server refuses in its own words."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A demand that cannot be met, or is none. Removing it would hide that."""

    message: str


Rewriting: TypeAlias = Rewritten | Untouched | Denied


def rewrite(document: JsonObject, settings: PeerPodSettings) -> Rewriting:
    """Rewrite a pod, as decoded. It must have its defaults, as an API server puts them in."""
    if not is_peer_pod(document, settings):
        return Untouched()
    try:
        pod = pod_in(document)
        if not pod.containers:
            return Untouched()
        if settings.mode is Mode.UPSTREAM:
            annotated = annotate_as_upstream(pod.annotations, upstream_size(pod), settings)
            return _rewritten(document, pod, annotated, settings, annotated.warnings)
        return _effectively(document, pod, settings)
    except (ShapeError, SizeError, AnnotationsTooLargeError) as error:
        return Denied(str(error))


def is_peer_pod(document: JsonObject, settings: PeerPodSettings) -> bool:
    """Whether the pod's class is one of ours, by its whole name."""
    spec = document.get("spec")
    name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    return isinstance(name, str) and name in settings.runtime_classes


def _effectively(document: JsonObject, pod: Pod, settings: PeerPodSettings) -> Rewriting:
    found = _found(pod, settings)
    require_room_for(found, pod.resources or NO_RESOURCES)
    problems = name_problems(pod) or resource_problems(pod)
    if problems:
        return Denied(told(problems))
    known = find_record(pod, settings)
    record = _grown(known or NO_RECORD, pod, found)
    if known is not None and (problems := resource_problems(as_recorded(record, pod))):
        # Whoever wrote it may not get by a record what the containers would be denied. If it
        # was us, somebody has changed the pod so that it no longer fits.
        return Denied(f"annotation {RECORD_ANNOTATION}: {told(problems)}")
    size = effective_size(record.containers, record.pod, settings)
    annotated = annotate(pod.annotations, record, size, settings)
    news = News(document, pod, known, found)
    warnings = (*warnings_about(news, settings), *annotated.warnings)
    return _rewritten(document, pod, annotated, settings, warnings)


def _rewritten(
    document: JsonObject,
    pod: Pod,
    annotated: Annotated,
    settings: PeerPodSettings,
    warnings: tuple[str, ...],
) -> Rewritten:
    after = stripped(document, settings)
    if annotated.annotations != pod.annotations:
        metadata = object_in(document, "metadata", "metadata")
        after["metadata"] = {
            **metadata,
            "annotations": _changed(metadata, pod.annotations, annotated.annotations),
        }
    return Rewritten(
        steps=patch_between(document, after),
        warnings=warnings,
        document=after,
        size=annotated.size,
        instance=annotated.instance,
    )


def _changed(
    metadata: JsonObject, before: Mapping[str, str], after: Mapping[str, str]
) -> JsonObject:
    """Annotations as they came, except for those that are to be different."""
    held = object_in(metadata, "annotations", "metadata.annotations")
    kept = {key: text for key, text in held.items() if key in after}
    return kept | {key: text for key, text in after.items() if before.get(key) != text}


# ------------------------------------------------------------------ what is removed


def _found(pod: Pod, settings: PeerPodSettings) -> tuple[Removed, ...]:
    """What there is to remove now, of every container."""
    left = {settings.vm_resource, *settings.kept}
    return tuple(
        [
            Removed(each.name, kind_of(each, is_init=is_init), _without(each.resources, left))
            for is_init, containers in ((True, pod.init_containers), (False, pod.containers))
            for each in containers
        ]
    )


def _without(resources: ResourceRequirements, left: set[str]) -> ResourceRequirements:
    if left.isdisjoint(resources.requests) and left.isdisjoint(resources.limits):
        return resources
    return ResourceRequirements(
        requests=_others(resources.requests, left),
        limits=_others(resources.limits, left),
        claims=resources.claims,
    )


def _grown(known: Record, pod: Pod, found: tuple[Removed, ...]) -> Record:
    """The record with what is new since: other containers, and names it does not have."""
    before = known.by_name()
    grown = (
        Removed(each.name, each.kind, _merged(before[each.name], each.resources))
        if each.name in before
        else each
        for each in found
    )
    return Record(
        containers=tuple([each for each in grown if each.resources != NO_RESOURCES]),
        pod=NO_RESOURCES
        if known.pod is NO_RESOURCES and pod.resources is None
        else _merged(known.pod, pod.resources or NO_RESOURCES),
        size=known.size,
        instance=known.instance,
    )


def _merged(known: ResourceRequirements, new: ResourceRequirements) -> ResourceRequirements:
    """What is known holds: the same name with another amount is a default of the namespace.

    So is a limit beside a request on record, and the other way round. Taken alone it could
    contradict what is there.
    """
    names = {*known.requests, *known.limits}
    return ResourceRequirements(
        requests={**known.requests, **_others(new.requests, names)},
        limits={**known.limits, **_others(new.limits, names)},
        claims=tuple(dict.fromkeys((*known.claims, *new.claims))),
    )


def _others(amounts: ResourceList, names: set[str]) -> dict[str, Quantity]:
    return {name: amount for name, amount in amounts.items() if name not in names}
