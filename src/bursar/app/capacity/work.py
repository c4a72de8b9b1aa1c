"""Capacity in a term of the controller: what is followed, and when the keeper may begin.

Nothing is written before everything has been seen once. A keeper that knows the nodes but
not yet what is declared would take away all that it ever gave.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from bursar.app.capacity.keeper import CapacityKeeper, report_nothing, tell_nobody
from bursar.app.capacity.telling import CapacityNews
from bursar.app.capacity.use import UseBook
from bursar.app.cluster.informer.changes import Deleted, Synced, Upserted
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.ports import Clock, Key, Writer
from bursar.app.quota.desk import RunningInformer
from bursar.core.model.pod_row import PodRow
from bursar.core.peerpods.capacity import CapacityNode, Declared

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacitySources:
    """What the keeper goes by."""

    nodes: Informer[Sighting[CapacityNode]]
    declarations: tuple[Informer[Sighting[Declared]], ...]
    pods: Informer[PodRow]
    """Shared with others, and run by whoever made it."""

    def informers(self) -> tuple[RunningInformer, ...]:
        """Those that are run here."""
        declarations: tuple[RunningInformer, ...] = self.declarations
        return (self.nodes, *declarations)


@dataclass(eq=False, kw_only=True)
class CapacityWork:
    """One term of keeping capacity. `run` it once."""

    writer: Writer
    clock: Clock
    random: Random
    sources: CapacitySources
    may_write: Callable[[], bool]
    """Whether we lead. Whether everything has been seen is known here."""
    tell: Callable[[CapacityNews], None] = tell_nobody
    report: Callable[[str], None] = report_nothing
    taken: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._synced = 0
        self.use = UseBook()
        self.keeper = CapacityKeeper(
            writer=self.writer,
            clock=self.clock,
            random=self.random,
            find=lambda name: self.sources.nodes.find(Key("", name)),
            nodes=lambda: (key.name for key in self.sources.nodes.snapshot()),
            used=self.use.used,
            may_write=lambda: self.is_open and self.may_write(),
            tell=self.tell,
            report=self.report,
            taken=self.taken,
        )

    @property
    def is_open(self) -> bool:
        """Whether all that exists has been seen."""
        return self._synced >= 2 + len(self.sources.declarations)

    async def run(self) -> None:
        """Follow and keep until cancelled."""
        sources, keeper = self.sources, self.keeper
        async with asyncio.TaskGroup() as tasks:
            for informer in sources.informers():
                tasks.create_task(informer.run())
            tasks.create_task(self._follow(sources.pods, self._see_pod, self._lose_pod))
            for declarations in sources.declarations:
                tasks.create_task(self._follow(declarations, keeper.declare, keeper.undeclare))
            tasks.create_task(self._follow(sources.nodes, keeper.observe, keeper.lose))
            tasks.create_task(keeper.run())

    async def _follow(
        self, informer: Informer[T], observe: Callable[[T], None], lose: Callable[[T], None]
    ) -> None:
        is_new = True
        async for change in informer.changes():
            match change:
                case Synced():
                    # It is said again after each relist.
                    self._synced += is_new
                    is_new = False
                case Upserted():
                    observe(change.new)
                case Deleted():
                    lose(change.last)

    def _see_pod(self, row: PodRow) -> None:
        self.keeper.mark(self.use.see(row))

    def _lose_pod(self, row: PodRow) -> None:
        self.keeper.mark(self.use.lose(row))
