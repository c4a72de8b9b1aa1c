"""Rewriting a pod so that its VM is paid for in the cloud, and not on the worker.

Resources leave the containers, their total becomes annotations that size the VM, and the
first container asks for one VM. The document is changed only there: every other field,
also one that is newer than this program, passes as it came.

The API server may ask again, after others have added defaults or containers. In the
effective mode what was removed before is on record and holds for the containers and names
it lists; what is new is added to it. So sizes grow and never shrink. Upstream's mode keeps
no record, and has upstream's result.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import NO_RESOURCES, Container, Pod, ResourceRequirements
from bursar.core.model.problem import ProblemKind
from bursar.core.model.quantity import Quantity
from bursar.core.model.validation import validate_pod_spec
from bursar.core.peerpods.annotating import (
    Annotated,
    AnnotationsTooLargeError,
    annotate,
    annotate_as_upstream,
)
from bursar.core.peerpods.json_document import JsonObject, PatchStep, patch_between
from bursar.core.peerpods.reading import ShapeError, object_in, pod_in
from bursar.core.peerpods.record import (
    NO_RECORD,
    RECORD_ANNOTATION,
    Record,
    Removed,
    believed_record,
    kind_of,
)
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from bursar.core.peerpods.sizing import SizeError, SizeTexts, effective_size, upstream_size
from bursar.core.peerpods.stripping import stripped

PROBLEMS_TOLD_MAX: Final = 5

_TOLERATED: Final = frozenset({ProblemKind.REQUIRED, ProblemKind.FORBIDDEN})
"""That something is lacking beside an amount, such as a limit, does not matter to a VM."""


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
            return _rewritten(document, pod, annotated, settings)
        return _effectively(document, pod, settings)
    except (ShapeError, SizeError, AnnotationsTooLargeError) as error:
        return Denied(str(error))


def is_peer_pod(document: JsonObject, settings: PeerPodSettings) -> bool:
    """Whether the pod's class is one of ours, by its whole name."""
    spec = document.get("spec")
    name = spec.get("runtimeClassName") if isinstance(spec, dict) else None
    return isinstance(name, str) and name in settings.runtime_classes


def _effectively(document: JsonObject, pod: Pod, settings: PeerPodSettings) -> Rewriting:
    # Once the resources are gone, the API server can no longer refuse what is wrong with them.
    problems = [each for each in validate_pod_spec(pod) if each.kind not in _TOLERATED]
    if problems:
        return Denied("; ".join(map(str, problems[:PROBLEMS_TOLD_MAX])))
    known = believed_record(pod, settings)
    found = _found(pod, settings)
    record = _grown(known or NO_RECORD, pod, found)
    size = effective_size(_as_recorded(pod, record), settings)
    annotated = annotate(pod.annotations, record, size, settings)
    warnings = (*_warnings(pod, known, found, settings), *annotated.warnings)
    return _rewritten(document, pod, replace(annotated, warnings=warnings), settings)


def _rewritten(
    document: JsonObject, pod: Pod, annotated: Annotated, settings: PeerPodSettings
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
        warnings=annotated.warnings,
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


Found: TypeAlias = tuple[Removed, ...]
"""What there is to remove now, of every container."""


def _found(pod: Pod, settings: PeerPodSettings) -> Found:
    left = {settings.vm_resource, *settings.kept}
    return tuple(
        Removed(
            name=container.name,
            kind=kind_of(container, is_init=is_init),
            resources=_without(container.resources, left),
        )
        for is_init, containers in ((True, pod.init_containers), (False, pod.containers))
        for container in containers
    )


def _without(resources: ResourceRequirements, left: set[str]) -> ResourceRequirements:
    if not resources.requests and not resources.limits and not resources.claims:
        return NO_RESOURCES
    return ResourceRequirements(
        requests={name: each for name, each in resources.requests.items() if name not in left},
        limits={name: each for name, each in resources.limits.items() if name not in left},
        claims=resources.claims,
    )


def _grown(known: Record, pod: Pod, found: Found) -> Record:
    """The record with what is new since: other containers, and names it does not have."""
    before = known.by_name()
    grown = (
        replace(each, resources=_merged(before[each.name], each.resources))
        if each.name in before
        else each
        for each in found
    )
    return replace(
        known,
        containers=tuple(each for each in grown if each.resources != NO_RESOURCES),
        pod=_merged(known.pod, pod.resources or NO_RESOURCES),
    )


def _merged(known: ResourceRequirements, new: ResourceRequirements) -> ResourceRequirements:
    """What is known holds: the same name with another amount is a default of the namespace."""
    return ResourceRequirements(
        requests={**new.requests, **known.requests},
        limits={**new.limits, **known.limits},
        claims=tuple(dict.fromkeys((*known.claims, *new.claims))),
    )


def _as_recorded(pod: Pod, record: Record) -> Pod:
    """The pod with the resources on record, and no others."""
    removed = record.by_name()
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        containers=_sized(pod.containers, removed),
        init_containers=_sized(pod.init_containers, removed),
        resources=record.pod,
    )


def _sized(
    containers: tuple[Container, ...], removed: Mapping[str, ResourceRequirements]
) -> tuple[Container, ...]:
    return tuple(
        Container(
            name=each.name,
            restart_policy=each.restart_policy,
            resources=removed.get(each.name, NO_RESOURCES),
        )
        for each in containers
    )


# ------------------------------------------------------------------ what to say about it


def _warnings(
    pod: Pod, known: Record | None, found: Found, settings: PeerPodSettings
) -> Iterator[str]:
    """What the author should know, once: nothing that is on record was said before."""
    if known is None and RECORD_ANNOTATION in pod.annotations:
        yield f"annotation {RECORD_ANNOTATION} is not for users: what it said is ignored"
    for container in (*pod.init_containers, *pod.containers):
        vms = container.resources.requests.get(settings.vm_resource, _ONE)
        if vms != _ONE:
            yield f"{settings.vm_resource}: a peer pod has exactly one, not {vms}"
    before = (known or NO_RECORD).by_name()
    passed_on = {CPU, MEMORY, *settings.gpu_resources}
    lost: dict[str, None] = {}
    claims: dict[str, None] = {}
    for each in found:
        told = before.get(each.name, NO_RESOURCES)
        names = {**each.resources.requests, **each.resources.limits}
        known_names = {*told.requests, *told.limits, *passed_on}
        lost |= dict.fromkeys(name for name in names if name not in known_names)
        claims |= dict.fromkeys(c.name for c in each.resources.claims if c not in told.claims)
    if lost:
        yield f"removed, and not passed on to the VM: {', '.join(lost)}"
    if claims:
        yield f"claims are not passed on to the VM: {', '.join(claims)}"


_ONE: Final = Quantity.of(1)
