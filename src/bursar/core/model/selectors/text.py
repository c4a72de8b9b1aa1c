"""Selectors as text, the way `kubectl -l` takes them: `app=web,tier in (a,b),!canary`.

The reader is as lenient as upstream's and no more. Where a value may stand, nothing
may stand too, meaning the empty one; `in` and `notin` are words like others except
right after a key; a comma at the end is a mistake.
"""

import re
from dataclasses import dataclass
from typing import Final

from bursar.core.model.selectors.selector import (
    Operator,
    Requirement,
    Selector,
    SelectorError,
    all_of,
    label_key_problem,
    requirement,
)


def parse_selector(text: str) -> Selector:
    """Read a selector; raise `SelectorError` with upstream's message.

    >>> print(parse_selector(" tier in (b,a), app "))
    app,tier in (a,b)
    """
    return all_of(_Reader(_tokens(text)).selector())


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_word: bool = False


_END: Final = _Token("")
_COMMA: Final = _Token(",")
_NOT: Final = _Token("!")
_OPEN: Final = _Token("(")
_CLOSE: Final = _Token(")")

# A zero byte ends a token and disappears; where a token should begin, it ends the text.
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n\0]+))\0?")

_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_EXPECTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while match := _TOKEN.match(text, position):
        symbol, word = match.group(1, 2)
        tokens.append(_Token(symbol) if word is None else _Token(word, is_word=True))
        position = match.end()
    return tokens


class _Reader:
    """Reads tokens from left to right and never looks further than the next one."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = [*tokens, _END]
        self._position = 0

    def selector(self) -> list[Requirement]:
        found: list[Requirement] = []
        first = self._next()
        if first == _END:
            return found
        if not (first.is_word or first == _NOT):
            raise _unexpected(first, "!, identifier, or 'end of string'")
        while True:
            found.append(self._requirement())
            after = self._take()
            if after == _END:
                return found
            if after != _COMMA:
                raise _unexpected(after, "',' or 'end of string'")
            following = self._next()
            if not (following.is_word or following == _NOT):
                raise _unexpected(following, "identifier after ','")

    def _requirement(self) -> Requirement:
        try:
            return self._key_and_values()
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None

    def _key_and_values(self) -> Requirement:
        word = self._take()
        absent = word == _NOT
        if absent:
            word = self._take()
        if not word.is_word:
            raise _unexpected(word, "identifier")
        problem = label_key_problem(word.text, "<nil>")
        if problem is not None:
            raise SelectorError(str(problem))
        if absent:
            return requirement(word.text, Operator.DOES_NOT_EXIST)
        if self._next() in {_END, _COMMA}:
            return requirement(word.text, Operator.EXISTS)
        sign = self._take()
        operator = _OPERATORS.get(sign.text)
        if operator is None:
            raise _unexpected(sign, _EXPECTED_OPERATORS)
        several = operator in {Operator.IN, Operator.NOT_IN}
        values = self._value_set() if several else {self._value()}
        return requirement(word.text, operator, sorted(values))

    def _value(self) -> str:
        if self._next() in {_END, _COMMA}:
            return ""
        value = self._take()
        if not value.is_word:
            raise _unexpected(value, "identifier")
        return value.text

    def _value_set(self) -> set[str]:
        opening = self._take()
        if opening != _OPEN:
            # Upstream has no comma in this message alone.
            raise SelectorError(f"found '{opening.text}' expected: '('")
        first = self._next()
        if first == _CLOSE:
            self._take()
            return {""}
        if not (first.is_word or first == _COMMA):
            raise _unexpected(first, "',', ')' or identifier")
        return self._listed_values()

    def _listed_values(self) -> set[str]:
        """Values up to the closing parenthesis; between two commas stands the empty one."""
        values: set[str] = set()
        while True:
            token = self._take()
            following = self._next()
            if token.is_word:
                values.add(token.text)
                if following not in {_COMMA, _CLOSE}:
                    raise _unexpected(following, "',' or ')'")
            elif token == _COMMA:
                if not values or following in {_COMMA, _CLOSE}:
                    values.add("")
            else:
                raise _unexpected(token, "',', or identifier")
            if following == _CLOSE:
                self._take()
                return values

    def _next(self) -> _Token:
        return self._tokens[min(self._position, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        token = self._next()
        self._position += 1
        return token


def _unexpected(token: _Token, expected: str) -> SelectorError:
    return SelectorError(f"found '{token.text}', expected: {expected}")
