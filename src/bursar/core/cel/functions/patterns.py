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


class Pattern(Protocol):
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

    def _for(self, meter: Meter, text: str, pattern: str) -> Pattern:
        meter.spend(1 + len(pattern) + (len(text) * len(pattern) >> 7))
        return self.compiled(pattern)

    def _matches(self, meter: Meter, text: str, pattern: str) -> bool:
        return self._for(meter, text, pattern).find(text) is not None

    def _find(self, meter: Meter, text: str, pattern: str) -> str:
        return self._for(meter, text, pattern).find(text) or ""

    def _find_all(self, meter: Meter, text: str, pattern: str, limit: int = -1) -> list[str]:
        affordable = meter.left // MATCH_STEPS + 1
        most = affordable if limit < 0 else min(limit, affordable)
        found = self._for(meter, text, pattern).find_all(text, most)
        meter.spend(MATCH_STEPS * len(found))
        return list(found)

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


PATTERN_FUNCTIONS: Final = frozenset({"matches", "find", "findAll"})
