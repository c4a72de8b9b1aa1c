"""A connection to a cluster that a test can make slow, refuse, or break."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from bursar.app.cluster.ports import (
    EVERYTHING,
    ClusterError,
    Key,
    Page,
    Patch,
    Query,
    Resource,
    WatchEvent,
)


@dataclass(frozen=True)
class Request:
    verb: str
    resource: Resource
    key: Key
    send: Callable[[], Awaitable[Any]]
    """Asks the cluster, and gives its answer."""


class Line:
    """Reader, Writer and Watcher of a cluster. Subclasses say what happens to requests and events.

    Every request passes `pass_on`. `before_event` is awaited before a watcher sees an event.
    """

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    async def pass_on(self, request: Request) -> Any:
        return await request.send()

    async def before_event(self) -> None:
        pass

    async def get(self, resource: Resource, key: Key) -> bytes:
        return await self._call("get", resource, key, self.cluster.get, key)

    async def list(self, resource: Resource, query: Query = EVERYTHING, **options: Any) -> Page:
        key = Key(query.namespace, "")
        return await self._call("list", resource, key, self.cluster.list, query, **options)

    async def verbs(self, resource: Resource) -> frozenset[str]:
        return await self._call("discover", resource, Key("", ""), self.cluster.verbs)

    async def watch(
        self, resource: Resource, query: Query = EVERYTHING, **options: Any
    ) -> AsyncIterator[WatchEvent]:
        async def begin(*_: object) -> AsyncIterator[WatchEvent]:
            return self.cluster.watch(resource, query, **options)

        stream = await self._call("watch", resource, Key(query.namespace, ""), begin)
        async with aclosing(stream) as events:
            async for event in events:
                await self.before_event()
                yield event

    async def create(self, resource: Resource, body: Any, *, namespace: str = "") -> bytes:
        key = Key(namespace, body["metadata"].get("name", ""))
        create = self.cluster.create
        return await self._call("create", resource, key, create, body, namespace=namespace)

    async def patch(self, resource: Resource, key: Key, patch: Patch, **options: Any) -> bytes:
        return await self._call("patch", resource, key, self.cluster.patch, key, patch, **options)

    async def delete(self, resource: Resource, key: Key, **options: Any) -> None:
        await self._call("delete", resource, key, self.cluster.delete, key, **options)

    async def _call(
        self, verb: str, resource: Resource, key: Key, method: Any, *given: Any, **options: Any
    ) -> Any:
        def send() -> Awaitable[Any]:
            return method(resource, *given, **options)

        return await self.pass_on(Request(verb, resource, key, send))


class ScriptedLists(Line):
    """Lists of some kinds, by their plural, are what the test says: errors first, then objects."""

    def __init__(
        self,
        cluster: Any,
        lists: Mapping[str, Sequence[object]] = MappingProxyType({}),
        **errors: list[ClusterError],
    ) -> None:
        super().__init__(cluster)
        self._lists, self._errors = lists, errors

    async def pass_on(self, request: Request) -> Any:
        plural = request.resource.plural
        if request.verb == "list" and self._errors.get(plural):
            raise self._errors[plural].pop()
        if request.verb == "list" and plural in self._lists:
            items = [json.dumps(each).encode() for each in self._lists[plural]]
            return Page(items=items, resource_version="1")
        return await request.send()
