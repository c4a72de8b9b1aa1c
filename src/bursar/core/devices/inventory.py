"""The devices that a node has, as an inventory such as Koordinator's Device object lists them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bursar.core.devices.claim import no_amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A virtual function of a device."""

    address: str
    minor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    kind: str
    minor: int
    id: str
    is_healthy: bool = True
    numa: int | None = None
    """The device's NUMA node; None if unknown."""
    address: str = ""
    """The device's address on the bus, if the inventory has it beside the id."""
    vendor: str = ""
    model: str = ""
    functions: tuple[Function, ...] = ()
    amounts: Mapping[str, int] = field(default_factory=no_amounts)


@dataclass(frozen=True)
class Inventory:
    """The devices of one node. Of two devices with the same kind and minor the first is used."""

    devices: tuple[Device, ...] = ()

    @cached_property
    def by_minor(self) -> Mapping[tuple[str, int], Device]:
        return {(each.kind, each.minor): each for each in reversed(self.devices)}

    @cached_property
    def by_id(self) -> Mapping[tuple[str, str], Device]:
        return {(each.kind, each.id): each for each in reversed(self.devices) if each.id}

    @cached_property
    def by_function(self) -> Mapping[tuple[str, str], Device]:
        return {
            (each.kind, function.address): each
            for each in reversed(self.devices)
            for function in each.functions
        }
