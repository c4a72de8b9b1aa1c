"""An inbox: what changed in a cluster, as one stream for a part that follows several kinds.

Watches end and moments expire; each time all objects are sent again, and what is no
longer among them has gone. So whoever empties the inbox sees every object in its last
state, though not every state it was in. Nothing is handed out before all kinds have
been seen once, since nobody can decide on half a cluster.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from bursar.app.cluster.ports import Clock, EventKind, ExpiredError, Key, Resource, Watcher

PAUSE_SECONDS: Final = 0.1
"""Between two watches, so that a server that ends them at once is not asked all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    resource: Resource
    key: Key
    body: bytes | None
    """The object as it is now, or None if it has gone."""


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta


_HEAD: Final = msgspec.json.Decoder(_Head)


def key_of(body: bytes) -> Key:
    meta = _HEAD.decode(body).metadata
    return Key(meta.namespace, meta.name)


class Inbox:
    """Use it as a context manager; the watches live as long as it does."""

    def __init__(self, watcher: Watcher, clock: Clock, resources: Sequence[Resource]) -> None:
        self._watcher = watcher
        self._clock = clock
        self._resources = resources
        self._unseen = set(resources)
        self._changes: list[Change] = []
        self._failure: BaseException | None = None
        self._stirred = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for resource in self._resources:
            task = asyncio.create_task(self._follow(resource), name=f"watch {resource}")
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def take(self, *, within: float | None = None) -> list[Change]:
        """All changes since the last time, as soon as there is one or the seconds are over.

        Raises what a watch failed with.
        """
        while self._unseen and self._failure is None:
            self._stirred.clear()
            await self._stirred.wait()
        if not self._changes and self._failure is None:
            self._stirred.clear()
            await self._wait(within)
        return self.drain()

    def drain(self) -> list[Change]:
        """What has come by now, without waiting."""
        if self._failure is not None:
            raise self._failure
        changes, self._changes = self._changes, []
        return changes

    async def _wait(self, within: float | None) -> None:
        waiters: list[asyncio.Task[object]] = [asyncio.create_task(self._stirred.wait())]
        if within is not None:
            waiters.append(asyncio.create_task(self._clock.sleep(within)))
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()
            await asyncio.gather(*waiters, return_exceptions=True)

    async def _follow(self, resource: Resource) -> None:
        known: set[Key] = set()
        while True:
            with contextlib.suppress(ExpiredError):
                await self._watch_once(resource, known)
            await self._clock.sleep(PAUSE_SECONDS)

    async def _watch_once(self, resource: Resource, known: set[Key]) -> None:
        """Follow one watch to its end, and keep the keys of all objects there are up to date."""
        repeated: set[Key] = set()
        async for event in self._watcher.watch(resource, send_initial=True):
            if event.kind is EventKind.BOOKMARK:
                if event.ends_initial:
                    for key in sorted(known - repeated):
                        known.discard(key)
                        self._put(Change(resource=resource, key=key, body=None))
                    self._unseen.discard(resource)
                    self._stirred.set()
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
        self._stirred.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._stirred.set()
