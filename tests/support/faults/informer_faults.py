"""An informer while its connection or its server fails, and pods come, change and go.

A world is a cluster and the faults it can have: the embedded one or a real one. The same story
is told in both. Afterwards the cache must equal a fresh LIST, and the changes that the consumer
received must add up to the same: nothing twice, and no deletion missing.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from bursar.app.cluster.informer.backoff import BackoffRules
from bursar.app.cluster.informer.changes import Deleted, Upserted
from bursar.app.cluster.informer.informer import Informer, InformerRules
from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
)
from bursar.app.cluster.sighting import locate
from bursar.core.model.pod_row import PodRow
from bursar.wire.model.pod_row import PodRowDecoder
from support.until import until

AGREE_SECONDS = 120
GLANCES_PER_LIST = 20
GATE = {"schedulingGates": [{"name": "example.com/hold"}]}


class World(Protocol):
    """A cluster, and what can be done to it from outside."""

    clock: Clock
    namespace: str
    """Where this scene plays; nobody else writes there."""
    writer: Any
    """A `Reader` and `Writer` that reaches the server directly."""
    client: Any
    """A `Reader` and `Watcher` for the informer, over a line that can be hurt."""

    def cut(self) -> None:
        """Drop what is open on the informer's line; it can be opened again at once."""

    def hold(self) -> None:
        """Pass nothing on, as a network does that swallows packets."""

    def let_go(self) -> None: ...

    async def kill_server(self) -> None: ...

    async def restart_server(self, *, is_forgetful: bool = False) -> None:
        """Start it anew, if wanted without its past."""

    def storm(self) -> AbstractAsyncContextManager[None]:
        """Within it, the informer is mostly told to come back later."""

    @property
    def refusals(self) -> int:
        """How often the informer's client was told so."""

    async def delete_all(self) -> None:
        """Delete every pod of the scene, without grace."""


@dataclass
class Told:
    """What a consumer of changes believes, and how often it heard of each state."""

    held: dict[Key, Identity] = field(default_factory=dict)
    states: Counter[Identity] = field(default_factory=Counter)
    deaths: Counter[str] = field(default_factory=Counter)

    async def listen(self, informer: Informer[PodRow]) -> None:
        async for change in informer.changes():
            if isinstance(change, Upserted):
                identity = identify_pod(change.new)
                self.held[identity.key] = identity
                self.states[identity] += 1
            elif isinstance(change, Deleted):
                identity = identify_pod(change.last)
                self.held.pop(identity.key, None)
                self.deaths[identity.uid] += 1

    @property
    def doubled(self) -> list[object]:
        said_twice = [identity for identity, count in self.states.items() if count > 1]
        return said_twice + [uid for uid, count in self.deaths.items() if count > 1]

    @property
    def living(self) -> set[str]:
        """Who was born and has not died, by uid: a name may have been given to another."""
        return {identity.uid for identity in self.states} - self.deaths.keys()


@dataclass
class Scene:
    world: World
    informer: Informer[PodRow]
    told: Told
    query: Query
    deletes: int = 0
    """Pods that were deleted so far."""

    async def truth(self) -> set[Identity]:
        found: set[Identity] = set()
        page = await self.world.writer.list(PODS, self.query, limit=1000)
        while True:
            found |= {identity for body in page.items if (identity := locate(body))}
            if not page.next_page:
                return found
            page = await self.world.writer.list(PODS, self.query, limit=1000, page=page.next_page)

    async def assert_agreement(self) -> None:
        """Wait until cache, consumer and cluster say the same, then check that nothing doubled."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGREE_SECONDS):
                while not await self._agrees_soon(await self.truth()):
                    pass
        truth = await self.truth()
        assert self.cached() == truth
        assert set(self.told.held.values()) == truth
        assert self.told.living == {identity.uid for identity in truth}
        assert self.told.doubled == []

    async def _agrees_soon(self, truth: set[Identity]) -> bool:
        """Whether cache and consumer come to say so in the time that one list is good for."""
        for _ in range(GLANCES_PER_LIST):
            is_counted = len(self.informer) == len(self.told.held) == len(truth)
            if is_counted and set(self.told.held.values()) == truth == self.cached():
                return True
            await asyncio.sleep(0.1)
        return False

    def cached(self) -> set[Identity]:
        return {identify_pod(row) for row in self.informer.snapshot().objects()}

    async def create(self, name: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
        body = {"metadata": {"name": name}, "spec": {**GATE, "containers": [container]}}
        await self.world.writer.create(PODS, body, namespace=self.query.namespace)

    @contextlib.asynccontextmanager
    async def churning(self) -> AsyncIterator[None]:
        """Within it, pods come, change and go, as fast as one client can."""
        ended = asyncio.Event()
        task = asyncio.create_task(self._churn(ended))
        try:
            await until(lambda: len(self.told.deaths) > 5, "the informer tells of deletes")
            yield
            await self.more_deletes(5)
        finally:
            ended.set()
            await task

    async def more_deletes(self, count: int) -> None:
        """Wait until so many more pods are deleted, whether the informer sees it or not."""
        wanted = self.deletes + count
        await until(lambda: self.deletes >= wanted, f"{count} more pods are deleted")

    async def _churn(self, ended: asyncio.Event) -> None:
        random = Random(2)  # noqa: S311 - the same changes in every run
        number = 0
        while not ended.is_set():
            number += 1
            key = Key(self.query.namespace, f"pod-{random.randrange(40)}")
            # During an outage nobody can write either; a later turn tries another pod.
            with contextlib.suppress(ClusterError):
                try:
                    if random.random() < 0.5:
                        await self.world.writer.delete(PODS, key, grace_seconds=0)
                        self.deletes += 1
                    else:
                        labels = {"metadata": {"labels": {"turn": str(number)}}}
                        patch = Patch(kind=PatchKind.MERGE, body=labels)
                        await self.world.writer.patch(PODS, key, patch)
                except NotFoundError:
                    await self.create(key.name)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def scene(world: World) -> AsyncIterator[Scene]:
    query = Query(namespace=world.namespace)
    informer = Informer(
        world.client,
        world.client,
        clock=world.clock,
        random=Random(1),  # noqa: S311 - the same pauses in every run
        resource=PODS,
        query=query,
        decode=PodRowDecoder().decode,
        identify=identify_pod,
        locate=locate,
        rules=InformerRules(backoff=BackoffRules(max_s=2.0)),
    )
    told = Told()
    tasks = [asyncio.create_task(informer.run()), asyncio.create_task(told.listen(informer))]
    try:
        async with asyncio.timeout(AGREE_SECONDS):
            await informer.wait_synced()
        yield Scene(world, informer, told, query)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Stage:
    """Where scenes are played: one kind of world, and the time that passes there."""

    world: Callable[[], AbstractAsyncContextManager[World]]
    run: Callable[[Coroutine[None, None, None]], None]

    def play(self, story: Callable[[Scene], Awaitable[None]]) -> None:
        async def main() -> None:
            async with self.world() as world, scene(world) as it:
                await story(it)

        self.run(main())
