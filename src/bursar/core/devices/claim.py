"""What a pod's annotations say about devices, before anybody has checked it.

Whoever may create a pod may write its annotations: nothing here is to be believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

NO_AMOUNTS: Final[Mapping[str, int]] = MappingProxyType({})


def no_amounts() -> Mapping[str, int]:
    """The empty mapping, shared; a default for dataclass fields."""
    return NO_AMOUNTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One device, or a share of it, that an annotation gives to a pod."""

    kind: str
    """The source's word for what it is: `gpu`, `rdma`, `fpga`."""
    device: str = ""
    """Its id; empty where the source names it by its number alone."""
    minor: int | None = None
    """Its number among those of its kind on the node."""
    functions: tuple[str, ...] = ()
    """Addresses of virtual functions, where these were given and not the device itself."""
    is_extended: bool = False
    """Whether an extension was written beside it, whatever is in there."""
    template: str = ""
    """The vendor's name for a fixed share of the device."""
    amounts: Mapping[str, int] = field(default_factory=no_amounts)
    """How much of it, by resource name, rounded up to whole units."""
    container: str = ""
    """For which container, where the source says."""
    container_index: int | None = None
    """The same by its place among the pod's app containers."""
    vendor: str = ""
    """Whose product, where the annotation says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What one source's annotation on a pod says; or why it cannot be read."""

    source: str
    claims: tuple[Claim, ...] = ()
    kinds: tuple[str, ...] = ()
    """Kinds that are named, in the order of the text, even if no device stands there."""
    problem: str = ""
    """Why nothing of it is used: one line, safe to print."""
