"""Calls: which overload of a function takes the arguments, before the run and in it."""

from collections.abc import Sequence
from typing import Final

from bursar.core.cel.code import Code, Frame, Typed
from bursar.core.cel.errors import EvalError
from bursar.core.cel.functions.overload import Impl, Overload
from bursar.core.cel.types import DYN, Bindings, CelType, fits, resolved
from bursar.core.cel.values import CLASSES, type_of

_BINARY: Final = ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=")
_SHOWN: Final = {sign: f"_{sign}_" for sign in _BINARY} | {"in": "@in", "-_": "-_", "!_": "!_"}
"""How the type checker of Kubernetes names operators."""


def call(name: str, overloads: Sequence[Overload], args: Sequence[Typed]) -> Typed | None:
    """The code of a call; None if no overload takes arguments of these types."""
    given = [each.type for each in args]
    found: list[Overload] = []
    results: list[CelType] = []
    for each in overloads:
        bound: Bindings = {}
        if len(each.params) == len(given) and all(
            fits(wanted, held, bound) for wanted, held in zip(each.params, given, strict=True)
        ):
            found.append(each)
            results.append(resolved(each.result, bound))
    if not found:
        return None
    result = results[0] if all(each == results[0] for each in results) else DYN
    codes = [each.code for each in args]
    if len(found) == 1 and all(each.is_variable for each in found[0].params):
        return Typed(result, _direct(found[0].impl, codes))
    # Static types are not trusted: `orValue` may return a value of another type.
    return Typed(result, _dispatched(name, found, codes))


def mismatch(name: str, args: Sequence[Typed], *, is_method: bool) -> str:
    """The error of Kubernetes' type checker if no overload takes these arguments."""
    texts = [str(each.type) for each in args]
    if is_method:
        return (
            f"found no matching overload for '{name}' applied to "
            f"'{texts[0]}.({', '.join(texts[1:])})'"
        )
    shown = _SHOWN.get(name, name)
    return f"found no matching overload for '{shown}' applied to '({', '.join(texts)})'"


def _direct(impl: Impl, codes: Sequence[Code]) -> Code:
    if len(codes) == 1:
        only = codes[0]
        return lambda frame: impl(frame, only(frame))
    if len(codes) == 2:
        one, two = codes
        return lambda frame: impl(frame, one(frame), two(frame))
    return lambda frame: impl(frame, *[each(frame) for each in codes])


def _dispatched(name: str, overloads: Sequence[Overload], codes: Sequence[Code]) -> Code:
    known: dict[tuple[type, ...], Impl] = {}
    if len(codes) == 2:
        one, two = codes

        def code_of_two(frame: Frame) -> object:
            left, right = one(frame), two(frame)
            impl = known.get((type(left), type(right)))
            if impl is None:
                impl = _choose(name, overloads, (left, right))
                known[type(left), type(right)] = impl
            return impl(frame, left, right)

        return code_of_two

    def code(frame: Frame) -> object:
        values = [each(frame) for each in codes]
        classes = tuple(map(type, values))
        impl = known.get(classes)
        if impl is None:
            impl = known[classes] = _choose(name, overloads, values)
        return impl(frame, *values)

    return code


def _choose(name: str, overloads: Sequence[Overload], values: Sequence[object]) -> Impl:
    for each in overloads:
        pairs = zip(each.params, values, strict=True)
        if all(_takes(param, value) for param, value in pairs):
            return each.impl
    kinds = ", ".join(str(type_of(value)) for value in values)
    raise EvalError(f"no such overload: {name.rstrip('_')}({kinds})")


def _takes(param: CelType, value: object) -> bool:
    return CLASSES.get(param.name, type(value)) is type(value)
