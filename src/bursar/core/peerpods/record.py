"""The record: what the rewrite removed from a pod.

The rewrite empties the containers. Without a record neither a quota nor a second rewrite could
know what the pod asked for. The record is kept on the pod as one annotation; its text is read
and written by `wire/peerpods/record`.
"""

from dataclasses import dataclass, replace
from typing import Final

from bursar.core.model.pod import NO_RESOURCES, Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.peerpods.sizing import NO_SIZE, ContainerKind, ContainerResources, SizeTexts

_ONE: Final = Quantity.of(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    containers: tuple[ContainerResources, ...] = ()
    """What was removed from each container; containers that asked for nothing are left out."""
    pod: ResourceRequirements = NO_RESOURCES
    """What was removed from `spec.resources`."""
    size: SizeTexts = NO_SIZE
    """The size annotations that the rewrite wrote. Another value on the pod is its author's."""
    instance: str = ""
    """The instance type that the rewrite wrote, if any."""

    @property
    def is_empty(self) -> bool:
        return not self.containers and self.pod == NO_RESOURCES

    def by_name(self) -> dict[str, ResourceRequirements]:
        """What was removed from each container, by the container's name."""
        return {each.name: each.resources for each in self.containers}


NO_RECORD: Final = Record()


def is_rewritten(pod: Pod, settings: PeerPodSettings) -> bool:
    """Whether the pod is of a target class and a container of it asks for exactly one VM.

    Only such a pod can have a record. The container need not be the first one: another webhook
    may have put a container before it.
    """
    return pod.runtime_class in settings.runtime_classes and any(
        _asks_for_vm(container, settings.vm_resource) for container in pod.containers
    )


def _asks_for_vm(container: Container, vm_resource: str) -> bool:
    resources = container.resources
    return resources.requests.get(vm_resource) == resources.limits.get(vm_resource) == _ONE


def as_recorded(record: Record, pod: Pod) -> Pod:
    """The pod with exactly the resources that are on record."""
    removed = record.by_name()
    containers, init_containers = (
        tuple(replace(each, resources=removed.get(each.name, NO_RESOURCES)) for each in containers)
        for containers in (pod.containers, pod.init_containers)
    )
    return replace(
        pod,
        containers=containers,
        init_containers=init_containers,
        resources=None if record.pod == NO_RESOURCES else record.pod,
    )


# ------------------------------------------------------------------ what is removed now


def removable(pod: Pod, settings: PeerPodSettings) -> tuple[ContainerResources, ...]:
    """What the rewrite removes from each container: all but the VM and the kept resources."""
    staying = {settings.vm_resource, *settings.kept}

    def of(container: Container, kind: ContainerKind) -> ContainerResources:
        return ContainerResources(container.name, kind, _without(container.resources, staying))

    init, sidecar = ContainerKind.INIT, ContainerKind.SIDECAR
    return (
        *[of(each, sidecar if each.is_sidecar else init) for each in pod.init_containers],
        *[of(each, ContainerKind.CONTAINER) for each in pod.containers],
    )


def _without(resources: ResourceRequirements, names: set[str]) -> ResourceRequirements:
    if names.isdisjoint(resources.requests) and names.isdisjoint(resources.limits):
        return resources
    return ResourceRequirements(
        requests=_others(resources.requests, names),
        limits=_others(resources.limits, names),
        claims=resources.claims,
    )


def extended(record: Record, pod: Pod, found: tuple[ContainerResources, ...]) -> Record:
    """The record, with the containers and resource names that it does not have yet."""
    before = record.by_name()
    merged = (
        ContainerResources(each.name, each.kind, _merged(before[each.name], each.resources))
        if each.name in before
        else each
        for each in found
    )
    return Record(
        containers=tuple([each for each in merged if each.resources != NO_RESOURCES]),
        pod=record.pod if pod.resources is None else _merged(record.pod, pod.resources),
        size=record.size,
        instance=record.instance,
    )


def _merged(known: ResourceRequirements, new: ResourceRequirements) -> ResourceRequirements:
    """The recorded amounts take precedence over amounts that the pod has now.

    If the pod has another amount under a recorded name, it is the default of a LimitRange. So is
    a limit beside a recorded request, and a request beside a recorded limit. Such a default could
    contradict the recorded amount.
    """
    names = {*known.requests, *known.limits}
    return ResourceRequirements(
        requests={**known.requests, **_others(new.requests, names)},
        limits={**known.limits, **_others(new.limits, names)},
        claims=tuple(dict.fromkeys((*known.claims, *new.claims))),
    )


def _others(amounts: ResourceList, names: set[str]) -> ResourceList:
    return {name: amount for name, amount in amounts.items() if name not in names}
