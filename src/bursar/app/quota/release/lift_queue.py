"""The releases that wait for a worker, fair between namespaces.

A gate may be behind another team's webhook that fails or hangs, and the controller cannot tell
before it tries. So no namespace gets all workers, and namespaces take turns. A namespace whose last
attempt had no clear answer is *troubled*: its attempts are few at a time, and all troubled
namespaces together leave half of the workers to the others.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bursar.core.model.pod_row import PodRow, Stamp
from bursar.core.quota.releases import Release

IDLE_MAX: Final = 4_096
"""Troubled namespaces without releases are remembered unless there are more namespaces."""


class Attempt(NamedTuple):
    """A release that a worker has taken."""

    release: Release
    is_troubled: bool
    """The last attempt in this namespace had no clear answer: one patch, with more time."""


@dataclass(slots=True)
class _Namespace:
    limit: int
    """Number of its releases that may be in progress."""
    is_troubled: bool = False
    waiting: deque[Release] = field(default_factory=deque)
    in_progress: int = 0

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting) and self.in_progress < self.limit


class LiftQueue:
    """Releases by namespace. Workers call `take`, then `finish`. For one event loop."""

    def __init__(self, workers: int) -> None:
        assert workers >= 4, "both sorts of namespaces need workers"
        self._limit: Final = workers * 3 // 4
        """For one namespace. The rest is always there for others."""
        self._troubled_max: Final = workers // 2
        self._troubled_min: Final = workers // 8 or 1
        """Troubled namespaces come first until they have this many workers."""
        self._namespaces: dict[str, _Namespace] = {}
        self._ready: tuple[dict[str, None], dict[str, None]] = ({}, {})
        """Names of namespaces with a release to take, in turn; the second are troubled."""
        self._known: set[tuple[str, str, Stamp]] = set()
        self._troubled_in_progress = 0
        self._workers_waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Number of releases that no worker has taken."""
        return sum(len(each.waiting) for each in self._namespaces.values())

    def troubled(self) -> Iterator[str]:
        """Namespaces whose last attempt had no clear answer."""
        return (name for name, each in self._namespaces.items() if each.is_troubled)

    def put(self, release: Release) -> None:
        """Add a release. One that waits or is in progress already is not added again."""
        row = release.row
        if _key(row) in self._known:
            return
        self._known.add(_key(row))
        namespace = self._namespaces.get(row.namespace)
        if namespace is None:
            namespace = self._namespaces[row.namespace] = _Namespace(self._limit)
        namespace.waiting.append(release)
        self._update(row.namespace, namespace)

    async def take(self) -> Attempt:
        """Wait for the next release."""
        while (name := self._next()) is None:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._workers_waiting.append(turn)
            await turn
        namespace = self._namespaces[name]
        release = namespace.waiting.popleft()
        namespace.in_progress += 1
        self._troubled_in_progress += namespace.is_troubled
        del self._ready[namespace.is_troubled][name]  # Its next turn comes after all others.
        self._update(name, namespace)
        return Attempt(release, namespace.is_troubled)

    def _next(self) -> str | None:
        healthy, troubled = (next(iter(ready), None) for ready in self._ready)
        in_progress = self._troubled_in_progress
        if troubled is not None and in_progress < self._troubled_min:
            return troubled
        if healthy is not None:
            return healthy
        return troubled if in_progress < self._troubled_max else None

    def finish(self, attempt: Attempt, *, is_answered: bool, is_quick: bool) -> None:
        """The attempt has ended. `is_quick`: a patch with the usual time limit would have done."""
        row = attempt.release.row
        self._known.discard(_key(row))
        namespace = self._namespaces[row.namespace]
        namespace.in_progress -= 1
        self._troubled_in_progress -= attempt.is_troubled
        if not is_answered:
            self._mark(row.namespace, namespace, is_troubled=True)
            namespace.limit = 1
        elif is_quick:
            self._mark(row.namespace, namespace, is_troubled=False)
            namespace.limit = self._limit
        else:
            namespace.limit = min(2 * namespace.limit, self._limit)
        self._update(row.namespace, namespace)
        self._wake()

    def _mark(self, name: str, namespace: _Namespace, *, is_troubled: bool) -> None:
        self._ready[namespace.is_troubled].pop(name, None)
        namespace.is_troubled = is_troubled

    def _update(self, name: str, namespace: _Namespace) -> None:
        ready = self._ready[namespace.is_troubled]
        if namespace.is_ready:
            ready.setdefault(name)
            self._wake()
            return
        ready.pop(name, None)
        is_idle = not (namespace.waiting or namespace.in_progress)
        if is_idle and not (namespace.is_troubled and len(self._namespaces) <= IDLE_MAX):
            del self._namespaces[name]

    def _wake(self) -> None:
        """Let one worker look whether there is a release for it."""
        while self._workers_waiting:
            turn = self._workers_waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


def _key(row: PodRow) -> tuple[str, str, Stamp]:
    return row.namespace, row.name, row.stamp
