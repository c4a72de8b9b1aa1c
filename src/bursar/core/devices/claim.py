"""The content of device annotations before any check.

Every user that may create a pod may write its annotations, so claims are untrusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})


def no_amounts() -> Mapping[str, int]:
    """The shared empty mapping; a default factory for dataclass fields."""
    return NO_AMOUNTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One device, or a share of it, that an annotation gives to a pod."""

    kind: str
    """The source's name of the device type: `gpu`, `rdma`, `fpga`."""
    device: str = ""
    """The device's id; empty if the source writes only the minor number."""
    minor: int | None = None
    """The device's number among those of its kind on the node."""
    functions: tuple[str, ...] = ()
    """PCI addresses of virtual functions, if the pod was given these instead of the device."""
    is_extended: bool = False
    """Whether the device has an `extension`, whatever its content."""
    template: str = ""
    """The vendor's name for a fixed share of the device."""
    amounts: Mapping[str, int] = field(default_factory=no_amounts)
    """How much of the device, by resource name, rounded up to whole units."""
    container: str = ""
    """The container's name, if the source writes it."""
    container_index: int | None = None
    """The container's position among the pod's app containers, if the source writes that."""
    vendor: str = ""
    """The device's vendor, if the source writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """All claims of one source's annotation on a pod, or why the annotation is unreadable."""

    source: str
    claims: tuple[Claim, ...] = ()
    kinds: tuple[str, ...] = ()
    """Kinds that the annotation names, in its order, including kinds without devices."""
    problem: str = ""
    """Why the annotation cannot be read: one line, safe to print."""
