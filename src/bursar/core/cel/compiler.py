"""From the tree of an expression to its code, checking types on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

from bursar.core.cel import calls, loops, members
from bursar.core.cel.code import Code, Frame, Typed, constant, truth
from bursar.core.cel.errors import CompileError, EvalError
from bursar.core.cel.functions.overload import Functions
from bursar.core.cel.functions.patterns import PATTERN_FUNCTIONS, Pattern, Patterns, functions_of
from bursar.core.cel.parsing import syntax
from bursar.core.cel.parsing.syntax import Macro, Node
from bursar.core.cel.types import (
    BOOL,
    DYN,
    INT,
    NULL,
    QUANTITY,
    STRING,
    TYPE,
    CelType,
    fits,
    joined,
    list_of,
    map_of,
    optional_of,
)
from bursar.core.cel.values import CLASSES, Maybe, lookup_key

FOLD_BUDGET: Final = 10_000
_FOLDED: Final = frozenset({"quantity", "duration", "timestamp"})
"""Functions of a literal that are computed, and so checked, when the expression is compiled."""
_TYPE_NAMES: Final = CLASSES.keys() - {QUANTITY.name}
"""Types that expressions can name. Kubernetes has no name for that of quantities."""
_LITERALS: Final = {bool: BOOL, int: INT, str: STRING, type(None): NULL}


class Local(NamedTuple):
    """The variable of a macro."""

    key: str
    type: CelType


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What expressions can name."""

    functions: Functions
    patterns: Patterns
    variables: Mapping[str, CelType]
    computed: Mapping[str, Code]
    """The variables that are computed when they are first read, with the code for it."""


