"""Candidates, bad networks, wrong clocks and pauses, thousands of times, from seeds.

What must hold: at no instant may two candidates act; the work of one never overlaps with
another's unless its machine was paused; and when the trouble is over somebody leads.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from bursar.app.cluster.election.election import Candidacy, Election
from bursar.app.cluster.election.timing import CLOCK_RATIO_MAX, DEFAULT_TIMING
from bursar.app.cluster.ports import BusyError, Key, UnavailableError
from support.cluster.small_cluster import Line, SmallCluster, Travel
from support.virtual_time import MachineClock, run

pytestmark = pytest.mark.slow

LEASE = Key("bursar", "controller")
TROUBLE_SECONDS = 40
RECOVERY_SECONDS = 90
STEP_SECONDS = 1.3
SEEDS_PER_CASE = 150


@dataclass
class World:
    """What really happens, seen by nobody inside."""

    random: random.Random
    trouble: frozenset[str]
    """Which kinds there are: outages, pauses, restarts."""
    stop_seconds: float
    """How long cancelled work takes to end, at most."""
    cluster: SmallCluster = field(default_factory=SmallCluster)
    machines: list["Machine"] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    """When nobody reaches the cluster."""
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    is_led_again: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def windows(self, kind: str, numbers: tuple[int, ...]) -> list[tuple[float, float]]:
        """When there is trouble of a kind; each time for up to twice as long as a Lease lasts."""
        found = []
        for _ in range(self.random.choice(numbers) if kind in self.trouble else 0):
            start = self.random.uniform(0, TROUBLE_SECONDS - 1)
            length = self.random.uniform(1, 2 * DEFAULT_TIMING.lease_seconds)
            found.append((start, min(TROUBLE_SECONDS, start + length)))
        return found


class Machine:
    """One candidate and what it does while it leads."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.name = world, f"machine-{number}"
        self.clock = MachineClock(
            rate=world.random.uniform(1, CLOCK_RATIO_MAX),
            offset=timedelta(seconds=world.random.uniform(-3600, 3600)),
        )
        self.pauses = world.windows("pauses", (0, 1, 2))
        for start, end in self.pauses:
            self.clock.pause(start, end)
        self.outages = world.outages + world.windows("outages", (0, 1, 2))
        self.loss_rate = world.random.choice((0, 0.05, 0.3))
        self.working_since: float | None = None
        self.line = Line(world.cluster, self.clock, self.travel)
        self.stand()

    def stand(self) -> None:
        """Start the process, anew if there was one, with the same identity."""
        self.election = Election(
            self.line,
            self.line,
            self.clock,
            candidacy=Candidacy(lease=LEASE, identity=self.name),
            random=self.world.random.random,
        )
        self.task = asyncio.create_task(self.election.run(self.lead))

    def travel(self) -> Travel:
        luck = self.world.random
        if self.world.now > TROUBLE_SECONDS:
            return Travel()
        for _, end in (
            outage for outage in self.outages if outage[0] <= self.world.now < outage[1]
        ):
            if luck.random() < 0.5:
                return Travel(refusal=UnavailableError("connection refused"))
            return Travel(there=end - self.world.now, back=luck.uniform(0, 5))
        if luck.random() >= self.loss_rate:
            return Travel(there=luck.uniform(0, 0.3), back=luck.uniform(0, 0.3))
        return luck.choice(
            (
                Travel(is_answer_lost=True),
                Travel(there=luck.uniform(0, 15), back=luck.uniform(0, 15)),
                Travel(refusal=UnavailableError("connection refused")),
                Travel(refusal=BusyError("too many requests", retry_after=1)),
            )
        )

    async def lead(self) -> None:
        world = self.world
        self.working_since = world.now
        world.counts["terms"] += 1
        for other in world.machines:
            if other is not self and other.working_since is not None:
                if not other.was_paused_at_work():
                    world.violations.append(f"{self.name} began while {other.name} worked")
                world.counts["overlaps after a pause"] += 1
        try:
            while True:
                self.act()
                await self.clock.sleep(STEP_SECONDS)
        except asyncio.CancelledError:
            await self.clock.sleep(world.random.uniform(0, world.stop_seconds))
            raise
        finally:
            self.working_since = None

    def was_paused_at_work(self) -> bool:
        return any(end >= (self.working_since or 0) for _, end in self.pauses)

    def act(self) -> None:
        if not self.election.is_leader:
            self.world.counts["acts withheld"] += 1
            return
        self.world.counts["acts"] += 1
        if self.world.now > TROUBLE_SECONDS:
            self.world.is_led_again.set()
        leaders = [m.name for m in self.world.machines if m.election.is_leader]
        if leaders != [self.name]:
            self.world.violations.append(f"{self.name} acted while {leaders} could")


async def live(world: World) -> None:
    world.outages = world.windows("outages", (0, 1))
    for number in range(world.random.randint(2, 4)):
        world.machines.append(Machine(world, number))
    while "restarts" in world.trouble and world.now < TROUBLE_SECONDS:
        await asyncio.sleep(world.random.uniform(5, 20))
        machine = world.random.choice(world.machines)
        machine.task.cancel()
        await asyncio.wait((machine.task,))
        world.counts["restarts"] += 1
        machine.stand()
    await asyncio.sleep(TROUBLE_SECONDS - world.now)
    with suppress(TimeoutError):
        await asyncio.wait_for(world.is_led_again.wait(), RECOVERY_SECONDS)
    for machine in world.machines:
        machine.task.cancel()
    await asyncio.wait([machine.task for machine in world.machines])


def live_once(seed: int, *trouble: str, stop_seconds: float) -> World:
    luck = random.Random(seed)  # noqa: S311 - a seed, not a secret
    world = World(luck, frozenset(trouble), stop_seconds)
    run(live(world))
    return world


@pytest.mark.parametrize(
    "trouble",
    [
        ("outages",),
        ("pauses",),
        ("outages", "pauses"),
        ("outages", "pauses", "restarts"),
    ],
    ids=" and ".join,
)
def test_candidates_never_lead_together_and_somebody_leads_in_the_end(trouble):
    counts: Counter[str] = Counter()
    for seed in range(SEEDS_PER_CASE):
        world = live_once(seed, *trouble, stop_seconds=DEFAULT_TIMING.stop_seconds)
        counts += world.counts

        assert world.violations == [], f"seed {seed}"
        assert world.is_led_again.is_set(), f"nobody leads after the trouble, seed {seed}"

    print(dict(counts))
    assert counts["terms"] > SEEDS_PER_CASE
    assert (counts["acts withheld"] > 10) == ("pauses" in trouble)


def test_simulation_notices_work_that_does_not_end_in_time():
    """Else the test above would prove nothing."""
    too_long = 3 * DEFAULT_TIMING.stop_seconds
    worlds = [live_once(seed, "outages", stop_seconds=too_long) for seed in range(100)]

    assert [world for world in worlds if world.violations]
