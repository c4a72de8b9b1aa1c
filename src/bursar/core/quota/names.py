"""Resource names in quotas: which of them pods use, which a gate enforces, and their unit.

Applications have resource names of their own, such as `cpu/vmi` for virtual machines, which
Kubernetes does not know. Pods use them like the others.
"""

import re
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
APPLICATION_SUFFIXES: Final = ("/vmi", "/peerpod", "/koordinator")
"""Suffixes of the names of VMs, of peer pods, and of devices that Koordinator allocates."""

_COMPUTE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_REQUESTS_STORAGE: Final = "requests.storage"
_POD_NAMES: Final = (
    frozenset({POD_COUNT, PODS})
    | _COMPUTE
    | {prefix + name for prefix in (QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX) for name in _COMPUTE}
)
_POD_PREFIXES: Final = (HUGEPAGES_PREFIX, QUOTA_REQUESTS_PREFIX + HUGEPAGES_PREFIX)
_OBJECT_NAMES: Final = frozenset(
    {"configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets"}
    | {"services", "services.loadbalancers", "services.nodeports", _REQUESTS_STORAGE}
)
_CLAIM_NAMES: Final = frozenset(
    {_REQUESTS_STORAGE, "persistentvolumeclaims", "count/persistentvolumeclaims"}
)
_CLASS_SUFFIXES: Final = tuple(
    f".storageclass.storage.k8s.io/{name}" for name in (_REQUESTS_STORAGE, "persistentvolumeclaims")
)
"""Ends of the names under which the PersistentVolumeClaims of one StorageClass are counted."""
_SCHEDULABLE: Final = _COMPUTE | {PODS}
_APPLICATION_NAME: Final = re.compile(r"(?!count/)[a-z0-9-]+/[A-Za-z0-9][A-Za-z0-9._-]*")
"""Amount and application, such as `cpu/vmi`. The name of a resource that Kubernetes knows has a dot
before the slash, as in `example.com/gpu`, or is a count of objects, as in `count/pods`."""


class Unit(StrEnum):
    """The unit of the amounts of a resource, as metrics name it."""

    BYTES = "bytes"
    CORE = "core"
    COUNT = "count"


def is_schedulable(name: str) -> bool:
    """Whether a scheduling gate enforces limits on the name.

    Limits on other names are enforced when objects are created.
    """
    if name.startswith((QUOTA_REQUESTS_PREFIX, LIMITS_PREFIX)):
        return name != _REQUESTS_STORAGE
    return name in _SCHEDULABLE or is_application_name(name)


def is_application_name(name: str) -> bool:
    """Whether the name is an amount of an application, which only a counter can charge.

    >>> [is_application_name(each) for each in ("cpu/vmi", "instances/notebook")]
    [True, True]
    >>> [is_application_name(each) for each in ("count/pods", "example.com/gpu", "cpu")]
    [False, False, False]
    """
    return _APPLICATION_NAME.fullmatch(name) is not None


def is_pod_name(name: str) -> bool:
    """Whether Kubernetes counts the name for pods."""
    return name in _POD_NAMES or name.startswith(_POD_PREFIXES) or _is_extended(name)


def is_claim_name(name: str) -> bool:
    """Whether Kubernetes counts the name for PersistentVolumeClaims.

    >>> [is_claim_name(each) for each in ("requests.storage", "count/services")]
    [True, False]
    """
    return name in _CLAIM_NAMES or name.endswith(_CLASS_SUFFIXES)


def is_native_name(name: str) -> bool:
    """Whether a pod can be charged under this name by what it requests.

    Names of VMs, peer pods and Koordinator's devices look like extended resources, and are none.

    >>> [is_native_name(each) for each in ("requests.example.com/gpu", "requests.cpu/vmi")]
    [True, False]
    """
    return is_pod_name(name) and not name.endswith(APPLICATION_SUFFIXES)


def is_known_name(name: str) -> bool:
    """Whether Kubernetes itself counts anything under this name: for pods, or as objects.

    >>> [is_known_name(each) for each in ("services", "count/widgets.example.com", "cpuu")]
    [True, True, False]
    """
    return (
        is_pod_name(name)
        or name in _OBJECT_NAMES
        or name.startswith("count/")
        or name.endswith(_CLASS_SUFFIXES)
    )


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
    return _UNITS.get(bare.partition("/")[0] if is_application_name(bare) else bare, Unit.COUNT)


_UNITS: Final = {
    CPU: Unit.CORE,
    MEMORY: Unit.BYTES,
    EPHEMERAL_STORAGE: Unit.BYTES,
    STORAGE: Unit.BYTES,
}