class Compiler:
    """Compiles one expression."""

    def __init__(self, text: str, environment: Environment) -> None:
        self._text = text
        self._environment = environment
        self._parts = 0
        self.variables: Final[set[str]] = set()
        """The variables of the environment that the expression names."""

    def compile(self, node: Node, scope: Mapping[str, Local]) -> Typed:  # noqa: PLR0911 - by node
        """Raises `CompileError`."""
        self._parts += 1
        match node:
            case syntax.Literal():
                return Typed(_LITERALS[type(node.value)], constant(node.value))
            case syntax.Ident():
                return self._named(node.offset, node.name, scope)
            case syntax.Select() | syntax.Has():
                return self._field(node, scope)
            case syntax.Index():
                return self._index(node, scope)
            case syntax.Call():
                return self._call(node, scope)
            case syntax.Logic():
                return self._logic(node, scope)
            case syntax.Choice():
                return self._choice(node, scope)
            case syntax.ListLiteral() | syntax.MapLiteral():
                return self._aggregate(node, scope)
            case syntax.Loop():
                return self._loop(node, scope)
            case syntax.Unwrap():
                return self._unwrap(node, scope)
            case _:
                assert_never(node)

    def _error(self, node: Node, message: str) -> CompileError:
        return CompileError(self._text, node.offset, message)

    # ------------------------------------------------------------------ names and members

    def _named(self, offset: int, name: str, scope: Mapping[str, Local]) -> Typed:
        local = scope.get(name)
        if local is not None:
            key = local.key
            return Typed(local.type, lambda frame: frame.values[key])
        declared = self._environment.variables.get(name)
        if declared is not None:
            self.variables.add(name)
            computed = self._environment.computed.get(name)
            if computed is None:
                return Typed(declared, lambda frame: frame.values[name])
            return Typed(declared, _computed_once(name, computed))
        if name in _TYPE_NAMES:
            return Typed(TYPE, constant(CelType(name)))
        raise CompileError(self._text, offset, f"undeclared reference to '{name}'")

    def _field(self, node: syntax.Select | syntax.Has, scope: Mapping[str, Local]) -> Typed:
        name = None if isinstance(node, syntax.Has) else self._dotted(node, scope)
        if name is not None:
            return self._named(_start(node), name, scope)
        held = self.compile(node.operand, scope)
        found = members.member_type(held.type, None)
        if found is None:
            raise self._error(node, f"type '{held.type}' does not support field selection")
        if isinstance(node, syntax.Has):
            return Typed(BOOL, members.has(held.code, node.field))
        if node.is_optional:
            return Typed(_as_optional(found), members.select_optional(held.code, node.field))
        return Typed(found, members.select(held.code, node.field))

    def _dotted(self, node: Node, scope: Mapping[str, Local]) -> str | None:
        """The name that a row of fields is, such as `variables.pool`; None if it is not one."""
        names: list[str] = []
        while isinstance(node, syntax.Select) and not node.is_optional:
            names.append(node.field)
            node = node.operand
        if not isinstance(node, syntax.Ident) or node.name in scope:
            return None
        name = ".".join([node.name, *reversed(names)])
        is_known = name in self._environment.variables or name in _TYPE_NAMES
        is_root = node.name in self._environment.variables or node.name in _TYPE_NAMES
        # An unknown root gives the better message with the whole name.
        is_inner = any(each.startswith(f"{name}.") for each in self._environment.variables)
        return name if is_known or not (is_root or is_inner) else None

    def _index(self, node: syntax.Index, scope: Mapping[str, Local]) -> Typed:
        held, key = self.compile(node.operand, scope), self.compile(node.key, scope)
        found = members.member_type(held.type, key.type)
        if found is None:
            message = calls.mismatch("_[_]", (held, key), is_method=False)
            raise self._error(node, message)
        if node.is_optional:
            return Typed(_as_optional(found), members.index_optional(held.code, key.code))
        return Typed(found, members.index(held.code, key.code))

    # ------------------------------------------------------------------ calls

    def _call(self, node: syntax.Call, scope: Mapping[str, Local]) -> Typed:
        name, functions = node.function, self._environment.functions
        args = [self.compile(each, scope) for each in node.args]
        is_method = False
        if node.target is not None:
            prefix = self._dotted_function(node.target, scope)
            if prefix is not None and f"{prefix}.{name}" in functions:
                name = f"{prefix}.{name}"
            else:
                is_method = True
                args = [self.compile(node.target, scope), *args]
        if is_method and name in ("or", "orValue"):
            return self._fallback(node, args)
        overloads = [each for each in functions.get(name, ()) if each.is_method is is_method]
        if not overloads:
            raise self._error(node, f"undeclared reference to '{name}'")
        found = calls.call(name, overloads, args)
        if found is None:
            raise self._error(node, calls.mismatch(name, args, is_method=is_method))
        pattern = self._pattern(node, name)
        if pattern is not None:
            # The text stands first, then the pattern, as a method or as a function.
            found = calls.call(name, functions_of(pattern)[name], (args[0], *args[2:])) or found
        return self._folded(node, name, found)

    @staticmethod
    def _dotted_function(target: Node, scope: Mapping[str, Local]) -> str | None:
        if isinstance(target, syntax.Ident) and target.name not in scope:
            return target.name
        return None

    def _pattern(self, node: syntax.Call, name: str) -> Pattern | None:
        """The regular expression of a call if it is a literal, compiled."""
        if name not in PATTERN_FUNCTIONS:
            return None
        at = node.args[0 if node.target is not None else 1]
        if not (isinstance(at, syntax.Literal) and isinstance(at.value, str)):
            return None
        try:
            return self._environment.patterns.compiled(at.value)
        except EvalError as error:
            raise self._error(at, str(error)) from None

    def _folded(self, node: syntax.Call, name: str, found: Typed) -> Typed:
        if name not in _FOLDED or not all(isinstance(each, syntax.Literal) for each in node.args):
            return found
        try:
            return Typed(found.type, constant(found.code(Frame({}, FOLD_BUDGET))))
        except EvalError as error:
            raise self._error(node.args[0], str(error)) from None

    def _fallback(self, node: syntax.Call, args: Sequence[Typed]) -> Typed:
        """`or` and `orValue` compute their argument only if there is no value."""
        wanted = optional_of(DYN)
        if len(args) != 2 or not fits(wanted, args[0].type, {}):
            raise self._error(node, calls.mismatch(node.function, args, is_method=True))
        is_value = node.function == "orValue"
        held = _inside(args[0].type)
        result = args[1].type
        if joined(held if is_value else optional_of(held), result) is None:
            raise self._error(node, calls.mismatch(node.function, args, is_method=True))
        optional, fallback = args[0].code, args[1].code

        def code(frame: Frame) -> object:
            found = optional(frame)
            if not isinstance(found, Maybe):
                return found  # as in Kubernetes
            if not found.is_present:
                return fallback(frame)
            return found.value if is_value else found

        return Typed(result, code)

    # ------------------------------------------------------------------ logic

    def _logic(self, node: syntax.Logic, scope: Mapping[str, Local]) -> Typed:
        terms = [self.compile(each, scope) for each in node.terms]
        for term in terms[1:]:
            if not (fits(BOOL, terms[0].type, {}) and fits(BOOL, term.type, {})):
                sign = "&&" if node.is_and else "||"
                kinds = f"({terms[0].type}, {term.type})"
                message = f"found no matching overload for '_{sign}_' applied to '{kinds}'"
                raise self._error(node, message)
        return Typed(BOOL, _row([each.code for each in terms], decisive=not node.is_and))

    def _choice(self, node: syntax.Choice, scope: Mapping[str, Local]) -> Typed:
        parts = (node.condition, node.then, node.otherwise)
        condition, then, otherwise = (self.compile(each, scope) for each in parts)
        result = joined(then.type, otherwise.type)
        if not fits(BOOL, condition.type, {}) or result is None:
            message = calls.mismatch("_?_:_", (condition, then, otherwise), is_method=False)
            raise self._error(node, message)
        test, yes, no = condition.code, then.code, otherwise.code
        return Typed(result, lambda frame: yes(frame) if truth(test(frame)) else no(frame))

    # ------------------------------------------------------------------ lists and maps

    def _aggregate(
        self, node: syntax.ListLiteral | syntax.MapLiteral, scope: Mapping[str, Local]
    ) -> Typed:
        keys: list[Typed] = []
        values: list[Typed] = []
        for entry in node.entries:
            value = self.compile(entry.value, scope)
            if entry.is_optional:
                value = self._optional_entry(entry.value, value)
            self._add(values, value, entry.value)
            if entry.key is not None:
                self._add(keys, self.compile(entry.key, scope), entry.key)
        self._check_keys(node)
        flags = [each.is_optional for each in node.entries]
        kind = values[-1].type if values else DYN
        codes = [each.code for each in values]
        if isinstance(node, syntax.ListLiteral):
            return Typed(list_of(kind), _list(codes, flags))
        key_kind = keys[-1].type if keys else DYN
        if key_kind not in (STRING, INT, DYN):
            raise self._error(node, f"keys of type '{key_kind}' are not supported")
        return Typed(map_of(key_kind, kind), _map([each.code for each in keys], codes, flags))

    def _check_keys(self, node: syntax.ListLiteral | syntax.MapLiteral) -> None:
        seen: set[object] = set()
        for each in node.entries:
            if isinstance(each.key, syntax.Literal):
                if each.key.value in seen:
                    raise self._error(each.key, "the map has this key twice")
                seen.add(each.key.value)

    def _optional_entry(self, node: Node, value: Typed) -> Typed:
        if not fits(optional_of(DYN), value.type, {}):
            raise self._error(node, f"expected type 'optional_type(dyn)', found '{value.type}'")
        return Typed(_inside(value.type), value.code)

    def _add(self, known: list[Typed], found: Typed, node: Node) -> None:
        """All elements must be of one type, as Kubernetes demands."""
        if known and known[-1].type != found.type:
            raise self._error(node, f"expected type '{known[-1].type}' but found '{found.type}'")
        known.append(found)

    # ------------------------------------------------------------------ macros

    def _loop(self, node: syntax.Loop, scope: Mapping[str, Local]) -> Typed:
        over = self.compile(node.over, scope)
        if over.type != DYN and over.type.name not in ("list", "map"):
            raise self._error(
                node.over,
                f"expression of type '{over.type}' cannot be range of a comprehension (must be "
                "list, map, or dynamic)",
            )
        element = _inside(over.type)
        start = self._parts
        local = Local(f"{node.variable} {start}", element)
        inner = {**scope, node.variable: local}
        condition = None if node.condition is None else self.compile(node.condition, inner)
        if condition is not None and not fits(BOOL, condition.type, {}):
            raise self._error(node, f"expected type 'bool' but found '{condition.type}'")
        result = None if node.result is None else self.compile(node.result, inner)
        turn = loops.Turn(
            over.code,
            local.key,
            None if condition is None else condition.code,
            None if result is None else result.code,
            1 + self._parts - start,
        )
        code = loops.loop(node.macro, turn)
        if result is not None:
            return Typed(list_of(result.type), code)
        return Typed(list_of(element) if node.macro is Macro.FILTER else BOOL, code)

    def _unwrap(self, node: syntax.Unwrap, scope: Mapping[str, Local]) -> Typed:
        held = self.compile(node.target, scope)
        if not fits(optional_of(DYN), held.type, {}):
            raise self._error(node, f"expected type 'optional_type(dyn)', found '{held.type}'")
        local = Local(f"{node.variable} {self._parts}", _inside(held.type))
        result = self.compile(node.result, {**scope, node.variable: local})
        if node.is_flat and not fits(optional_of(DYN), result.type, {}):
            raise self._error(node, f"expected type 'optional_type(dyn)', found '{result.type}'")
        optional, inner, is_flat = held.code, result.code, node.is_flat

        def code(frame: Frame) -> object:
            found = optional(frame)
            if not isinstance(found, Maybe):
                raise EvalError("no such overload: optMap() of a value that is not optional")
            if not found.is_present:
                return found
            frame.values[local.key] = found.value
            return inner(frame) if is_flat else Maybe(inner(frame))

        return Typed(result.type if is_flat else optional_of(result.type), code)


