"""The desk: feeds the books from watches and carries out what they decide.

Everything that touches the books runs on one event loop and never waits in between, so
there is one writer. Nothing is decided before all that exists has been seen; and after a
change the desk waits a moment, so that what arrives together is judged together and in
order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from bursar.app.cluster.informer.changes import Deleted, Synced, Upserted
from bursar.app.cluster.informer.informer import Informer, InformerCounters
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.ports import Clock, ClusterError, Resource
from bursar.app.cluster.time_limit import end
from bursar.app.quota.lifting import GateLifter
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.books import Books, Release, Wait
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import Reason
from bursar.core.quota.reported import QuotaObject
from bursar.core.quota.targeting import Targeting

GATHER_SECONDS: Final = 0.01
"""How long to wait after a change for others that came with it."""
LIFTS_MAX: Final = 64
"""Gates being lifted at the same time; the client may allow fewer."""

RELEASE_BOUNDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""Of the time pods waited; in seconds."""

T = TypeVar("T")


class RunningInformer(Protocol):
    """An informer, whatever it is about."""

    resource: Resource
    counters: InformerCounters
    last_error: ClusterError | None

    @property
    def is_synced(self) -> bool: ...

    @property
    def staleness_seconds(self) -> float: ...

    def __len__(self) -> int: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the books are fed from. All informers are run by whoever made them."""

    pods: Informer[PodRow]
    namespaces: Informer[Sighting[NamespaceObject]]
    quotas: tuple[Informer[Sighting[QuotaObject]], ...]
    targeting: Targeting

    def informers(self) -> tuple[RunningInformer, ...]:
        quotas: tuple[RunningInformer, ...] = self.quotas
        return (self.pods, self.namespaces, *quotas)


@dataclass(slots=True)
class DeskCounters:
    """How often what happened; only ever growing."""

    released: int = 0
    freed: int = 0
    """Released without asking a quota, since their namespace is not held back any more."""
    release_seconds: list[int] = field(default_factory=lambda: [0] * (len(RELEASE_BOUNDS) + 1))
    """How many pods waited for less than each bound, the last for longer than all."""
    release_seconds_sum: float = 0.0
    refusals: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    rounds: int = 0


class Desk:
    """One term of work. `run` it once; it ends when it is cancelled."""

    def __init__(
        self,
        books: Books,
        sources: Sources,
        lifter: GateLifter,
        *,
        clock: Clock,
        tell: Callable[[Wait], None],
        on_touched: Callable[[set[QuotaKey]], None],
    ) -> None:
        self.books: Final = books
        self.counters: Final = DeskCounters()
        self._sources, self._lifter, self._clock = sources, lifter, clock
        self._tell, self._on_touched = tell, on_touched
        self._stirred = asyncio.Event()
        self._lifts: asyncio.Queue[Release] = asyncio.Queue()
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether everything that existed has been seen, so that decisions are made."""
        return self._is_open

    def stir(self) -> None:
        """Something has changed in the books."""
        self._stirred.set()

    async def run(self) -> None:
        """Feed, decide and lift until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._work(tasks)
        finally:
            await self._lifter.close()

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        synced = [
            tasks.create_task(each)
            for each in (
                self._pump(tasks, self._sources.namespaces, self._see_namespace),
                *(self._pump(tasks, each, self._see_quota) for each in self._sources.quotas),
                self._pump(tasks, self._sources.pods, self._see_pod),
            )
        ]
        await asyncio.gather(*synced)
        self._is_open = True
        for _ in range(LIFTS_MAX):
            tasks.create_task(self._lift())
        await self._decide()

    # ------------------------------------------------------------------ what happens

    async def _pump(
        self,
        tasks: asyncio.TaskGroup,
        informer: Informer[T],
        see: Callable[[T, bool], None],
    ) -> None:
        """Take everything that exists, and leave a task behind that takes what changes."""
        changes = informer.changes()
        async for change in changes:
            if isinstance(change, Synced):
                break
            self._apply(change, see)

        async def follow() -> None:
            async for change in changes:
                if not isinstance(change, Synced):
                    self._apply(change, see)
                    self.stir()

        tasks.create_task(follow())
        self.stir()

    def _apply(self, change: Upserted[T] | Deleted[T], see: Callable[[T, bool], None]) -> None:
        if isinstance(change, Upserted):
            see(change.new, True)
        else:
            see(change.last, False)

    def _see_pod(self, row: PodRow, exists: bool) -> None:  # noqa: FBT001 - a callback's signature
        if exists:
            self.books.see_pod(row)
        else:
            self.books.lose_pod(row.namespace, row.name, row.stamp.uid)

    def _see_quota(self, seen: Sighting[QuotaObject], exists: bool) -> None:  # noqa: FBT001 - likewise
        if exists:
            self.books.see_quota(seen.item.quota)
        else:
            self.books.lose_quota(seen.item.quota.key)

    def _see_namespace(self, seen: Sighting[NamespaceObject], exists: bool) -> None:  # noqa: FBT001 - likewise
        if exists:
            self.books.see_namespace(self._sources.targeting.namespace(seen.item))
        else:
            self.books.lose_namespace(seen.item.name)

    # ------------------------------------------------------------------ what is to be done

    async def _decide(self) -> None:
        while True:
            self._stirred.clear()
            self.counters.rounds += 1
            self.books.advance(self._now_s())
            decisions = self.books.decide()
            for release in decisions.releases:
                self._lifts.put_nowait(release)
            for wait in decisions.waits:
                for refusal in wait.refusals:
                    self.counters.refusals[refusal.reason] += 1
                self._tell(wait)
            touched = self.books.ledger.touched
            if touched:
                self._on_touched(set(touched))
                touched.clear()
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next change, or for something to fall due."""
        async with _alarm(self._clock, self._seconds_to_next(), self._stirred):
            await self._stirred.wait()
        await self._clock.sleep(GATHER_SECONDS)

    def _seconds_to_next(self) -> float | None:
        due_s = self.books.next_due_s
        return None if due_s is None else max(0.0, due_s - self._clock.now().timestamp())

    def _now_s(self) -> int:
        return int(self._clock.now().timestamp())

    async def _lift(self) -> None:
        while True:
            release = await self._lifts.get()
            lifted = await self._lifter.lift(release.row)
            if lifted is None:
                continue
            self.books.settle(release.row, lifted.answer, lifted.detail)
            if lifted.answer.is_success:
                self._count(release)
            self.stir()

    def _count(self, release: Release) -> None:
        counters = self.counters
        if release.is_free:
            counters.freed += 1
        counters.released += 1
        waited = max(0.0, self._clock.now().timestamp() - release.row.stamp.created_s)
        counters.release_seconds_sum += waited
        bound = next(
            (index for index, most in enumerate(RELEASE_BOUNDS) if waited <= most),
            len(RELEASE_BOUNDS),
        )
        counters.release_seconds[bound] += 1


@asynccontextmanager
async def _alarm(clock: Clock, seconds: float | None, event: asyncio.Event) -> AsyncIterator[None]:
    """Set an event after some time, unless the block ends before."""
    if seconds is None:
        yield
        return

    async def ring() -> None:
        await clock.sleep(seconds)
        event.set()

    ringing = asyncio.ensure_future(ring())
    try:
        yield
    finally:
        await end(ringing)
