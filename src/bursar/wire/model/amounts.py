"""Rejection of negative amounts in pods and nodes.

The core computes with negative amounts as upstream's code does. An API server never stores them, so
in a manifest they are an error.
"""

from collections.abc import Iterator
from typing import TypeAlias

from bursar.core.model.node import Node
from bursar.core.model.pod import Container, ContainerStatus, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from bursar.wire.structs.fields import FieldError, quoted

_Lists: TypeAlias = Iterator[tuple[str, ResourceList]]


def require_amounts_of_pod(pod: Pod) -> None:
    """Raise `FieldError` for the first amount that is negative."""
    for field, amounts in _lists_of_pod(pod):
        _require_list(field, amounts)
    for volume in pod.empty_dirs:
        if volume.size_limit is not None:
            require_not_negative(
                f"spec.volumes[{volume.index}].emptyDir.sizeLimit", volume.size_limit
            )


def require_amounts_of_node(node: Node) -> None:
    """Raise `FieldError` for the first amount that is negative."""
    _require_list("status.capacity", node.capacity)
    _require_list("status.allocatable", node.allocatable)


def _require_list(field: str, amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        if amount.is_negative:
            require_not_negative(f"{field}[{name}]", amount)


def require_not_negative(field: str, amount: Quantity) -> None:
    """Raise `FieldError` if the amount is negative."""
    if amount.is_negative:
        raise FieldError(
            field, f"Invalid value: {quoted(str(amount))}: must be greater than or equal to 0"
        )


def _lists_of_pod(pod: Pod) -> _Lists:
    yield from _of_containers("spec.initContainers", pod.init_containers)
    yield from _of_containers("spec.containers", pod.containers)
    yield from _of_containers("spec.ephemeralContainers", pod.ephemeral_containers)
    yield from _of_requirements("spec.resources", pod.resources)
    yield "spec.overhead", pod.overhead
    yield from _of_statuses("status.initContainerStatuses", pod.init_container_statuses)
    yield from _of_statuses("status.containerStatuses", pod.container_statuses)
    yield from _of_requirements("status.resources", pod.status_resources)
    yield "status.allocatedResources", pod.status_allocated


def _of_containers(field: str, containers: tuple[Container, ...]) -> _Lists:
    for index, container in enumerate(containers):
        yield from _of_requirements(f"{field}[{index}].resources", container.resources)


def _of_statuses(field: str, statuses: tuple[ContainerStatus, ...]) -> _Lists:
    for index, status in enumerate(statuses):
        yield from _of_requirements(f"{field}[{index}].resources", status.resources)
        yield f"{field}[{index}].allocatedResources", status.allocated


def _of_requirements(field: str, requirements: ResourceRequirements | None) -> _Lists:
    if requirements is not None:
        yield f"{field}.requests", requirements.requests
        yield f"{field}.limits", requirements.limits
