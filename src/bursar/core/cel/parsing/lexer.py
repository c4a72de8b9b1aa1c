"""The tokens of an expression."""

import re
from enum import Enum
from typing import Final, NamedTuple

from bursar.core.cel.errors import CompileError
from bursar.core.model.numbers.int64 import INT64_MAX


class Sort(Enum):
    NUMBER = "number"
    TEXT = "text"
    NAME = "name"
    SIGN = "sign"
    END = "end"


class Token(NamedTuple):
    sort: Sort
    text: str
    """The sign or name as written; of a string, its value."""
    offset: int
    number: int = 0


_SPACE: Final = re.compile(r"(?:[ \t\n\r\f]|//[^\n]*)*")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(
    r"(?P<hex>0x[0-9a-fA-F]+)(?P<hexu>[uU])?"
    r"|(?P<double>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<int>[0-9]+)(?P<intu>[uU])?"
)
_SIGN: Final = re.compile(r"&&|\|\||[=!<>]=|[-+*/%!<>?:.,()\[\]{}]")
_QUOTE: Final = re.compile(r"""(?P<prefix>[rRbB]{0,2})(?P<quote>\"\"\"|'''|"|')""")
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})"
    r"|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<bad>.|$))",
    re.DOTALL,
)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

NO_DOUBLES: Final = (
    "numbers with a fraction or an exponent are not supported, because amounts are exact: "
    "write quantity('1.5')"
)
NO_UNSIGNED: Final = "unsigned numbers are not supported: leave out the u"
NO_BYTES: Final = "bytes are not supported: write a string"


def tokens_of(text: str) -> list[Token]:
    """All tokens, the last one being `END`. Raises `CompileError`."""
    found: list[Token] = []
    offset = 0
    while True:
        offset = _end(_SPACE.match(text, offset), offset)
        if offset >= len(text):
            found.append(Token(Sort.END, "end of the expression", len(text)))
            return found
        token, offset = _next(text, offset)
        found.append(token)


def _end(match: re.Match[str] | None, offset: int) -> int:
    return offset if match is None else match.end()


def _next(text: str, offset: int) -> tuple[Token, int]:
    if quote := _QUOTE.match(text, offset):
        return _string(text, offset, quote)
    if name := _NAME.match(text, offset):
        return Token(Sort.NAME, name.group(), offset), name.end()
    if number := _NUMBER.match(text, offset):
        return _number(text, offset, number), number.end()
    if sign := _SIGN.match(text, offset):
        return Token(Sort.SIGN, sign.group(), offset), sign.end()
    raise CompileError(text, offset, f"unexpected character {text[offset]!a}")


def _number(text: str, offset: int, match: re.Match[str]) -> Token:
    if match["double"]:
        raise CompileError(text, offset, NO_DOUBLES)
    if match["hexu"] or match["intu"]:
        raise CompileError(text, offset, NO_UNSIGNED)
    digits = match["hex"] or match["int"]
    value = _bounded(text, offset, digits)
    return Token(Sort.NUMBER, digits, offset, value)


def _bounded(text: str, offset: int, digits: str) -> int:
    # One more than the greatest, because a minus sign may stand before it.
    value = int(digits, 16 if digits.startswith("0x") else 10) if len(digits) <= 64 else None
    if value is None or value > INT64_MAX + 1:
        raise CompileError(text, offset, "invalid int literal: it has more than 64 bits")
    return value


def _string(text: str, offset: int, match: re.Match[str]) -> tuple[Token, int]:
    prefix, quote = match["prefix"].lower(), match["quote"]
    if "b" in prefix:
        raise CompileError(text, offset, NO_BYTES)
    is_raw = "r" in prefix
    parts: list[str] = []
    at = match.end()
    while not text.startswith(quote, at):
        if at >= len(text) or (len(quote) == 1 and text[at] in "\r\n"):
            raise CompileError(text, offset, f"the string has no closing {quote}")
        if text[at] == "\\" and not is_raw:
            character, at = _escape(text, at)
            parts.append(character)
        else:
            parts.append(text[at])
            at += 1
    return Token(Sort.TEXT, "".join(parts), offset), at + len(quote)


def _escape(text: str, at: int) -> tuple[str, int]:
    match = _ESCAPE.match(text, at)
    assert match is not None  # `bad` takes whatever stands there
    if plain := match["plain"]:
        return _PLAIN.get(plain, plain), match.end()
    digits = match["hex"] or match["u4"] or match["u8"]
    code = int(match["octal"], 8) if match["octal"] else int(digits or "-1", 16)
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise CompileError(text, at, f"invalid escape sequence {match.group()!a} in a string")
    return chr(code), match.end()
