"""Timers of pods: when the books have to look at a pod again although nothing happens to it."""

from heapq import heapify, heappop, heappush
from typing import Final

from bursar.core.quota.ledger import PodKey

STALE_MAX: Final = 64
"""Stale entries of a heap that are tolerated beside as many as there are valid ones."""


class PodTimers:
    """At most one timer for each pod. When it has fired, the next can be set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, PodKey]] = []
        """It may hold stale entries of timers that were cancelled or set to an earlier time."""
        self._due_s: Final[dict[PodKey, int]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_due_s(self) -> int | None:
        while self._heap:
            due_s, pod = self._heap[0]
            if self._due_s.get(pod) == due_s:
                return due_s
            heappop(self._heap)
        return None

    def set(self, due_s: int, pod: PodKey) -> None:
        """Set the pod's timer, unless it fires earlier already."""
        if self._due_s.get(pod, due_s + 1) > due_s:
            self._due_s[pod] = due_s
            heappush(self._heap, (due_s, pod))
            self._drop_stale()

    def cancel(self, pod: PodKey) -> None:
        """Remove the pod's timer. A tenant can cause timers that are due only after years."""
        if self._due_s.pop(pod, None) is not None:
            self._drop_stale()

    def pop_due(self, now_s: int) -> PodKey | None:
        """A pod whose timer is due; None if there is none."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, pod = heappop(self._heap)
            if self._due_s.get(pod) == due_s:
                del self._due_s[pod]
                return pod
        return None

    def _drop_stale(self) -> None:
        if len(self._heap) > 2 * len(self._due_s) + STALE_MAX:
            self._heap = [(due_s, pod) for pod, due_s in self._due_s.items()]
            heapify(self._heap)
