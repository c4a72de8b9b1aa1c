"""Resource names in quotas: which of them pods use, which a gate enforces, and their unit.

Virtual machines have resource names of their own, such as `cpu/vmi`, which Kubernetes does not
know. Pods use them like the others.
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
"""All stored pods, ended ones included; `pods` counts only those that have not ended."""
LIMITS_PREFIX: Final = "limits."
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the name of a device class of which a container requests a number of devices."""

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
    """The unit of the amounts of a resource, as metrics name it."""

    BYTES = "bytes"
    CORE = "core"
    COUNT = "count"


def is_schedulable(name: str) -> bool:
    """Whether a scheduling gate enforces it. Other names are enforced when objects are created."""
    return name in _SCHEDULABLE or (
        name.startswith((QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX)) and name != _REQUESTS_STORAGE
    )


def is_pod_name(name: str) -> bool:
    """Whether Kubernetes counts it for pods."""
    return name in _POD_NAMES or name.startswith(_POD_PREFIXES) or _is_extended(name)


def _is_extended(name: str) -> bool:
    return name.startswith(QUOTA_REQUESTS_PREFIX) and (
        not is_native(name) or name.startswith(QUOTA_REQUESTS_PREFIX + DEVICE_CLASS_PREFIX)
    )


def unit_of(name: str) -> Unit:
    """The unit of amounts of that name.

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
