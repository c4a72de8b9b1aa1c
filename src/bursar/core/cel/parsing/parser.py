"""From the text of an expression to its tree, with bounds on both."""

from typing import Final

from bursar.core.cel.errors import CompileError
from bursar.core.cel.parsing import syntax
from bursar.core.cel.parsing.lexer import Sort, Token, tokens_of
from bursar.core.cel.parsing.syntax import Entry, Macro, Node
from bursar.core.model.numbers.int64 import INT64_MAX

TEXT_MAX: Final = 4096
"""Longest expression, in characters. Kubernetes accepts 10,240; longer ones cost it more too."""
DEPTH_MAX: Final = 32
"""Deepest nesting of brackets, calls, members, operators and macros: ten Python calls a level."""

_RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_RELATIONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})
_SUMS: Final = frozenset({"+", "-"})
_PRODUCTS: Final = frozenset({"*", "/", "%"})
_LEVELS: Final = (_RELATIONS, _SUMS, _PRODUCTS)
_MACROS: Final = {each.value: each for each in Macro}


def parse(text: str) -> Node:
    """The tree of an expression. Raises `CompileError`."""
    if len(text) > TEXT_MAX:
        message = f"the expression has {len(text)} characters; at most {TEXT_MAX} are accepted"
        raise CompileError(text, 0, message)
    parser = _Parser(text)
    node = parser.expression()
    parser.expect_end()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._depth = 0

    # ------------------------------------------------------------------ tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _is(self, *signs: str) -> bool:
        token = self._token
        return token.text in signs and token.sort in (Sort.SIGN, Sort.NAME)

    def _take(self) -> Token:
        token = self._token
        self._at += 1
        return token

    def _accept(self, sign: str) -> bool:
        if self._is(sign):
            self._at += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise self._error(f"expected {sign!r}, found {_shown(self._token)}")

    def expect_end(self) -> None:
        if self._token.sort is not Sort.END:
            raise self._error(f"expected an operator or the end, found {_shown(self._token)}")

    def _error(self, message: str, offset: int | None = None) -> CompileError:
        where = self._token.offset if offset is None else offset
        return CompileError(self._text, where, f"syntax error: {message}")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            message = f"the expression is nested too deeply; at most {DEPTH_MAX} levels are"
            raise CompileError(self._text, self._token.offset, f"{message} accepted")

    # ------------------------------------------------------------------ operators

    def expression(self) -> Node:
        self._deeper()
        node = self._logic(is_and=False)
        offset = self._token.offset
        if self._accept("?"):
            then = self._logic(is_and=False)
            self._expect(":")
            node = syntax.Choice(offset, node, then, self.expression())
        self._depth -= 1
        return node

    def _logic(self, *, is_and: bool) -> Node:
        sign = "&&" if is_and else "||"
        first = self._binary(0) if is_and else self._logic(is_and=True)
        offset = self._token.offset
        terms = [first]
        while self._accept(sign):
            terms.append(self._binary(0) if is_and else self._logic(is_and=True))
        return first if len(terms) == 1 else syntax.Logic(offset, is_and, tuple(terms))

    def _binary(self, level: int) -> Node:
        """Operators of one precedence, from the left. Every further one deepens the tree."""
        if level == len(_LEVELS):
            return self._unary()
        node = self._binary(level + 1)
        links = 0
        while self._is(*_LEVELS[level]):
            self._deeper()
            links += 1
            sign = self._take()
            node = syntax.Call(sign.offset, sign.text, None, (node, self._binary(level + 1)))
        self._depth -= links
        return node

    def _unary(self) -> Node:
        token = self._token
        if not self._is("!", "-"):
            return self._member()
        if token.text == "-" and self._tokens[self._at + 1].sort is Sort.NUMBER:
            return self._member()
        start = self._at
        while self._is(token.text):
            self._at += 1
        count = self._at - start
        operand = self._member()
        if count % 2 == 0:
            return operand
        return syntax.Call(token.offset, f"{token.text}_", None, (operand,))

    # ------------------------------------------------------------------ members

    def _member(self) -> Node:
        node = self._primary()
        links = 0
        while self._is(".", "["):
            self._deeper()
            links += 1
            sign = self._take()
            is_optional = self._accept("?")
            if sign.text == "[":
                node = syntax.Index(sign.offset, node, self.expression(), is_optional)
                self._expect("]")
            else:
                node = self._selected(node, sign.offset, is_optional=is_optional)
        self._depth -= links
        return node

    def _selected(self, node: Node, offset: int, *, is_optional: bool) -> Node:
        name = self._name("the name of a field or a method")
        if is_optional or not self._is("("):
            return syntax.Select(offset, node, name, is_optional)
        place = self._token.offset
        return self._method(node, name, self._arguments(), place)

    def _method(self, target: Node, name: str, args: tuple[Node, ...], offset: int) -> Node:
        macro = _MACROS.get(name)
        if macro is not None and len(args) == (3 if macro is Macro.MAP and len(args) > 2 else 2):
            variable = self._variable(args[0], name)
            if macro is not Macro.MAP:
                return syntax.Loop(offset, macro, target, variable, args[1], None)
            condition = args[1] if len(args) == 3 else None
            return syntax.Loop(offset, macro, target, variable, condition, args[-1])
        if name in ("optMap", "optFlatMap") and len(args) == 2:
            variable = self._variable(args[0], name)
            return syntax.Unwrap(offset, target, variable, args[1], name == "optFlatMap")
        return syntax.Call(offset, name, target, args)

    def _variable(self, node: Node, macro: str) -> str:
        if not isinstance(node, syntax.Ident):
            raise self._error(f"the first argument of {macro}() must be a name", node.offset)
        return node.name

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        args: list[Node] = []
        if not self._is(")"):
            args.append(self.expression())
            while self._accept(","):
                args.append(self.expression())
        self._expect(")")
        return tuple(args)

    def _name(self, what: str) -> str:
        token = self._token
        if token.sort is not Sort.NAME or token.text in _KEYWORDS:
            raise self._error(f"expected {what}, found {_shown(token)}")
        self._at += 1
        return token.text

    # ------------------------------------------------------------------ primaries

    def _primary(self) -> Node:
        token = self._token
        if token.sort is Sort.TEXT:
            self._at += 1
            return syntax.Literal(token.offset, token.text)
        if token.sort is Sort.NUMBER or self._is("-"):
            return self._number()
        if self._accept("("):
            node = self.expression()
            self._expect(")")
            return node
        if self._accept("["):
            return syntax.ListLiteral(token.offset, self._entries("]", has_keys=False))
        if self._accept("{"):
            return syntax.MapLiteral(token.offset, self._entries("}", has_keys=True))
        return self._named()

    def _number(self) -> Node:
        token = self._take()
        if token.text == "-":
            return syntax.Literal(token.offset, -self._take().number)
        if token.number > INT64_MAX:
            raise self._error("invalid int literal: it has more than 64 bits", token.offset)
        return syntax.Literal(token.offset, token.number)

    def _named(self) -> Node:
        offset = self._token.offset
        if self._token.text in _CONSTANTS and self._token.sort is Sort.NAME:
            return syntax.Literal(offset, _CONSTANTS[self._take().text])
        self._accept(".")  # an absolute name; there is no container that it could leave
        name = self._name("a value")
        if name in _RESERVED:
            raise self._error(f"reserved identifier: {name}", offset)
        if self._is("{"):
            raise self._error("messages are not supported", offset)
        if not self._is("("):
            return syntax.Ident(offset, name)
        place = self._token.offset
        args = self._arguments()
        if name != "has":
            return syntax.Call(place, name, None, args)
        if len(args) != 1 or not isinstance(args[0], syntax.Select) or args[0].is_optional:
            raise self._error("has() takes one field, as in has(object.metadata.labels)", offset)
        return syntax.Has(place, args[0].operand, args[0].field)

    def _entries(self, closing: str, *, has_keys: bool) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        while not self._is(closing):
            is_optional = self._accept("?")
            key = None
            if has_keys:
                key = self.expression()
                self._expect(":")
            entries.append(Entry(key, self.expression(), is_optional))
            if not self._accept(","):
                break
        self._expect(closing)
        return tuple(entries)


def _shown(token: Token) -> str:
    return token.text if token.sort is Sort.END else repr(token.text)
