"""A bounded table of texts and tuples, so that equal ones share memory."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from bursar.core.sharing import Generations

K = TypeVar("K", bound=Hashable)

OBJECT_BYTES: Final = 64
"""Approximate bytes of a text or tuple beside its content."""
SEEN_ONCE_MAX: Final = 1024
"""Values of which only the hash is remembered, in each of two generations."""


def text_bytes(text: str) -> int:
    """Approximate bytes of a text in memory."""
    return OBJECT_BYTES + len(text)


def texts_bytes(texts: tuple[str, ...]) -> int:
    """Approximate bytes of a tuple of texts in memory."""
    return OBJECT_BYTES + sum(map(len, texts)) + OBJECT_BYTES * len(texts)


class Interner(Generic[K]):
    """Keeps values in two generations; see `Generations`."""

    def __init__(
        self, limit: int, weigh: Callable[[K], int] | None = None, weight_max: int = 0
    ) -> None:
        self._known: Generations[K, K] = Generations(limit, weigh, weight_max)
        self._seen_once: Generations[int, int] = Generations(SEEN_ONCE_MAX)

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

    def shared_if_repeated(self, value: K) -> K:
        """As `shared`, for values of which most are seen once.

        A value is kept when it is seen for the second time. Before, only its hash is remembered,
        so that a client that writes new values all the time fills no memory.
        """
        found = self._known.find(value)
        if found is not None:
            return found
        mark = hash(value)
        if self._seen_once.find(mark) is None:
            self._seen_once.keep(mark, mark)
        else:
            self._known.keep(value, value)
        return value
