"""Scans of many volumes in one thread: paced, fair between pods, and bounded in time.

A round gives each pod one slice after another until all scans have ended or the round is over. A
volume with few changes ends in its first slice. So the churn of one tenant makes the scan of its
own volumes late, not that of others. Scans that have not ended go on in the next round.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bursar.adapters.disk.tree import FolderTree

SLICE_S: Final = 0.005
"""How long one scan works before it is another pod's turn."""
PAUSE_FACTOR: Final = 3
"""The thread pauses three times as long as it works: it takes a quarter of a core."""
PAUSE_LEAST_S: Final = 0.002
KEPT_MAX: Final = 16
"""Scans that keep their place in a folder until the next round. They have open descriptors."""

TreeKey: TypeAlias = tuple[str, str]
"""The pod that is charged for the time of a scan, and which of its volumes."""


@dataclass(slots=True)
class _Running:
    key: TreeKey
    steps: Iterator[None]


class Rounds:
    """Runs the scans of trees. Not for use by two threads at once."""

    def __init__(self, stop: threading.Event, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._stop = stop
        self._kept: dict[TreeKey, _Running] = {}
        self.seconds = 0.0
        """Time of the processor that all rounds took."""

    def run(
        self, trees: Mapping[TreeKey, FolderTree], now_ms: int, until_s: float
    ) -> Mapping[TreeKey, str]:
        """Scan until all have ended, or until `until_s` of the monotonic clock.

        Returns an error for each tree that could not be opened.
        """
        for key in [each for each in self._kept if each not in trees]:
            self.close(key)
        by_pod: dict[str, deque[_Running]] = defaultdict(deque)
        for key, tree in trees.items():
            kept = self._kept.pop(key, None)
            by_pod[key[0]].append(kept or _Running(key, iter(tree.scan(now_ms))))
        errors: dict[TreeKey, str] = {}
        waiting = deque(by_pod.values())
        worked_s = 0.0
        while waiting and not self._stop.is_set() and time.monotonic() < until_s:
            began_s = time.thread_time()
            pod = waiting.popleft()
            self._slice(pod, errors)
            if pod:
                waiting.append(pod)
            spent_s = time.thread_time() - began_s
            self.seconds += spent_s
            worked_s += spent_s
            if worked_s >= PAUSE_LEAST_S and waiting:
                self._stop.wait(min(worked_s * PAUSE_FACTOR, max(0, until_s - time.monotonic())))
                worked_s = 0.0
        self._keep([running for pod in waiting for running in pod])
        return errors

    @property
    def unfinished(self) -> int:
        return len(self._kept)

    def close(self, key: TreeKey) -> None:
        """End a scan that has not ended."""
        running = self._kept.pop(key, None)
        if running is not None:
            _close(running)

    def close_all(self) -> None:
        for key in list(self._kept):
            self.close(key)

    def _slice(self, pod: deque[_Running], errors: dict[TreeKey, str]) -> None:
        """Let the scans of a pod work for a slice. Those that have ended are removed."""
        until_s = time.thread_time() + SLICE_S
        while pod and time.thread_time() < until_s:
            running = pod[0]
            try:
                for _ in running.steps:
                    if time.thread_time() >= until_s:
                        # The volumes of a pod take turns, so that a large one does not delay a
                        # small one.
                        pod.rotate(-1)
                        return
            except OSError as error:
                errors[running.key] = error.strerror or "cannot be opened"
            pod.popleft()

    def _keep(self, unfinished: list[_Running]) -> None:
        for running in unfinished:
            if len(self._kept) < self._kept_max:
                self._kept[running.key] = running
            else:
                _close(running)


def _close(running: _Running) -> None:
    close = getattr(running.steps, "close", None)
    if close is not None:
        close()
