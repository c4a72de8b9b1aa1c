"""Regular expressions. The engine is a port: it must take linear time, as RE2 does."""

from collections.abc import Sequence
from typing import Final, Protocol

from bursar.core.cel.errors import EvalError, Meter
from bursar.core.cel.functions.overload import Functions, function, method
from bursar.core.cel.types import BOOL, INT, STRING, list_of

PATTERN_MAX: Final = 1000
"""Longest regular expression, in characters."""

MATCH_STEPS: Final = 100
"""Cost of one match of `findAll`."""


COMPILE_STEPS: Final = 10_000
"""Cost of a pattern that is computed: it is compiled while the pod is counted."""


class Pattern(Protocol):
    @property
    def size(self) -> int:
        """Instructions of the compiled pattern. Each may be tried at every character."""

    def find(self, text: str) -> str | None:
        """The first match."""

    def find_all(self, text: str, limit: int) -> Sequence[str]:
        """The first matches, at most `limit` of them."""


class PatternEngine(Protocol):
    def __call__(self, text: str) -> Pattern:
        """Raises `ValueError` with the reason if the pattern is invalid or too expensive."""


class Patterns:
    """The functions that take a regular expression."""

    def __init__(self, engine: PatternEngine) -> None:
        self._engine = engine

    def compiled(self, text: str) -> Pattern:
        """Raises `EvalError`."""
        if len(text) > PATTERN_MAX:
            raise EvalError(
                f"the regular expression has {len(text)} characters; at most {PATTERN_MAX} are "
                "accepted"
            )
        try:
            return self._engine(text)
        except ValueError as error:
            raise EvalError(f"invalid regular expression: {error}") from None

    def _for(self, meter: Meter, pattern: str) -> Pattern:
        """A pattern that is not written in the expression, but computed, maybe from the pod."""
        meter.spend(COMPILE_STEPS)
        return self.compiled(pattern)

    def _matches(self, meter: Meter, text: str, pattern: str) -> bool:
        return _find(meter, self._for(meter, pattern), text) is not None

    def _find(self, meter: Meter, text: str, pattern: str) -> str:
        return _find(meter, self._for(meter, pattern), text) or ""

    def _find_all(self, meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
        return _find_all(meter, self._for(meter, pattern), text, limit)

    @property
    def functions(self) -> Functions:
        return {
            "matches": (
                function(STRING, STRING, gives=BOOL, by=self._matches),
                method(STRING, STRING, gives=BOOL, by=self._matches),
            ),
            "find": (method(STRING, STRING, gives=STRING, by=self._find),),
            "findAll": (
                method(STRING, STRING, gives=list_of(STRING), by=self._find_all),
                method(STRING, STRING, INT, gives=list_of(STRING), by=self._find_all),
            ),
        }


def _find(meter: Meter, pattern: Pattern, text: str) -> str | None:
    meter.spend(1 + (len(text) * pattern.size >> 3))
    return pattern.find(text)


def _find_all(meter: Meter, pattern: Pattern, text: str, limit: int = -1) -> list[str]:
    meter.spend(1 + (len(text) * pattern.size >> 3))
    # For each match the rest of the text may be read.
    steps = MATCH_STEPS + (len(text) >> 8)
    affordable = meter.left // steps + 1
    found = pattern.find_all(text, affordable if limit < 0 else min(limit, affordable))
    meter.spend(steps * len(found))
    return list(found)


def functions_of(pattern: Pattern) -> Functions:
    """The functions with a pattern that is known when the expression is compiled."""

    def matches(meter: Meter, text: str) -> bool:
        return _find(meter, pattern, text) is not None

    def find(meter: Meter, text: str) -> str:
        return _find(meter, pattern, text) or ""

    def find_all(meter: Meter, text: str, limit: int = -1) -> list[str]:
        return _find_all(meter, pattern, text, limit)

    return {
        "matches": (function(STRING, gives=BOOL, by=matches),),
        "find": (function(STRING, gives=STRING, by=find),),
        "findAll": (
            function(STRING, gives=list_of(STRING), by=find_all),
            function(STRING, INT, gives=list_of(STRING), by=find_all),
        ),
    }


PATTERN_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
