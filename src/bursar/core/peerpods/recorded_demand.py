"""What a rewritten peer pod really asks for, read back from its record.

The counter of peer pods reads it: it charges a pod for its VM, and not for the empty containers
that the rewrite leaves.

A tenant can write the record annotation when he creates a pod, so a record is believed only if
the pod could have asked for the same amounts in its containers. A forged record therefore gains
nothing: the rewrite sizes the VM by the same record that the quota charges. Amounts still in the
containers are charged in any case, and so is the annotated size. After creation no user can change
the annotation (`app/install/peerpod_protection`).
"""

from collections.abc import Iterable
from dataclasses import replace

from bursar.core.model.pod import NO_RESOURCES, Container, Pod, ResourceRequirements
from bursar.core.model.resources import maximum
from bursar.core.peerpods.record import Record, is_rewritten
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.peerpods.validation import resource_problems


def is_believable(record: Record, pod: Pod, settings: PeerPodSettings) -> bool:
    """Whether a rewrite of this pod could have written the record.

    If the API server would refuse the pod with the recorded amounts in its containers, the
    record was not written by a rewrite.
    """
    return is_rewritten(pod, settings) and not resource_problems(restored(record, pod))


def restored(record: Record, pod: Pod) -> Pod:
    """The pod with everything back that was removed. The VM stays as well.

    A quota may charge it only if the record is believable.
    """
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
