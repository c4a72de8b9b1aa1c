"""Candidates on a small cluster in virtual time, and what they do while they lead."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.lease import LEASES
from bursar.app.cluster.ports import Key, Patch, PatchKind
from support.machine_time import MachineClock, run
from support.small_cluster import Line, SmallCluster, Travel

LEASE = Key("bursar", "controller")


class Bench:
    """A cluster with one Lease, and candidates whose lines can be made bad."""

    def __init__(self) -> None:
        self.cluster = SmallCluster()
        self.travels: dict[str, Callable[[], Travel]] = {}

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
        return asyncio.create_task(election.run(lead))

    def write(self, **spec: object) -> None:
        """What somebody else's program writes."""
        if (LEASES, LEASE) in self.cluster.objects:
            self.cluster.patch(LEASES, LEASE, Patch(kind=PatchKind.MERGE, body={"spec": spec}))
        else:
            body = {"metadata": {"name": LEASE.name}, "spec": spec}
            self.cluster.create(LEASES, body, LEASE.namespace)


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


def in_virtual_time(test: Callable[[Bench], Coroutine[None, None, None]]) -> Callable[[], None]:
    def wrapper() -> None:
        run(test(Bench()))

    wrapper.__name__, wrapper.__doc__ = test.__name__, test.__doc__
    return wrapper


async def stop(*tasks: asyncio.Task) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


async def eternity() -> None:
    await asyncio.Event().wait()
