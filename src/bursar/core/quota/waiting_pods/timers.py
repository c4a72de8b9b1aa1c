"""Timers of pods: when the books have to look at a pod again although nothing happens to it."""

from heapq import heappop, heappush
from typing import Final

from bursar.core.quota.ledger import PodKey


class PodTimers:
    """At most one timer for each pod. When it has fired, the next can be set."""

    def __init__(self) -> None:
        self._heap: Final[list[tuple[int, str, str]]] = []
        """It may hold stale entries of timers that were set to an earlier time."""
        self._due_s: Final[dict[PodKey, int]] = {}

    @property
    def next_due_s(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def set(self, due_s: int, pod: PodKey) -> None:
        """Fire then, unless the pod's timer fires earlier."""
        if self._due_s.get(pod, due_s + 1) > due_s:
            self._due_s[pod] = due_s
            heappush(self._heap, (due_s, *pod))

    def pop_due(self, now_s: int) -> PodKey | None:
        """A pod whose timer is due; None if there is none."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, namespace, name = heappop(self._heap)
            pod = PodKey(namespace, name)
            if self._due_s.get(pod) == due_s:
                del self._due_s[pod]
                return pod
        return None
