"""The decision about one peer pod: the size of its VM, its annotations, and its record.

The API server may ask again about a pod after other webhooks have added defaults or containers.
In the effective mode the record of the earlier call holds for the containers and resource names
that it lists; new ones are added to it. So sizes grow and never shrink. Upstream's mode keeps no
record and gives upstream's result.

`wire/peerpods/rewrite` reads the pod from its document and applies the decision to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from bursar.core.model.pod import MIRROR_ANNOTATION, NO_RESOURCES, Pod, ResourceRequirements
from bursar.core.peerpods.annotations import (
    SIZE_ANNOTATIONS,
    Rewrite,
    annotated,
    annotated_as_upstream,
)
from bursar.core.peerpods.downward_api import ResourceField
from bursar.core.peerpods.names import MACHINE_TYPE_ANNOTATION, RECORD_ANNOTATION
from bursar.core.peerpods.record import (
    NO_RECORD,
    Record,
    as_recorded,
    extended,
    is_rewritten,
    removable,
)
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from bursar.core.peerpods.sizing import (
    ContainerResources,
    SizeError,
    effective_size,
    upstream_size,
)
from bursar.core.peerpods.validation.resources import joined, name_problems, resource_problems
from bursar.core.peerpods.warnings import removal_warnings

ANNOTATIONS_READ: Final = (
    *SIZE_ANNOTATIONS,
    MACHINE_TYPE_ANNOTATION,
    RECORD_ANNOTATION,
    MIRROR_ANNOTATION,
)
"""The annotations that can change the decision. Of all others only the total size matters."""

ANNOTATIONS_BYTES_MAX: Final = 1 << 18
"""Most bytes that the API server accepts in all annotations of an object, keys and values."""
ENTRY_BYTES_MIN: Final = len('"a":"1",')
"""Fewest bytes that one amount or claim takes in the text of a record."""
NO_ROOM: Final = (
    "metadata.annotations: what is removed from the containers is written down in "
    f"{RECORD_ANNOTATION}, and "
)


@dataclass(frozen=True, slots=True)
class Untouched:
    """The pod is not a peer pod, or has no containers, so that the API server refuses it."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The pod requests something invalid or impossible, which a rewrite would hide."""

    message: str


Decision: TypeAlias = Rewrite | Untouched | Denied


def decide(
    pod: Pod,
    settings: PeerPodSettings,
    *,
    record: Record | None = None,
    fields: Iterable[ResourceField] = (),
) -> Rewrite | Denied:
    """Decide about a peer pod that has the API server's defaults and at least one container.

    `record` is what the pod's record annotation says, None if there is no readable one. `fields`
    are the pod's `resourceFieldRef`s.
    """
    try:
        if settings.mode is Mode.UPSTREAM:
            return annotated_as_upstream(pod.annotations, upstream_size(pod), settings)
        return _effectively(pod, settings, record, fields)
    except SizeError as error:
        return Denied(str(error))


def _effectively(
    pod: Pod, settings: PeerPodSettings, record: Record | None, fields: Iterable[ResourceField]
) -> Rewrite | Denied:
    found = removable(pod, settings)
    problem = _room_problem(found, pod.resources or NO_RESOURCES)
    problem = problem or joined(name_problems(pod) or resource_problems(pod))
    if problem:
        return Denied(problem)
    known = record if is_rewritten(pod, settings) else None
    grown = extended(known or NO_RECORD, pod, found)
    if known is not None and (problems := resource_problems(as_recorded(grown, pod))):
        # A tenant must not get by a forged record what its containers would be denied. If the
        # record is ours, another webhook has changed the pod so that the record no longer fits.
        return Denied(f"annotation {RECORD_ANNOTATION}: {joined(problems)}")
    size = effective_size(grown.containers, grown.pod, settings)
    after = annotated(pod.annotations, grown, size, settings)
    warnings = removal_warnings(pod, known, found, fields, settings)
    return replace(after, warnings=(*warnings, *after.warnings))


def _room_problem(removed: Iterable[ContainerResources], stated: ResourceRequirements) -> str:
    """Why the record cannot fit; checked first, because validating that many amounts is slow."""
    entries = sum(
        len(each.requests) + len(each.limits) + len(each.claims)
        for each in (stated, *(each.resources for each in removed))
    )
    if entries * ENTRY_BYTES_MIN <= ANNOTATIONS_BYTES_MAX:
        return ""
    return (
        f"{NO_ROOM}{entries} amounts and claims have no room there; Kubernetes allows "
        f"{ANNOTATIONS_BYTES_MAX} bytes"
    )
