"""Pods of the core in one line: `a_pod(init("cpu=4"), main("cpu=1", "cpu=2"))`."""

from dataclasses import dataclass, replace
from typing import Any

from bursar.core.model.pod import (
    CONDITION_RESIZE_PENDING,
    Condition,
    Container,
    ContainerStatus,
    Pod,
    ResourceRequirements,
)
from bursar.core.model.quantity import Quantity


def listed(text: str) -> dict[str, str]:
    """`"cpu=1 memory=1Gi"` as a mapping of texts."""
    return dict(entry.split("=") for entry in text.split())


def parsed(text: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in listed(text).items()}


def texts(amounts: Any) -> dict[str, str]:
    """Amounts as a person reads them, for comparison with `listed`."""
    return {name: str(amount) for name, amount in amounts.items()}


def resources(requests: str = "", limits: str = "") -> ResourceRequirements:
    return ResourceRequirements(requests=parsed(requests), limits=parsed(limits))


@dataclass(frozen=True)
class Slot:
    container: Container
    is_init: bool


def main(requests: str = "", limits: str = "", *, name: str = "") -> Slot:
    return Slot(Container(name=name, resources=resources(requests, limits)), is_init=False)


def init(requests: str = "", limits: str = "", *, name: str = "", restart: str = "") -> Slot:
    sized = resources(requests, limits)
    return Slot(Container(name=name, resources=sized, restart_policy=restart), is_init=True)


def sidecar(requests: str = "", limits: str = "", *, name: str = "") -> Slot:
    return init(requests, limits, name=name, restart="Always")


def a_pod(*slots: Slot, overhead: str = "", **fields: Any) -> Pod:
    """A pod of these containers, named c0, c1, ... and i0, i1, ... unless they have names."""
    return Pod(
        namespace="default",
        name="web",
        containers=_named("c", [slot.container for slot in slots if not slot.is_init]),
        init_containers=_named("i", [slot.container for slot in slots if slot.is_init]),
        overhead=parsed(overhead),
        **fields,
    )


def _named(letter: str, containers: list[Container]) -> tuple[Container, ...]:
    return tuple(
        replace(container, name=container.name or f"{letter}{index}")
        for index, container in enumerate(containers)
    )


def status(
    name: str, requests: str | None = None, limits: str = "", *, allocated: str = ""
) -> ContainerStatus:
    """What the kubelet reports of a container; no `requests` means no `resources` at all."""
    return ContainerStatus(
        name=name,
        resources=None if requests is None else resources(requests, limits),
        allocated=parsed(allocated),
    )


def resize(reason: str) -> tuple[Condition, ...]:
    return (Condition(type=CONDITION_RESIZE_PENDING, status="True", reason=reason),)
