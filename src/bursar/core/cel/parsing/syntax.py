"""The syntax tree of an expression. Every node knows its offset in the text."""

from enum import Enum
from typing import NamedTuple, TypeAlias


class Literal(NamedTuple):
    offset: int
    value: int | str | bool | None


class Ident(NamedTuple):
    offset: int
    name: str


class Select(NamedTuple):
    """`operand.field`, or `operand.?field`."""

    offset: int
    operand: "Node"
    field: str
    is_optional: bool = False


class Has(NamedTuple):
    """`has(operand.field)`."""

    offset: int
    operand: "Node"
    field: str


class Index(NamedTuple):
    """`operand[key]`, or `operand[?key]`."""

    offset: int
    operand: "Node"
    key: "Node"
    is_optional: bool = False


class Call(NamedTuple):
    """A function, an operator (by its sign) or, with a target, a method."""

    offset: int
    function: str
    target: "Node | None"
    args: "tuple[Node, ...]"


class Logic(NamedTuple):
    """All operands of a row of `&&` or of `||`."""

    offset: int
    is_and: bool
    terms: "tuple[Node, ...]"


class Choice(NamedTuple):
    offset: int
    condition: "Node"
    then: "Node"
    otherwise: "Node"


class Entry(NamedTuple):
    """An element of a list or map literal; `?` in front of it makes it optional."""

    key: "Node | None"
    value: "Node"
    is_optional: bool


class ListLiteral(NamedTuple):
    offset: int
    entries: tuple[Entry, ...]


class MapLiteral(NamedTuple):
    offset: int
    entries: tuple[Entry, ...]


class Macro(Enum):
    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    FILTER = "filter"
    MAP = "map"


class Loop(NamedTuple):
    """A macro that goes through a list, or through the keys of a map."""

    offset: int
    macro: Macro
    over: "Node"
    variable: str
    condition: "Node | None"
    """None for a `map` that takes every element."""
    result: "Node | None"
    """What `map` makes of an element; None for the others."""


class Unwrap(NamedTuple):
    """`target.optMap(variable, result)` and `target.optFlatMap(variable, result)`."""

    offset: int
    target: "Node"
    variable: str
    result: "Node"
    is_flat: bool


_Value: TypeAlias = Literal | Ident | ListLiteral | MapLiteral
_Member: TypeAlias = Select | Has | Index | Call
Node: TypeAlias = _Value | _Member | Logic | Choice | Loop | Unwrap
