"""What a rewrite takes from one container, and when in the pod's life the container runs."""

from dataclasses import dataclass
from enum import Enum

from bursar.core.model.pod import Container, ResourceRequirements


class ContainerKind(Enum):
    CONTAINER = "container"
    INIT = "init"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class Removed:
    """What one container asked for."""

    name: str
    kind: ContainerKind
    resources: ResourceRequirements


def kind_of(container: Container, *, is_init: bool) -> ContainerKind:
    if not is_init:
        return ContainerKind.CONTAINER
    return ContainerKind.SIDECAR if container.is_sidecar else ContainerKind.INIT
