"""An overload: one function for one list of parameter types."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bursar.core.cel.types import CelType

Impl: TypeAlias = Callable[..., object]  # type: ignore[explicit-any] # by overload
"""Called with a `Meter` and the arguments, whose classes were checked. Raises `EvalError`."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One function for one list of parameter types. A method's first parameter is its target."""

    params: tuple[CelType, ...]
    result: CelType
    impl: Impl
    is_method: bool = False


Functions: TypeAlias = Mapping[str, tuple[Overload, ...]]


def function(*params: CelType, gives: CelType, by: Impl) -> Overload:
    return Overload(params, gives, by)


def method(*params: CelType, gives: CelType, by: Impl) -> Overload:
    return Overload(params, gives, by, is_method=True)


def merged(tables: Iterable[Functions]) -> dict[str, tuple[Overload, ...]]:
    found: dict[str, tuple[Overload, ...]] = {}
    for table in tables:
        for name, overloads in table.items():
            found[name] = (*found.get(name, ()), *overloads)
    return found
