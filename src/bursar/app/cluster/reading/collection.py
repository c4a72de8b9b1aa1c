"""Objects of several kinds, read from a cluster once, and then followed if asked.

For commands: they keep whole objects as the API server sent them, so that a cluster can be read
like a file. Processes use informers, which keep only what they need.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from bursar.app.cluster.ports import (
    ClusterError,
    EventKind,
    ExpiredError,
    Key,
    NotFoundError,
    Query,
    Reader,
    Resource,
    UnauthorizedError,
    UnreachableError,
    Watcher,
)
from bursar.app.cluster.reading.listing import list_with_version
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.cluster.sighting import locate

COALESCE_SECONDS: Final = 0.5
"""After a change, others are awaited for this long before they are shown together."""
PAUSE_SECONDS: Final = 1.0
"""The pause after a watch that ended or failed."""

Progress = Callable[[str, int], None]
"""Called with a kind and the number of its objects that have been read so far."""


class Followed(Reader, Watcher, Protocol):
    """A cluster that can be listed and watched."""


class Collection:
    """The objects that a command reads, as the API server last sent them."""

    def __init__(
        self,
        cluster: Followed,
        wanted: Sequence[Wanted],
        *,
        progress: Progress = lambda _kind, _count: None,
    ) -> None:
        self._cluster = cluster
        self._wanted = list(wanted)
        self._progress = progress
        self._objects: dict[Resource, dict[Key, bytes]] = {}
        self._versions: dict[Resource, str] = {}
        self._has_changed = asyncio.Event()
        self.missing: list[str] = []
        """Kinds that could not be read, each with the reason."""

    @property
    def bodies(self) -> Mapping[Resource, Sequence[bytes]]:
        """The objects of each kind as JSON, in the order of their keys."""
        return {
            resource: [objects[key] for key in sorted(objects)]
            for resource, objects in self._objects.items()
        }

    @property
    def decoded(self) -> Mapping[Resource, Sequence[bytes]]:
        """The objects that the command wants as manifests."""
        wanted = {each.resource for each in self._wanted if each.is_decoded}
        return {resource: each for resource, each in self.bodies.items() if resource in wanted}

    async def load(self) -> None:
        """List everything. Raises `ClusterError`."""
        self._wanted = [await self._loaded(each) for each in self._wanted]

    async def _loaded(self, wanted: Wanted) -> Wanted:
        """List the objects, and say which ones to follow."""
        each = replace(wanted, namespace="") if self._concerns_all(wanted) else wanted
        if each.all_if is not None and each.namespace and not each.resource.is_namespaced:
            return each
        try:
            await self._list(each)
        except ClusterError as error:
            # Without a connection or valid credentials, no other kind can be read either.
            is_general = isinstance(error, UnreachableError | UnauthorizedError)
            if each.is_required or (is_general and not self._objects):
                raise
            if not (each.may_be_absent and isinstance(error, NotFoundError)):
                self.missing.append(f"{each.resource}: {error.message}")
        return each

    def _concerns_all(self, wanted: Wanted) -> bool:
        return wanted.all_if is not None and bool(self._objects.get(wanted.all_if))

    async def _list(self, wanted: Wanted) -> None:
        resource = wanted.resource
        found, version = await list_with_version(
            self._cluster,
            resource,
            Query(namespace=wanted.namespace),
            bytes,
            progress=lambda count: self._progress(resource.plural, count),
        )
        self._objects[resource] = {key: body for body in found if (key := _key_of(body))}
        self._versions[resource] = version

    async def follow(self, on_change: Callable[[], None]) -> None:
        """Follow the cluster, and call `on_change` after each burst of changes, for ever."""
        async with asyncio.TaskGroup() as group:
            for each in self._wanted:
                if each.resource not in self._objects:
                    continue
                if each.poll_seconds is None:
                    group.create_task(self._follow(each))
                else:
                    group.create_task(self._poll(each, each.poll_seconds))
            while True:
                await self._has_changed.wait()
                await asyncio.sleep(COALESCE_SECONDS)
                self._has_changed.clear()
                on_change()

    async def _poll(self, wanted: Wanted, pause_seconds: float) -> None:
        while True:
            await asyncio.sleep(pause_seconds)
            with suppress(ClusterError):
                await self._list(wanted)
                self._has_changed.set()

    async def _follow(self, wanted: Wanted) -> None:
        while True:
            try:
                await self._watch_once(wanted)
            except ExpiredError:
                with suppress(ClusterError):
                    await self._list(wanted)
                    self._has_changed.set()
            except ClusterError:
                # The server may be back in a moment; until then the last state is shown.
                pass
            # The next watch begins where this one ended, so nothing is missed meanwhile.
            await asyncio.sleep(PAUSE_SECONDS)

    async def _watch_once(self, wanted: Wanted) -> None:
        resource = wanted.resource
        stream = self._cluster.watch(
            resource,
            Query(namespace=wanted.namespace),
            resource_version=self._versions[resource],
        )
        async for event in stream:
            self._versions[resource] = event.resource_version
            key = _key_of(event.body) if event.kind is not EventKind.BOOKMARK else None
            if key is None:
                continue
            if event.kind is EventKind.DELETED:
                self._objects[resource].pop(key, None)
            else:
                self._objects[resource][key] = event.body
            self._has_changed.set()


def _key_of(body: bytes) -> Key | None:
    identity = locate(body)
    return None if identity is None else identity.key