def _start(node: Node) -> int:
    """The offset of the first name of a row of fields."""
    while isinstance(node, syntax.Select):
        node = node.operand
    return node.offset


def _inside(kind: CelType) -> CelType:
    """The type of elements, of keys, or of an optional value."""
    return kind.params[0] if kind.params else DYN


def _as_optional(kind: CelType) -> CelType:
    return kind if kind.name == "optional_type" else optional_of(kind)


def _computed_once(name: str, computed: Code) -> Code:
    def code(frame: Frame) -> object:
        if name not in frame.values:
            frame.values[name] = computed(frame)
        return frame.values[name]

    return code


def _row(terms: Sequence[Code], *, decisive: bool) -> Code:
    """`||` ends at the first true, `&&` at the first false, whatever failed before."""

    def code(frame: Frame) -> object:
        failed: EvalError | None = None
        for term in terms:
            try:
                found = truth(term(frame))
            except EvalError as error:
                failed = failed or error
                continue
            if found is decisive:
                return decisive
        if failed is not None:
            raise failed
        return not decisive

    return code


def _list(codes: Sequence[Code], flags: Sequence[bool]) -> Code:
    if not any(flags):
        return lambda frame: [each(frame) for each in codes]

    def code(frame: Frame) -> object:
        return [
            value.value if is_optional and isinstance(value, Maybe) else value
            for value, is_optional in zip([each(frame) for each in codes], flags, strict=True)
            if _is_given(value, is_optional=is_optional)
        ]

    return code


def _map(keys: Sequence[Code], codes: Sequence[Code], flags: Sequence[bool]) -> Code:
    def code(frame: Frame) -> object:
        found: dict[object, object] = {}
        for key, value_code, is_optional in zip(keys, codes, flags, strict=True):
            name, value = lookup_key(key(frame)), value_code(frame)
            if _is_given(value, is_optional=is_optional):
                found[name] = value.value if is_optional and isinstance(value, Maybe) else value
        return found

    return code


def _is_given(value: object, *, is_optional: bool) -> bool:
    if not is_optional:
        return True
    if not isinstance(value, Maybe):
        raise EvalError("no such overload: an optional entry needs an optional value")
    return value.is_present
