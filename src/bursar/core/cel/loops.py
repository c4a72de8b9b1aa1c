"""The macros that go through a list or the keys of a map.

Each turn costs as many steps as its code has parts, so nested loops cannot hide their cost.
"""

from typing import NamedTuple, assert_never

from bursar.core.cel.code import Code, Frame, constant, truth
from bursar.core.cel.errors import EvalError
from bursar.core.cel.parsing.syntax import Macro
from bursar.core.cel.values import type_of


class Turn(NamedTuple):
    """One turn of a loop."""

    over: Code
    variable: str
    """The name under which frames hold the element; no other loop of the expression has it."""
    condition: Code | None
    result: Code | None
    cost: int


def loop(macro: Macro, turn: Turn) -> Code:
    condition = turn.condition or constant(True)
    match macro:
        case Macro.ALL | Macro.EXISTS:
            return _quantified(turn, condition, decisive=macro is Macro.EXISTS)
        case Macro.EXISTS_ONE:
            return _exactly_one(turn, condition)
        case Macro.FILTER:
            return _filter(turn, condition)
        case Macro.MAP:
            return _map(turn, condition)
        case _:
            assert_never(macro)


def _elements(frame: Frame, turn: Turn) -> list[object]:
    held = turn.over(frame)
    if isinstance(held, list):
        return held
    if isinstance(held, dict):
        frame.spend(1 + len(held))
        return list(held)
    raise EvalError(f"cannot go through a value of type {type_of(held)}")


def _quantified(turn: Turn, condition: Code, *, decisive: bool) -> Code:
    """`exists` ends at the first true, `all` at the first false, whatever failed before."""
    variable, cost = turn.variable, turn.cost

    def code(frame: Frame) -> object:
        failed: EvalError | None = None
        values = frame.values
        for each in _elements(frame, turn):
            frame.spend(cost)
            values[variable] = each
            try:
                found = truth(condition(frame))
            except EvalError as error:
                failed = failed or error
                continue
            if found is decisive:
                return decisive
        if failed is not None:
            raise failed
        return not decisive

    return code


def _exactly_one(turn: Turn, condition: Code) -> Code:
    kept = _filter(turn, condition)

    def code(frame: Frame) -> object:
        found = kept(frame)
        return isinstance(found, list) and len(found) == 1

    return code


def _filter(turn: Turn, condition: Code) -> Code:
    variable, cost = turn.variable, turn.cost

    def code(frame: Frame) -> object:
        found: list[object] = []
        for each in _elements(frame, turn):
            frame.spend(cost)
            frame.values[variable] = each
            if truth(condition(frame)):
                found.append(each)
        return found

    return code


def _map(turn: Turn, condition: Code) -> Code:
    variable, cost, result = turn.variable, turn.cost, turn.result
    assert result is not None

    def code(frame: Frame) -> object:
        found: list[object] = []
        for each in _elements(frame, turn):
            frame.spend(cost)
            frame.values[variable] = each
            if truth(condition(frame)):
                found.append(result(frame))
        return found

    return code
