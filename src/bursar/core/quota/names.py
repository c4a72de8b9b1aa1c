"""Names a quota may list: which of them pods use up, which are held at the gate, in what unit.

The resources of virtual machines have names of their own, `cpu/vmi` and its like, which
Kubernetes does not know. They are used up by pods all the same.
"""

from enum import StrEnum
from typing import Final

from bursar.core.model.names import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    PODS,
    QUOTA_REQUESTS_PREFIX,
    STORAGE,
    is_native,
)

POD_COUNT: Final = "count/pods"
"""Pods that are stored, also those that have ended; `pods` are those that have not."""
LIMITS_PREFIX: Final = "limits."
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""In front of the name of a device class, of which a container asks for devices by number."""

_COMPUTE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_REQUESTS_STORAGE: Final = "requests.storage"
_POD_NAMES: Final = (
    frozenset({POD_COUNT, PODS})
    | _COMPUTE
    | {prefix + name for prefix in (QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX) for name in _COMPUTE}
)
_POD_PREFIXES: Final = (HUGEPAGES_PREFIX, QUOTA_REQUESTS_PREFIX + HUGEPAGES_PREFIX)
_MACHINE_NAMES: Final = frozenset({"cpu/vmi", "memory/vmi", "instances/vmi"})
_SCHEDULABLE: Final = _COMPUTE | _MACHINE_NAMES | {PODS}


class Unit(StrEnum):
    """What the numbers of a resource count, as metrics name it."""

    BYTES = "bytes"
    CORE = "core"
    COUNT = "count"


def is_schedulable(name: str) -> bool:
    """Something a pod can be made to wait for. The rest is refused as objects are created."""
    return name in _SCHEDULABLE or (
        name.startswith((QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX)) and name != _REQUESTS_STORAGE
    )


def is_pod_name(name: str) -> bool:
    """Something that pods use up, as far as Kubernetes knows."""
    return name in _POD_NAMES or name.startswith(_POD_PREFIXES) or _is_extended(name)


def _is_extended(name: str) -> bool:
    return name.startswith(QUOTA_REQUESTS_PREFIX) and (
        not is_native(name) or name.startswith(QUOTA_REQUESTS_PREFIX + DEVICE_CLASS_PREFIX)
    )


def unit_of(name: str) -> Unit:
    """The unit in which amounts of that name are meant.

    >>> unit_of("requests.memory/vmi").value, unit_of("limits.cpu").value
    ('bytes', 'core')
    """
    if name.startswith(_POD_PREFIXES) or name.endswith(f"/{_REQUESTS_STORAGE}"):
        return Unit.BYTES  # huge pages, and the storage of one class
    bare = name.removeprefix(QUOTA_REQUESTS_PREFIX).removeprefix(LIMITS_PREFIX)
    return _UNITS.get(bare.removesuffix("/vmi"), Unit.COUNT)


_UNITS: Final = {
    CPU: Unit.CORE,
    MEMORY: Unit.BYTES,
    EPHEMERAL_STORAGE: Unit.BYTES,
    STORAGE: Unit.BYTES,
}
