"""The scheduling queue: pending pods in order, and pods that need not be tried again yet.

A pod that fits no node is parked together with the rejection of each node. It is tried again when
a node would answer differently.
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
    """The last seen object, for status fields that an update must keep."""

    @property
    def key(self) -> Key:
        return Key(self.pod.namespace, self.pod.name)

    @property
    def order(self) -> _Order:
        """Sort key: higher priority first, then older, then by name."""
        return -(self.pod.priority or 0), self.pod.created_at or _EVER_SINCE, self.key


class Queue:
    def __init__(self) -> None:
        self._active: dict[Key, Waiting] = {}
        self._parked: dict[Key, Waiting] = {}
        self._rejections: dict[Key, dict[str, Rejection]] = {}
        """The rejections of parked pods, by node."""
        self._heap: list[_Order] = []

    @property
    def has_parked(self) -> bool:
        return bool(self._parked)

    def put(self, waiting: Waiting) -> None:
        """Add or update a pod. An update unparks it only if its requirements changed."""
        parked = self._parked.get(waiting.key)
        if parked is not None and _wishes(parked.pod) == _wishes(waiting.pod):
            self._parked[waiting.key] = waiting
        else:
            self._activate(waiting)

    def drop(self, key: Key) -> None:
        self._active.pop(key, None)
        self._unpark(key)

    def pop(self) -> Waiting | None:
        """The next pod to schedule; None if the queue is empty."""
        while self._heap:
            waiting = self._active.get(heapq.heappop(self._heap)[2])
            if waiting is not None:
                del self._active[waiting.key]
                return waiting
        return None

    def park(self, waiting: Waiting, rejections: Iterable[Rejection] = ()) -> None:
        self._parked[waiting.key] = waiting
        self._rejections[waiting.key] = {rejection.node: rejection for rejection in rejections}

    def wake(self, improved: Iterable[NodeBooks]) -> None:
        """Unpark the pods that one of these nodes no longer rejects for the same reasons."""
        nodes = list(improved)
        for waiting in list(self._parked.values()):
            answers = self._rejections[waiting.key]
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
        self._rejections.pop(key, None)


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
