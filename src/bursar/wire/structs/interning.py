"""A bounded table of texts, so that equal ones share memory."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from bursar.core.sharing import Generations

K = TypeVar("K", bound=Hashable)

OBJECT_BYTES: Final = 64
"""Approximate bytes of a text beside its content."""


def text_bytes(text: str) -> int:
    """Approximate bytes of a text in memory."""
    return OBJECT_BYTES + len(text)


class Interner(Generic[K]):
    """Keeps values in two generations; see `Generations`."""

    def __init__(
        self, limit: int, weigh: Callable[[K], int] | None = None, weight_max: int = 0
    ) -> None:
        self._known: Generations[K, K] = Generations(limit, weigh, weight_max)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def weight(self) -> int:
        """What the kept values weigh together; 0 if they are not weighed."""
        return self._known.weight

    def shared(self, value: K) -> K:
        """The first seen object that is equal to this one."""
        found = self._known.find(value)
        if found is None:
            self._known.keep(value, value)
            return value
        return found
