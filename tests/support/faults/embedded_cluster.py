"""The embedded cluster behind a line that breaks, stalls or answers 429, in virtual time."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import (
    BusyError,
    Key,
    Query,
    UnavailableError,
)
from support.faults import line
from support.virtual_time import MachineClock

RETRY_AFTER_SECONDS = 1.0
NAMESPACE = "faults"


class Line(line.Line):
    """A way to an embedded cluster that breaks, holds everything back, or says that it is busy."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self._waiting: set[asyncio.Future[None]] = set()
        self.is_held = self.is_down = self.is_busy = False
        self.refusals = 0

    def cut(self) -> None:
        """Everybody who waits for an answer, or for an event, hears that the line broke."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(UnavailableError("the connection broke"))
        self.cluster.cut_watches(is_fault=True)

    def let_go(self) -> None:
        self.is_held = False
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def pass_on(self, request: line.Request) -> Any:
        await self._request()
        answer = await request.send()
        if request.verb == "list":
            await self._pass()
        return answer

    async def before_event(self) -> None:
        await self._pass()

    async def _request(self) -> None:
        await self._pass()
        if self.is_down:
            raise UnavailableError("connection refused")
        if self.is_busy:
            self.refusals += 1
            raise BusyError(
                "too many requests",
                code=429,
                reason="TooManyRequests",
                retry_after=RETRY_AFTER_SECONDS,
            )

    async def _pass(self) -> None:
        """Wait while everything is held back. Raises `UnavailableError` if the line is cut."""
        if not self.is_held:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)


class MemoryWorld:
    def __init__(self) -> None:
        self.clock = MachineClock()
        self.namespace = NAMESPACE
        self._cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311
        self.writer, self.client = Line(self._cluster), Line(self._cluster)

    def cut(self) -> None:
        self.client.cut()

    def hold(self) -> None:
        self.client.is_held = True

    def let_go(self) -> None:
        self.client.let_go()

    async def kill_server(self) -> None:
        self.writer.is_down = self.client.is_down = True
        self.cut()

    async def restart_server(self, *, is_forgetful: bool = False) -> None:
        """A server in memory has no past after a restart, whether that is wanted or not."""
        del is_forgetful
        self._cluster.compact()
        self.writer.is_down = self.client.is_down = False

    @contextlib.asynccontextmanager
    async def storm(self) -> AsyncIterator[None]:
        self.client.is_busy = True
        try:
            yield
        finally:
            self.client.is_busy = False

    @property
    def refusals(self) -> int:
        return self.client.refusals

    async def delete_all(self) -> None:
        page = await self._cluster.list(PODS, Query(namespace=self.namespace))
        for body in page.items:
            key = Key(self.namespace, json.loads(body)["metadata"]["name"])
            await self._cluster.delete(PODS, key, grace_seconds=0)


@contextlib.asynccontextmanager
async def memory_world() -> AsyncIterator[MemoryWorld]:
    world = MemoryWorld()
    await world.writer.create(NAMESPACES, {"metadata": {"name": world.namespace}})
    yield world
