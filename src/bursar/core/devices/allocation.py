"""What a pod was given, once checked; and what clients of kubelet are told of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

PodKey: TypeAlias = tuple[str, str]
"""Namespace and name: kubelet's API knows no uid."""
SHARE_MARK: Final = "::"
"""Between a device's id and the number of a share, as NVIDIA's plugin writes it."""
_SHARE: Final = re.compile(rf"(.+){SHARE_MARK}[0-9]+", re.DOTALL)


def bare_id(device: str) -> str:
    """The id without the number of a share.

    >>> bare_id("GPU-1::3")
    'GPU-1'
    """
    match = _SHARE.fullmatch(device) if SHARE_MARK in device else None
    return device if match is None else match[1]


@dataclass(frozen=True, slots=True)
class Voice:
    """What one of several sources says of a device of a pod."""

    source: str
    container: str
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One device, in one container of a pod."""

    source: str
    container: str
    kind: str
    resource: str
    """The name under which clients look for it: `nvidia.com/gpu`."""
    device: str
    numa: int | None = None
    share: int = 100
    """Percent of the device; below 100 others may have it too. 0: a part of unknown size."""
    voices: tuple[Voice, ...] = ()
    """Of all who speak of it, if several do; the share is then the greatest of theirs."""
    parent: str = ""
    """The device of which this one is a virtual function or a partition, where known."""
    ordinal: int | None = None
    """Which of the pods that share the device this is, where clients are to be told."""

    @property
    def spoken_id(self) -> str:
        """The id as clients read it."""
        return self.device if self.ordinal is None else f"{self.device}{SHARE_MARK}{self.ordinal}"


class ProblemKind(Enum):
    """Why something an annotation says is not passed on, or is doubted. A metric's label."""

    UNREADABLE = "unreadable"
    UNKNOWN_KIND = "unknown-kind"
    NO_ID = "no-id"
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
    """One line for people, safe to print. It may name pods of other namespaces."""
    told_text: str = ""
    """The same for those who may see this pod, and perhaps no other; empty if it is the same."""

    @property
    def text_for_tenants(self) -> str:
        return self.told_text or self.text


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What the sources gave to one pod, and what of their words was not taken over."""

    namespace: str
    name: str
    uid: str = ""
    allocations: tuple[Allocation, ...] = ()
    problems: tuple[Problem, ...] = ()
    sidecars: tuple[str, ...] = ()
    """Names of the pod's containers that are not app containers."""
    is_over: bool = False
    """Whether the pod has ended: what it was given is nobody's now."""

    @property
    def key(self) -> PodKey:
        return self.namespace, self.name

    @cached_property
    def lines(self) -> tuple["Line", ...]:
        """All of it as clients are told, in order of names. Asked for at every call, so kept."""
        found: dict[tuple[str, str], Line] = {}
        for each in sorted(self.allocations, key=lambda each: (each.resource, each.device)):
            key = each.resource, each.device
            entry = Entry(resource=each.resource, devices=(each.spoken_id,), numa=each.numa)
            found.setdefault(key, Line(key, each.container, entry))
        return tuple(found.values())


# ------------------------------------------------------------------ what kubelet reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of devices of a container, as kubelet's API has it."""

    resource: str
    devices: tuple[str, ...]
    numa: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedContainer:
    name: str
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPod:
    namespace: str
    name: str
    containers: tuple[ReportedContainer, ...] = ()

    @property
    def key(self) -> PodKey:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What to add to kubelet's answer about one pod, by container."""

    entries: Mapping[str, tuple[Entry, ...]]
    sorts: bool = False
    """Whether all lines of these containers are then put in order of their resource name."""


class Line(NamedTuple):
    """A device that a pod holds, as a client is told of it."""

    key: tuple[str, str]
    """Resource and device."""
    container: str
    entry: Entry
