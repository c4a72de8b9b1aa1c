"""Which limits of a pod's local storage there are, and which of them makes the kubelet evict it.

The kubelet checks every ten seconds: first each emptyDir volume, then the whole pod, then each app
container. The first limit that is exceeded evicts the pod; an amount that equals its limit does
not. The messages are the kubelet's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from bursar.core.model.quantity import Quantity
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.usage import NO_USE, PodUse


class LimitKind(Enum):
    """Kinds of limits, by the names of the kubelet's own metric of evictions."""

    EMPTY_DIR = "emptydirfs.limit"
    POD = "ephemeralpodfs.limit"
    CONTAINER = "ephemeralcontainerfs.limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """One limit of a pod, and how much of it is used."""

    kind: LimitKind
    name: str
    """Name of the volume or of the container; empty for the pod's limit."""
    used: int
    limit: Quantity
    is_complete: bool = True
    """False: at least `used` is used."""

    @property
    def is_exceeded(self) -> bool:
        return Quantity.of(self.used) > self.limit

    @property
    def bytes_left(self) -> int:
        """How much more fits before the limit is exceeded; negative if it is."""
        # A limit can have a fraction of a byte. The whole part decides: amounts used are whole.
        whole = self.limit.whole_units
        return whole - (Quantity.of(whole) > self.limit) - self.used

    @property
    def message(self) -> str:
        """The message of the kubelet's eviction."""
        return _MESSAGES[self.kind].format(name=self.name, limit=self.limit)


_MESSAGES: Final = {
    LimitKind.EMPTY_DIR: 'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". ',
    LimitKind.POD: "Pod ephemeral local storage usage exceeds the total limit of containers "
    "{limit}. ",
    LimitKind.CONTAINER: 'Container {name} exceeded its local ephemeral storage limit "{limit}". ',
}


def limit_states(
    pod: StoragePod, use: PodUse, *, has_image_filesystem: bool
) -> tuple[LimitState, ...]:
    """All limits of a pod, in the kubelet's order.

    `has_image_filesystem`: images and writable layers have a filesystem of their own. The kubelet
    then compares only the logs of a container with its limit.
    """
    return tuple(_states(pod, use, has_image_filesystem))


def exceeded_limit(states: tuple[LimitState, ...]) -> LimitState | None:
    """The limit for which the kubelet evicts the pod; None if it does not."""
    return next((each for each in states if each.is_exceeded), None)


def _states(pod: StoragePod, use: PodUse, has_image_filesystem: bool) -> Iterator[LimitState]:  # noqa: FBT001 - private
    for volume in pod.volumes:
        measure = use.volumes.get(volume.name)
        if volume.size_limit is not None and measure is not None:
            yield LimitState(
                kind=LimitKind.EMPTY_DIR,
                name=volume.name,
                used=measure.used,
                limit=volume.size_limit,
                is_complete=measure.is_complete,
            )
    if pod.limit is not None:
        yield LimitState(
            kind=LimitKind.POD,
            name="",
            used=use.total,
            limit=pod.limit,
            is_complete=use.is_complete,
        )
    for container in pod.containers:
        if container.limit is None:
            continue
        found = use.containers.get(container.name, NO_USE)
        layer = 0 if has_image_filesystem else found.writable or 0
        yield LimitState(
            kind=LimitKind.CONTAINER,
            name=container.name,
            used=(found.logs or 0) + layer,
            limit=container.limit,
            is_complete=found.logs is not None
            and (has_image_filesystem or found.writable is not None),
        )
