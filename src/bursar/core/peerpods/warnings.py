"""Warnings to the author of a peer pod about its rewrite.

The API server may call the webhook again for one pod. A warning about something that is already
on record was given by the earlier call and is not repeated.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import NO_RESOURCES, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.downward_api import ResourceField
from bursar.core.peerpods.names import RECORD_ANNOTATION
from bursar.core.peerpods.record import NO_RECORD, Record
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.peerpods.sizing import ContainerResources

RECORD_IGNORED: Final = f"annotation {RECORD_ANNOTATION} is not for users: what it said is ignored"

_ONE: Final = Quantity.of(1)


def removal_warnings(
    pod: Pod,
    known: Record | None,
    found: Sequence[ContainerResources],
    fields: Iterable[ResourceField],
    settings: PeerPodSettings,
) -> Iterator[str]:
    """Warnings about what this call removes.

    `known` is the record of an earlier call, None if there is none. `found` is what this call
    removes from each container.
    """
    before = known or NO_RECORD
    if known is None and RECORD_ANNOTATION in pod.annotations:
        yield RECORD_IGNORED
    asked = [
        container.resources.requests.get(settings.vm_resource, _ONE)
        for container in (*pod.init_containers, *pod.containers)
    ]
    if wrong := dict.fromkeys(str(vms) for vms in asked if vms != _ONE):
        yield f"{settings.vm_resource}: a peer pod has exactly one, not {', '.join(wrong)}"
    yield from _lost_resources(pod, before, found, {CPU, MEMORY, *settings.gpu_resources})
    if distinct := dict.fromkeys(fields):
        yield from _lost_fields(pod, before, found, distinct)


def _lost_resources(
    pod: Pod, known: Record, found: Sequence[ContainerResources], passed_on: set[str]
) -> Iterator[str]:
    earlier = known.by_name()
    pairs = [(each.resources, earlier.get(each.name, NO_RESOURCES)) for each in found]
    if pod.resources is not None:
        pairs.append((pod.resources, known.pod))
    lost: dict[str, None] = {}
    claims: dict[str, None] = {}
    for now, before in pairs:
        known_names = passed_on.union(before.requests, before.limits)
        names = (*now.requests, *now.limits)
        lost |= dict.fromkeys([name for name in names if name not in known_names])
        known_claims = frozenset(before.claims)
        claims |= dict.fromkeys([c.name for c in now.claims if c not in known_claims])
    if lost:
        yield f"removed, and not passed on to the VM: {', '.join(lost)}"
    if claims:
        yield f"claims are not passed on to the VM: {', '.join(claims)}"


def _lost_fields(
    pod: Pod, known: Record, found: Sequence[ContainerResources], fields: Iterable[ResourceField]
) -> Iterator[str]:
    now = {each.name: each.resources for each in found}
    before = known.by_name()
    # A container without a limit of its own is shown the limit of the pod.
    shared = ResourceRequirements(limits=(pod.resources or NO_RESOURCES).limits)
    lost = [
        str(field)
        for field in fields
        if field.is_in(now.get(field.container, NO_RESOURCES))
        or (field.container in now and field.is_in(shared))
        if not field.is_in(before.get(field.container, NO_RESOURCES))
    ]
    if lost:
        yield f"resourceFieldRef does not see the VM: {', '.join(lost)}"
