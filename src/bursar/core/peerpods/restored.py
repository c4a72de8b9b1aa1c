"""A rewritten peer pod with what its record says, for the counter that charges its VM.

A tenant can write the record annotation when it creates a pod. Our rewrite then sizes the VM by the
same record that the quota charges, or denies the pod. Other webhooks do not know the record; there
the counter charges more than the record if the containers or the size annotations say more. After
creation no user can change the annotation (`app/install/policies/peerpod_protection`).
"""

from collections.abc import Iterable
from dataclasses import replace

from bursar.core.model.pod import NO_RESOURCES, Container, Pod, ResourceRequirements
from bursar.core.model.resources import maximum
from bursar.core.peerpods.record import Record


def restored(record: Record, pod: Pod) -> Pod:
    """The pod with everything back that was removed. The VM stays as well."""
    whole = _together(record.pod, pod.resources or NO_RESOURCES)
    return replace(
        pod,
        containers=_restored(record, pod.containers),
        init_containers=_restored(record, pod.init_containers),
        resources=pod.resources if whole == NO_RESOURCES else whole,
    )


def _restored(record: Record, containers: Iterable[Container]) -> tuple[Container, ...]:
    removed = record.by_name()
    return tuple(
        replace(each, resources=_together(removed.get(each.name, NO_RESOURCES), each.resources))
        for each in containers
    )


def _together(removed: ResourceRequirements, left: ResourceRequirements) -> ResourceRequirements:
    """The greater amount of each name, so that a record never lowers what is in the container."""
    return ResourceRequirements(
        requests=maximum(removed.requests, left.requests),
        limits=maximum(removed.limits, left.limits),
        claims=removed.claims or left.claims,
    )
