"""Expressions, compiled once and evaluated for many values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bursar.core.cel.code import Code, Frame
from bursar.core.cel.compiler import Compiler, Environment
from bursar.core.cel.errors import CompileError, CostError, EvalError
from bursar.core.cel.functions.conversions import conversions
from bursar.core.cel.functions.lists import LISTS
from bursar.core.cel.functions.operators import OPERATORS
from bursar.core.cel.functions.overload import merged
from bursar.core.cel.functions.patterns import PatternEngine, Patterns
from bursar.core.cel.functions.texts import TEXTS
from bursar.core.cel.parsing.parser import DEPTH_MAX, parse
from bursar.core.cel.times import ZoneOffset
from bursar.core.cel.types import CelType, depth

__all__ = ["CompileError", "CostError", "EvalError", "Expression", "Frame", "Language"]


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    type: CelType
    variables: frozenset[str]
    """The variables that it names, directly or through other variables."""
    code: Code
    """Raises `EvalError` and `CostError`."""


class Language:
    """The functions of expressions."""

    def __init__(self, engine: PatternEngine, zones: ZoneOffset) -> None:
        self._patterns: Final = Patterns(engine)
        tables = (OPERATORS, TEXTS, LISTS, self._patterns.functions, *conversions(zones))
        self._functions: Final = merged(tables)

    def compile(
        self,
        text: str,
        variables: Mapping[str, CelType],
        computed: Mapping[str, Expression] | None = None,
    ) -> Expression:
        """Raises `CompileError`. `computed` are further variables, such as `variables.pool`."""
        known = computed or {}
        environment = Environment(
            functions=self._functions,
            patterns=self._patterns,
            variables={**variables, **{name: each.type for name, each in known.items()}},
            computed={name: each.code for name, each in known.items()},
        )
        compiler = Compiler(text, environment)
        found = compiler.compile(parse(text), {})
        if depth(found.type) > DEPTH_MAX:
            message = f"the value is nested too deeply; at most {DEPTH_MAX} levels are accepted"
            raise CompileError(text, 0, message)
        used = set(compiler.variables)
        for name in compiler.variables & known.keys():
            used |= known[name].variables
        return Expression(text, found.type, frozenset(used), found.code)
