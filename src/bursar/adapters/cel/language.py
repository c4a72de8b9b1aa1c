"""The language of expressions with Google's RE2 and the system's time zones.

RE2 takes time linear in the text, whatever the pattern. Python's `re` does not: a pod's owner could
hold up the controller with one annotation.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import re2

from bursar.core.cel.expression import Language

MEMORY_MAX: Final = 2**20
"""Memory that RE2 may use for one pattern. A larger pattern is refused."""
PATTERNS_MAX: Final = 256
"""Compiled patterns that are kept. A policy may take a pattern from the pod."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Re2Pattern:
    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = MEMORY_MAX
        options.log_errors = False
        try:
            self._pattern = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0]
            shown = reason.decode() if isinstance(reason, bytes) else str(reason)
            raise ValueError(shown) from None

        self.size: Final[int] = self._pattern.programsize

    def find(self, text: str) -> str | None:
        match = self._pattern.search(text)
        return None if match is None else str(match.group(0))

    def find_all(self, text: str, limit: int) -> Sequence[str]:
        found: list[str] = []
        end = -1
        for match in self._pattern.finditer(text):
            if len(found) == limit:
                break
            # Go drops an empty match that follows another match directly.
            if match.end() > match.start() or match.start() != end:
                found.append(match.group(0))
            end = match.end()
        return found


def zone_offset_s(name: str, at_s: int) -> int | None:
    """Seconds that a time zone is ahead of UTC; None if the system does not know the zone."""
    try:
        offset = (_EPOCH + timedelta(seconds=at_s)).astimezone(_zone(name)).utcoffset()
    except (KeyError, ValueError, OSError, OverflowError):
        return None
    return None if offset is None else int(offset.total_seconds())


_zone = lru_cache(maxsize=64)(ZoneInfo)


def open_language() -> Language:
    return Language(lru_cache(maxsize=PATTERNS_MAX)(Re2Pattern), zone_offset_s)
