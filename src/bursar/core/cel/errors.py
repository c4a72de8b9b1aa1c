"""Errors of expressions: those found before they run, with their place, and those of one run."""

from typing import Final

QUOTED_MAX: Final = 80
"""Longest quoted line of an expression. A longer one is cut around the error."""


class CompileError(ValueError):
    """The expression is not valid. The message starts with line and column."""

    def __init__(self, text: str, offset: int, message: str) -> None:
        before = text[:offset]
        self.line: Final = before.count("\n") + 1
        self.column: Final = offset - (before.rfind("\n") + 1) + 1
        self.message: Final = message
        self._source = text.split("\n")[self.line - 1]
        super().__init__(f"{self.line}:{self.column}: {message}")

    @property
    def excerpt(self) -> str:
        """The line of the expression, and below it a caret at the column of the error."""
        start = max(0, self.column - 1 - QUOTED_MAX // 2)
        shown = self._source[start : start + QUOTED_MAX].replace("\t", " ")
        return f" | {shown}\n | {'.' * (self.column - 1 - start)}^"


class EvalError(ValueError):
    """The expression has no result for these values. `&&`, `||` and macros may recover."""


class CostError(Exception):
    """The evaluation used up its budget. Nothing recovers from it."""


class Meter:
    """The budget of one evaluation, in steps of about a tenth of a microsecond."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise CostError("the expression costs too much for this pod")

    def spend_text(self, length: int) -> None:
        """The cost of reading or writing a text of that length."""
        self.spend(1 + (length >> 4))
