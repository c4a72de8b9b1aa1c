"""Candidates for a Lease on a small cluster in virtual time, and the work that a leader does."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.kinds import LEASES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from support.cluster.small_cluster import Line, SmallCluster, Travel
from support.virtual_time import MachineClock

LEASE = Key("bursar", "controller")


class Bench:
    """A cluster with one Lease, and candidates whose lines can be made bad.

    Candidates that still run at the end are stopped.
    """

    def __init__(self) -> None:
        self.cluster = SmallCluster()
        self.travels: dict[str, Callable[[], Travel]] = {}
        self._tasks: list[asyncio.Task] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop(*(task for task in self._tasks if not task.done()))

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def spec(self) -> dict[str, object]:
        return self.cluster.objects[LEASES, LEASE]["spec"]

    def candidate(self, name: str) -> Election:
        clock = MachineClock()

        def travel() -> Travel:
            return self.travels.get(name, Travel)()

        line = Line(self.cluster, clock, travel)
        candidacy = Candidacy(lease=LEASE, identity=name)
        return Election(line, line, clock, candidacy=candidacy, random=lambda: 0.5)

    def start(self, election: Election, lead: Callable[[], Awaitable[object]]) -> asyncio.Task:
        self._tasks.append(asyncio.create_task(election.run(lead)))
        return self._tasks[-1]

    async def leader(self, *, stop_seconds: float = 0) -> tuple[Election, "Work"]:
        """Wait until candidate `one` leads."""
        election, work = self.candidate("one"), Work(stop_seconds)
        self.start(election, work)
        await work.has_begun.wait()
        return election, work

    def write(self, **spec: object) -> None:
        """What somebody else's program writes."""
        if (LEASES, LEASE) in self.cluster.objects:
            self.cluster.patch(LEASES, LEASE, Patch(kind=PatchKind.MERGE, body={"spec": spec}))
        else:
            body = {"metadata": {"name": LEASE.name}, "spec": spec}
            self.cluster.create(LEASES, body, namespace=LEASE.namespace)


@dataclass
class Work:
    """Work that goes on for ever, and notes when it began and when it had ended."""

    stop_seconds: float = 0

    def __post_init__(self) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self.has_begun = asyncio.Event()

    async def __call__(self) -> None:
        self.begun.append(asyncio.get_running_loop().time())
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self.stop_seconds)
            self.ended.append(asyncio.get_running_loop().time())
            self.has_begun.clear()


async def stop(*tasks: asyncio.Task) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)


async def eternity() -> None:
    await asyncio.Event().wait()
