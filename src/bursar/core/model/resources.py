"""Resource lists: amounts by resource name, and the algebra upstream does on them.

A list is a mapping and is never changed in place. A missing key is not the same
as a key with amount zero: defaulting and quota look at presence.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from bursar.core.model.quantity import MILLI, ZERO, Quantity

ResourceList: TypeAlias = Mapping[str, Quantity]

NOTHING: Final[ResourceList] = MappingProxyType({})


def nothing() -> ResourceList:
    """The empty list, shared; a default for dataclass fields."""
    return NOTHING


def add(left: ResourceList, right: ResourceList) -> dict[str, Quantity]:
    """Sum per name over the union of the names.

    >>> one, half = Quantity.parse("1"), Quantity.parse("500m")
    >>> add({"cpu": one}, {"cpu": half, "pods": one})
    {'cpu': Quantity(1500m), 'pods': Quantity(1)}
    """
    total = dict(left)
    for name, amount in right.items():
        held = total.get(name)
        total[name] = amount if held is None else held + amount
    return total


def subtract(left: ResourceList, right: ResourceList) -> dict[str, Quantity]:
    """Difference per name over the union of the names; a missing name counts as zero."""
    rest = dict(left)
    for name, amount in right.items():
        rest[name] = rest.get(name, ZERO) - amount
    return rest


def maximum(left: ResourceList, right: ResourceList) -> dict[str, Quantity]:
    """The greater amount per name; equal amounts keep the left one's text and format."""
    greatest = dict(left)
    for name, amount in right.items():
        held = greatest.get(name)
        if held is None or amount > held:
            greatest[name] = amount
    return greatest


def rounded_to_milli(amounts: ResourceList) -> dict[str, Quantity]:
    """What the API server stores: each amount rounded away from zero to a thousandth."""
    return {name: amount.round_up(MILLI) for name, amount in amounts.items()}


def is_whole_in_milli(amounts: ResourceList) -> bool:
    """Whether `rounded_to_milli` changes nothing."""
    return all(not amount.big and amount.scale >= MILLI for amount in amounts.values())
