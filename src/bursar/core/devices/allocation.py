"""The devices of a pod after all checks, and their form in kubelet's PodResources API."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

PodKey: TypeAlias = tuple[str, str]
"""Namespace and name of a pod. The PodResources API has no uid."""
QUOTED_CHARS_MAX: Final = 60
SHARE_MARK: Final = "::"
"""Separates a device's id from its share number, as NVIDIA's device plugin writes it."""
_SHARE: Final = re.compile(rf"(.+){SHARE_MARK}[0-9]+", re.DOTALL)


def bare_id(device: str) -> str:
    """The device's id without its share number.

    >>> bare_id("GPU-1::3")
    'GPU-1'
    """
    match = _SHARE.fullmatch(device) if SHARE_MARK in device else None
    return device if match is None else match[1]


def quoted(text: str) -> str:
    r"""Text from an untrusted author: in quotes, in ASCII, and cut if it is long.

    >>> print(quoted("GPU-é"))
    'GPU-\xe9'
    """
    return ascii(text if len(text) <= QUOTED_CHARS_MAX else text[:QUOTED_CHARS_MAX] + "...")


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one source says about a device that several sources report for the same pod."""

    source: str
    container: str
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One device in one container of a pod."""

    source: str
    container: str
    kind: str
    resource: str
    """The resource name in the PodResources API, for example `nvidia.com/gpu`."""
    device: str
    numa: int | None = None
    share: int = 100
    """Percent of the device. Below 100 the device is shared. 0: a part of unknown size."""
    reports: tuple[SourceReport, ...] = ()
    """What each source says, if several report the device; `share` is then the greatest."""
    parent: str = ""
    """The device of which this one is a virtual function or a partition, if known."""
    ordinal: int | None = None
    """The share number of this pod, if clients are to see one: see `sharing`."""

    @property
    def shown_id(self) -> str:
        """The device's id in the PodResources API."""
        return self.device if self.ordinal is None else f"{self.device}{SHARE_MARK}{self.ordinal}"


class ProblemKind(Enum):
    """Why a claim of an annotation is dropped or doubted. The value is a metric label."""

    UNREADABLE = "unreadable"
    UNKNOWN_KIND = "unknown-kind"
    NO_ID = "no-id"
    NO_INVENTORY = "no-inventory"
    NOT_ON_NODE = "not-on-node"
    NOT_ASKED_FOR = "not-asked-for"
    WRONG_SCHEDULER = "wrong-scheduler"
    UNKNOWN_CONTAINER = "unknown-container"
    MORE_THAN_ASKED = "more-than-asked"
    TOO_MANY = "too-many"
    CLAIMED_TWICE = "claimed-twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    kind: ProblemKind
    source: str
    text: str
    """One line for operators, safe to print. It may name pods of other namespaces."""
    tenant_text: str = ""
    """The line for readers of this pod alone; empty if `text` names no other namespace."""

    @property
    def text_for_tenants(self) -> str:
        return self.tenant_text or self.text


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """The devices that sources gave to one pod, and the problems of claims that were dropped."""

    namespace: str
    name: str
    uid: str = ""
    allocations: tuple[Allocation, ...] = ()
    problems: tuple[Problem, ...] = ()
    sidecars: tuple[str, ...] = ()
    """Names of the pod's sidecar containers."""
    has_ended: bool = False
    """Whether the pod has succeeded or failed: it no longer holds its devices."""

    @property
    def key(self) -> PodKey:
        return self.namespace, self.name

    @cached_property
    def lines(self) -> tuple["DeviceLine", ...]:
        """Each device as the PodResources API shows it, sorted. Cached: every call needs it."""
        found: dict[tuple[str, str], DeviceLine] = {}
        for each in sorted(self.allocations, key=lambda each: (each.resource, each.device)):
            key = each.resource, each.device
            entry = Entry(resource=each.resource, devices=(each.shown_id,), numa=each.numa)
            found.setdefault(key, DeviceLine(key, each.container, entry))
        return tuple(found.values())


# ------------------------------------------------------------------ the PodResources API


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One `ContainerDevices` message of the PodResources API."""

    resource: str
    devices: tuple[str, ...]
    numa: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedContainer:
    name: str
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPod:
    """A pod and its devices in kubelet's response."""

    namespace: str
    name: str
    containers: tuple[ReportedContainer, ...] = ()

    @property
    def key(self) -> PodKey:
        return self.namespace, self.name


@dataclass(frozen=True, kw_only=True)
class Additions:
    """Entries to add to kubelet's response about one pod, by container."""

    entries: Mapping[str, tuple[Entry, ...]]
    sorts: bool = False
    """Whether all entries of these containers are then sorted by resource name."""

    @cached_property
    def device_count(self) -> int:
        """Number of devices. Cached, because the same additions are in nearly every response."""
        return sum(len(each.devices) for entries in self.entries.values() for each in entries)


class DeviceLine(NamedTuple):
    """A device of a pod, its container, and its entry in the PodResources API."""

    key: tuple[str, str]
    """Resource name and device id."""
    container: str
    entry: Entry
