"""Keeping a counter informed of the objects of one kind, by an informer."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Final, Generic, TypeVar

from bursar.app.cluster.informer.changes import Deleted, Synced, Upserted
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.observe import Watched, observe
from bursar.app.cluster.ports import Clock, ClusterError, NotFoundError
from bursar.app.cluster.time_limit import end
from bursar.app.counting.feeds import WatchedKind
from bursar.app.log import Log
from bursar.core.counting.kind_state import KindState
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.counting import RecountPods
from bursar.core.quota.ledger import PodKey

LOG: Final = Log("counting")
PROBE_SECONDS: Final = 10.0
"""How often it is checked whether a kind was installed or removed."""

T = TypeVar("T")


class KindFeed(Generic[T]):
    """Keeps a counter informed of the objects of one kind."""

    def __init__(
        self, cluster: Watched, clock: Clock, random: Random, kind: WatchedKind[T]
    ) -> None:
        self._cluster, self._clock, self._random = cluster, clock, random
        self._kind: Final = kind
        self._known = asyncio.Event()

    async def wait_known(self) -> None:
        await self._known.wait()

    async def run(self, recount: RecountPods) -> None:
        """Watch the kind whenever it is installed."""
        self._set_state(KindState.SYNCING, recount)
        while True:
            if await self._is_absent():
                self._set_state(KindState.ABSENT, recount)
                await self._clock.sleep(PROBE_SECONDS)
            else:
                await self._watch(recount)

    async def _is_absent(self) -> bool:
        """Whether the API server does not know the kind. An error leaves the question open."""
        try:
            await self._cluster.list(self._kind.resource, limit=1)
        except NotFoundError:
            return True
        except ClusterError:
            return False
        return False

    async def _watch(self, recount: RecountPods) -> None:
        """Follow the objects until the kind is removed."""
        kind = self._kind
        self._set_state(KindState.SYNCING, recount)
        informer = observe(self._cluster, self._clock, self._random, kind.resource, kind.decode)
        tasks = [
            asyncio.create_task(informer.run()),
            asyncio.create_task(self._follow(informer, recount)),
        ]
        try:
            while not any(task.done() for task in tasks):
                await self._clock.sleep(PROBE_SECONDS)
                # A watch of a kind that was removed may stay open without a word.
                if await self._is_absent():
                    return
            error = next(task.exception() for task in tasks if task.done())
            LOG.warning(
                "watching a kind failed; starting over", resource=kind.resource, error=error
            )
        finally:
            await end(*tasks)

    async def _follow(self, informer: Informer[Sighting[T]], recount: RecountPods) -> None:
        async for change in informer.changes():
            match change:
                case Upserted():
                    recount(_keys(self._kind.see(change.new.item)))
                case Deleted():
                    recount(_keys(self._kind.lose(change.last.item)))
                case Synced():
                    self._set_state(KindState.SYNCED, recount)

    def _set_state(self, state: KindState, recount: RecountPods) -> None:
        recount(_keys(self._kind.set_state(state)))
        if state is not KindState.SYNCING:
            self._known.set()


def _keys(rows: Iterable[PodRow]) -> list[PodKey]:
    return [PodKey(row.namespace, row.name) for row in rows]
