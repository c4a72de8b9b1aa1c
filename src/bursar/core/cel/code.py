"""What an expression is compiled to: a tree of Python functions, each with its type."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.types import CelType


class Frame(Meter):
    """One evaluation: the values of variables, and the budget that is left."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, object], budget: int) -> None:
        super().__init__(budget)
        self.values = values


Code: TypeAlias = Callable[[Frame], object]
"""Computes a value. Raises `EvalError` and `CostError`."""


class Typed(NamedTuple):
    type: CelType
    code: Code


def constant(value: object) -> Code:
    return lambda _: value


def truth(value: object) -> bool:
    if value is True or value is False:
        return value is True
    raise EvalError("no such overload: a condition must be true or false")
