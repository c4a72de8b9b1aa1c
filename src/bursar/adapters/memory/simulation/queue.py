"""The scheduler's queue: who waits for a place, who comes first, and who need not try again.

A pod that found no place is parked with what each node said, and comes back only when
a node says something else.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from bursar.app.cluster.ports import Key
from bursar.core.model.pod import Pod
from bursar.core.placement.choice import objection
from bursar.core.placement.message import Rejection
from bursar.core.placement.node_books import NodeBooks

_EVER_SINCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Order: TypeAlias = tuple[int, datetime, Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    pod: Pod
    body: bytes
    """The object as last seen, for the fields of its status that are to be kept."""

    @property
    def key(self) -> Key:
        return Key(self.pod.namespace, self.pod.name)

    @property
    def order(self) -> _Order:
        """Higher priority first, then the older, then by name."""
        return -(self.pod.priority or 0), self.pod.created_at or _EVER_SINCE, self.key


class Queue:
    def __init__(self) -> None:
        self._active: dict[Key, Waiting] = {}
        self._parked: dict[Key, Waiting] = {}
        self._answers: dict[Key, dict[str, Rejection]] = {}
        """What the nodes said to those that are parked."""
        self._heap: list[_Order] = []

    @property
    def has_parked(self) -> bool:
        return bool(self._parked)

    def put(self, waiting: Waiting) -> None:
        """Add a pod, or a newer state of one; only a change of what it asks for unparks it."""
        parked = self._parked.get(waiting.key)
        if parked is not None and _wishes(parked.pod) == _wishes(waiting.pod):
            self._parked[waiting.key] = waiting
        else:
            self._activate(waiting)

    def drop(self, key: Key) -> None:
        self._active.pop(key, None)
        self._unpark(key)

    def pop(self) -> Waiting | None:
        """The next to be tried."""
        while self._heap:
            waiting = self._active.get(heapq.heappop(self._heap)[2])
            if waiting is not None:
                del self._active[waiting.key]
                return waiting
        return None

    def park(self, waiting: Waiting, rejections: Iterable[Rejection] = ()) -> None:
        self._parked[waiting.key] = waiting
        self._answers[waiting.key] = {rejection.node: rejection for rejection in rejections}

    def wake(self, improved: Iterable[NodeBooks]) -> None:
        """Nodes have become better: try those again that one of them answers differently now."""
        nodes = list(improved)
        for waiting in list(self._parked.values()):
            answers = self._answers[waiting.key]
            if any(
                objection(waiting.pod, books) != answers.get(books.node.name) for books in nodes
            ):
                self._activate(waiting)

    def wake_all(self) -> None:
        for waiting in list(self._parked.values()):
            self._activate(waiting)

    def _activate(self, waiting: Waiting) -> None:
        self._unpark(waiting.key)
        self._active[waiting.key] = waiting
        heapq.heappush(self._heap, waiting.order)

    def _unpark(self, key: Key) -> None:
        self._parked.pop(key, None)
        self._answers.pop(key, None)


def _wishes(pod: Pod) -> tuple[object, ...]:
    return (
        pod.uid,
        pod.containers,
        pod.init_containers,
        pod.resources,
        pod.tolerations,
        pod.node_selector,
        pod.node_terms,
        pod.scheduling_gates,
        pod.priority,
    )
