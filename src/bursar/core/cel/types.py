"""The types of expressions, and which values fit which parameters."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CelType:
    name: str
    params: "tuple[CelType, ...]" = ()
    is_variable: bool = False
    """A type parameter of a function, such as A in `list(A)`."""

    def __str__(self) -> str:
        inner = ", ".join(str(each) for each in self.params)
        return f"{self.name}({inner})" if inner else self.name


DYN: Final = CelType("dyn")
INT: Final = CelType("int")
BOOL: Final = CelType("bool")
STRING: Final = CelType("string")
NULL: Final = CelType("null_type")
TIMESTAMP: Final = CelType("google.protobuf.Timestamp")
DURATION: Final = CelType("google.protobuf.Duration")
QUANTITY: Final = CelType("kubernetes.Quantity")
TYPE: Final = CelType("type")
A: Final = CelType("A", is_variable=True)
B: Final = CelType("B", is_variable=True)


def depth(kind: CelType) -> int:
    """How deep type parameters are nested, as 2 for `list(list(int))`."""
    found, layer = 0, kind.params
    while layer:
        found += 1
        layer = tuple(inner for each in layer for inner in each.params)
    return found


def list_of(element: CelType) -> CelType:
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    return CelType("optional_type", (value,))


Bindings = dict[str, CelType]
"""What the type parameters of one call stand for."""


def fits(wanted: CelType, given: CelType, bound: Bindings) -> bool:
    """Whether a value of type `given` can be passed for `wanted`. May bind type parameters."""
    if wanted.is_variable:
        known = bound.setdefault(wanted.name, given)
        if DYN in (known, given):
            bound[wanted.name] = DYN
            return True
        return fits(known, given, bound)
    if DYN in (wanted, given):
        return True
    return wanted.name == given.name and all(
        fits(one, other, bound) for one, other in zip(wanted.params, given.params, strict=True)
    )


def resolved(declared: CelType, bound: Bindings) -> CelType:
    """The type with its parameters replaced by what they stand for."""
    if declared.is_variable:
        return bound.get(declared.name, DYN)
    if not declared.params:
        return declared
    return CelType(declared.name, tuple(resolved(each, bound) for each in declared.params))


def joined(one: CelType, other: CelType) -> CelType | None:
    """The type of a value that has one of two types; None if they do not go together."""
    if one == other:
        return one
    if not (fits(one, other, {}) and fits(other, one, {})):
        return None
    if DYN in (one, other) or one.name != other.name:
        return DYN
    pairs = zip(one.params, other.params, strict=True)
    return CelType(one.name, tuple(joined(left, right) or DYN for left, right in pairs))
