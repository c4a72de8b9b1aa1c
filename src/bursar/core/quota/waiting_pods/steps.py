"""Changes that concern many pods: entered in steps, so that each call takes little time."""

from collections.abc import Hashable, Iterator
from typing import Final


class StepQueue:
    """Changes in order, each as an iterator that does one step at a time."""

    def __init__(self) -> None:
        self._changes: Final[dict[Hashable, Iterator[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._changes)

    def put(self, key: Hashable, steps: Iterator[None]) -> None:
        """Add a change. It replaces an unfinished change with the same key."""
        self._changes.pop(key, None)
        self._changes[key] = steps

    def run(self, steps_max: int) -> int:
        """Do this many steps. Returns how many are left over; 0 if there may be more to do."""
        left = steps_max
        while self._changes and left:
            key, steps = next(iter(self._changes.items()))
            for _ in steps:
                left -= 1
                if not left:
                    break
            else:
                del self._changes[key]
        return left
