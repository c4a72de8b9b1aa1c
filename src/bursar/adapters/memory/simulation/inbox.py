"""An inbox: changes of several kinds as one stream, for one part of the simulation.

Each time a watch ends or its resourceVersion expires, all objects are sent again, and objects that
are no longer among them count as deleted. The consumer sees the last state of every object, but
not every state in between. It gets no change before all kinds were listed once, because it cannot
decide with half of the cluster.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from bursar.app.cluster.ports import Clock, EventKind, ExpiredError, Key, Resource, Watcher
from bursar.app.cluster.time_limit import end, wait_at_most
from bursar.wire.cluster.object_identity import find_identity

PAUSE_SECONDS: Final = 0.1
"""Pause between two watches, for a server that ends watches immediately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    resource: Resource
    key: Key
    body: bytes | None
    """The current object; None if it was deleted."""


def key_of(body: bytes) -> Key:
    found = find_identity(body)
    assert found is not None, "a stored object has a name, a uid and a resourceVersion"
    return Key(found.namespace, found.name)


class Inbox:
    """A context manager. The watches run while it is open."""

    def __init__(self, watcher: Watcher, clock: Clock, resources: Sequence[Resource]) -> None:
        self._watcher = watcher
        self._clock = clock
        self._resources = resources
        self._unseen = set(resources)
        self._changes: list[Change] = []
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for resource in self._resources:
            task = asyncio.create_task(self._follow(resource), name=f"watch {resource}")
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(*self._tasks)

    async def take(self, seconds: float | None = None) -> list[Change]:
        """All changes since the last call. Waits for the first one, at most `seconds`.

        Raises the error of a failed watch.
        """
        while self._unseen and self._failure is None:
            self._changed.clear()
            await self._changed.wait()
        if not self._changes and self._failure is None:
            self._changed.clear()
            await wait_at_most(self._clock, seconds, self._changed)
        return self.drain()

    def drain(self) -> list[Change]:
        """All changes since the last call, without waiting."""
        if self._failure is not None:
            raise self._failure
        changes, self._changes = self._changes, []
        return changes

    async def _follow(self, resource: Resource) -> None:
        known: set[Key] = set()
        while True:
            with contextlib.suppress(ExpiredError):
                await self._watch_once(resource, known)
            await self._clock.sleep(PAUSE_SECONDS)

    async def _watch_once(self, resource: Resource, known: set[Key]) -> None:
        """Read one watch to its end, and keep `known` equal to the keys of all objects."""
        repeated: set[Key] = set()
        async for event in self._watcher.watch(resource, send_initial=True):
            if event.kind is EventKind.BOOKMARK:
                if event.ends_initial:
                    for key in sorted(known - repeated):
                        known.discard(key)
                        self._put(Change(resource=resource, key=key, body=None))
                    self._unseen.discard(resource)
                    self._changed.set()
                continue
            key = key_of(event.body)
            if event.kind is EventKind.DELETED:
                known.discard(key)
                self._put(Change(resource=resource, key=key, body=None))
            else:
                known.add(key)
                repeated.add(key)
                self._put(Change(resource=resource, key=key, body=event.body))

    def _put(self, change: Change) -> None:
        self._changes.append(change)
        self._changed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._changed.set()
