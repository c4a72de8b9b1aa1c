"""One term of leadership: books that begin empty, and everything that fills and reports them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from bursar.app.cluster.events.recorder import EventRecorder
from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.observe import RunningInformer, Watched, follow, observe
from bursar.app.cluster.observe_kinds import observe_namespaces, observe_pod_rows
from bursar.app.cluster.ownership import owner_references
from bursar.app.cluster.ports import (
    Binder,
    Clock,
    ClusterError,
    Json,
    Key,
    Patch,
    PatchKind,
    Writer,
)
from bursar.app.extender.binding import PodBinder
from bursar.app.extender.endpoint import publish
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.app.extender.names import EXTENDER
from bursar.app.extender.scheduler_signal import SchedulerSignal
from bursar.app.extender.status import PoolEventReason, PoolStatuses
from bursar.app.log import Log
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.holds import Holds
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.pools import decode_pool

LOG: Final = Log("extender")


class Cluster(Watched, Writer, Binder, Protocol):
    """The cluster as the extender uses it."""


@dataclass(frozen=True, kw_only=True)
class TermContext:
    """What a term needs from its extender."""

    cluster: Cluster
    clock: Clock
    random: Random
    namespace: str
    is_leader: Callable[[], bool]
    write_seconds: float
    """How long a binding may last after this process stops leading."""
    hold_s: int
    address: tuple[str, int] | None
    recorder: EventRecorder[PoolEventReason]


class ExtenderTerm:
    def __init__(self, context: TermContext) -> None:
        self._context = context
        cluster, clock, random = context.cluster, context.clock, context.random
        self.books: Final = PoolBooks(Holds(context.hold_s))
        self.pods: Final = observe_pod_rows(cluster, clock, random)
        self.namespaces: Final = observe_namespaces(cluster, clock, random)
        self.pools: Final = observe(cluster, clock, random, CLUSTER_RESOURCES, decode_pool)
        self.binder: Final = PodBinder(
            cluster,
            clock,
            self.books,
            decode=PodRowDecoder().decode,
            is_leader=context.is_leader,
            write_seconds=context.write_seconds,
        )
        self.signal: Final = SchedulerSignal(
            self.books,
            clock,
            cluster,
            namespace=context.namespace,
            is_leader=context.is_leader,
        )
        self.statuses: Final = PoolStatuses(
            self.books, clock, cluster, is_leader=context.is_leader, recorder=context.recorder
        )
        self._synced = [asyncio.Event() for _ in self.informers]

    @property
    def informers(self) -> tuple[RunningInformer, ...]:
        return (self.pools, self.namespaces, self.pods)

    @property
    def is_synced(self) -> bool:
        """Whether the books hold everything that existed when the term began."""
        return all(each.is_set() for each in self._synced)

    async def run(self) -> None:
        """Keep the books until cancelled. Bindings in flight are waited for at the end."""
        books, context = self.books, self._context
        pools, namespaces, pods = (each.set for each in self._synced)
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self.informers:
                    tasks.create_task(informer.run())
                tasks.create_task(
                    follow(
                        self.pools,
                        lambda seen: books.see_pool(seen.item),
                        lambda seen: books.lose_pool(seen.item.name),
                        pools,
                    )
                )
                tasks.create_task(
                    follow(
                        self.namespaces,
                        lambda seen: books.see_namespace(seen.item),
                        lambda seen: books.lose_namespace(seen.item.name),
                        namespaces,
                    )
                )
                tasks.create_task(follow(self.pods, books.see_pod, books.lose_pod, pods))
                for each in self._synced:
                    await each.wait()
                LOG.info("caches synced; answering", pods=len(self.pods), pools=len(self.pools))
                tasks.create_task(self.binder.run())
                owners = self.signal.owners = await self._own_lease()
                tasks.create_task(self.statuses.run())
                tasks.create_task(self.signal.run())
                if context.address is not None:
                    tasks.create_task(
                        publish(
                            context.cluster,
                            context.clock,
                            namespace=context.namespace,
                            address=context.address,
                            owners=owners,
                            is_leader=context.is_leader,
                        )
                    )
        finally:
            await self.binder.close()

    async def _own_lease(self) -> Sequence[Json]:
        """Make the Lease go when Bursar is uninstalled. Returns the ownerReferences for it.

        Nothing depends on it, so an error only means that the objects stay.
        """
        context = self._context
        try:
            owners = await owner_references(context.cluster, context.namespace, EXTENDER)
            if owners:
                body: Json = {"metadata": {"ownerReferences": list(owners)}}
                patch = Patch(kind=PatchKind.MERGE, body=body)
                await context.cluster.patch(LEASES, Key(context.namespace, EXTENDER), patch)
        except ClusterError as error:
            LOG.warning("objects of this process have no owner", error=error)
            return ()
        return owners
