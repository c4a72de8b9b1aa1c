"""Warnings to the author of a peer pod about its rewrite.

The API server may call the webhook again for one pod. A warning about something that is already
on record was given by the earlier call and is not repeated.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import NO_RESOURCES, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.downward_api import ResourceField
from bursar.core.peerpods.record import NO_RECORD, RECORD_ANNOTATION, Record
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.peerpods.sizing import ContainerResources

RECORD_IGNORED: Final = f"annotation {RECORD_ANNOTATION} is not for users: what it said is ignored"

_ONE: Final = Quantity.of(1)


class Removal(NamedTuple):
    """What one call of the rewrite removes from a pod, and what an earlier call removed."""

    pod: Pod
    known: Record | None
    """What an earlier call removed; None if there was none."""
    found: tuple[ContainerResources, ...]
    """What this call removes from each container."""


def removal_warnings(
    removal: Removal, fields: Iterable[ResourceField], settings: PeerPodSettings
) -> Iterator[str]:
    pod = removal.pod
    if removal.known is None and RECORD_ANNOTATION in pod.annotations:
        yield RECORD_IGNORED
    asked = [
        container.resources.requests.get(settings.vm_resource, _ONE)
        for container in (*pod.init_containers, *pod.containers)
    ]
    if wrong := dict.fromkeys(str(vms) for vms in asked if vms != _ONE):
        yield f"{settings.vm_resource}: a peer pod has exactly one, not {', '.join(wrong)}"
    yield from _lost_resources(removal, {CPU, MEMORY, *settings.gpu_resources})
    yield from _lost_fields(removal, fields)


def _lost_resources(removal: Removal, passed_on: set[str]) -> Iterator[str]:
    lost: dict[str, None] = {}
    claims: dict[str, None] = {}
    for now, before in _now_and_before(removal):
        known_names = passed_on.union(before.requests, before.limits)
        names = (*now.requests, *now.limits)
        lost |= dict.fromkeys([name for name in names if name not in known_names])
        known_claims = frozenset(before.claims)
        claims |= dict.fromkeys([c.name for c in now.claims if c not in known_claims])
    if lost:
        yield f"removed, and not passed on to the VM: {', '.join(lost)}"
    if claims:
        yield f"claims are not passed on to the VM: {', '.join(claims)}"


def _now_and_before(
    removal: Removal,
) -> Iterator[tuple[ResourceRequirements, ResourceRequirements]]:
    """For each container and for the pod itself: what is removed now, and what was before."""
    known = removal.known or NO_RECORD
    before = known.by_name()
    for each in removal.found:
        yield each.resources, before.get(each.name, NO_RESOURCES)
    if removal.pod.resources is not None:
        yield removal.pod.resources, known.pod


def _lost_fields(removal: Removal, fields: Iterable[ResourceField]) -> Iterator[str]:
    distinct = dict.fromkeys(fields)
    if not distinct:
        return
    now = {each.name: each.resources for each in removal.found}
    before = (removal.known or NO_RECORD).by_name()
    # A container without a limit of its own is shown the limit of the pod.
    shared = ResourceRequirements(limits=(removal.pod.resources or NO_RESOURCES).limits)
    lost = [
        str(field)
        for field in distinct
        if field.is_in(now.get(field.container, NO_RESOURCES))
        or (field.container in now and field.is_in(shared))
        if not field.is_in(before.get(field.container, NO_RESOURCES))
    ]
    if lost:
        yield f"resourceFieldRef does not see the VM: {', '.join(lost)}"
