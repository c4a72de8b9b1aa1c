"""The keeper of capacity: nodes offer what is declared, also after somebody wiped it.

What upstream's advertiser does once, at its start, is done here whenever a node is not as
it should be: each change of a node, of what is declared or of what is in use leads to a
look, and a look that finds something wrong to one fenced write.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bursar.app.capacity.node_patch import STATUS, node_patch
from bursar.app.capacity.telling import CapacityNews, CapacityReason, news_of
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import Clock, Key, Writer
from bursar.app.quota.upkeep import Upkeep
from bursar.core.peerpods.capacity import (
    CapacityNode,
    Declaration,
    Declared,
    Settlement,
    Terms,
    Verdict,
    settle,
    wanted_on,
)

CAPACITY_SECONDS: Final = 0.5
"""Each node is written no more often than this."""
CORRECTIONS_MAX: Final = 6
CORRECTION_SECONDS: Final = 60.0
"""So many corrections of one amount in this time, and it is called contested."""

FindNode = Callable[[str], Sighting[CapacityNode] | None]
"""What an informer holds of a node."""


@dataclass(slots=True)
class CapacityCounters:
    """How often what happened; only ever growing."""

    healed: int = 0
    withdrawn: int = 0
    yielded: int = 0
    """Amounts left to somebody else who had changed them."""


def tell_nobody(_: CapacityNews) -> None:
    """The default: what is wrong shows in `settlements` all the same."""


def report_nothing(_: str) -> None:
    """Likewise, in `problems`."""


@dataclass(eq=False, kw_only=True)
class CapacityKeeper:
    """Keeps the capacity of nodes as declared. `run` it once."""

    writer: Writer
    clock: Clock
    random: Random
    find: FindNode
    nodes: Callable[[], Iterable[str]]
    """The names of all nodes that are known."""
    used: Callable[[str, str], int]
    """How much pods on a node request of a resource."""
    may_write: Callable[[], bool]
    """Whether we lead, and all nodes, pods and declarations have been seen."""
    tell: Callable[[CapacityNews], None] = tell_nobody
    report: Callable[[str], None] = report_nothing
    """Takes a line about a declaration that cannot be read."""
    taken: frozenset[str] = frozenset()
    """Resources to take from whoever else advertises them."""
    interval_s: float = CAPACITY_SECONDS

    counters: CapacityCounters = field(default_factory=CapacityCounters, init=False)

    def __post_init__(self) -> None:
        self._declared: dict[Key, Declared] = {}
        self._declarations: tuple[Declaration, ...] = ()
        self._settled: dict[str, tuple[Settlement, ...]] = {}
        self._told: dict[str, frozenset[CapacityNews]] = {}
        self._written: dict[str, str] = {}
        """By node: over which state of it we have written."""
        self._corrections: dict[str, dict[str, deque[float]]] = {}
        """By node and resource: when we had to put it right of late."""
        self.upkeep = Upkeep(
            self._look,
            self.clock,
            random=self.random,
            may_write=self.may_write,
            interval_s=self.interval_s,
        )

    @property
    def settlements(self) -> Mapping[str, tuple[Settlement, ...]]:
        """By node, what the last look has found."""
        return self._settled

    @property
    def resources(self) -> frozenset[str]:
        """What is declared, for whichever nodes, whether or not there are any."""
        return frozenset(each.resource for each in self._declarations)

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the declarations cannot be read. While there is any, nothing is withdrawn."""
        return tuple(
            f"{key}: {problem}"
            for key, declared in self._declared.items()
            for problem in declared.problems
        )

    # ------------------------------------------------------------------ what is heard

    def observe(self, seen: Sighting[CapacityNode]) -> None:
        """A node is new or has changed."""
        self.mark([seen.identity.key.name])

    def lose(self, seen: Sighting[CapacityNode]) -> None:
        """A node is gone."""
        name = seen.identity.key.name
        for known in (self._settled, self._told, self._written, self._corrections):
            known.pop(name, None)

    def declare(self, seen: Sighting[Declared]) -> None:
        """What an object declares is new or has changed."""
        key = seen.identity.key
        if self._declared.get(key) == seen.item:
            return
        for problem in seen.item.problems:
            self.report(f"{key}: {problem}")
        self._declared[key] = seen.item
        self._redeclare()

    def undeclare(self, seen: Sighting[Declared]) -> None:
        """An object that declared something is gone, and with it what it declared."""
        self._declared.pop(seen.identity.key, None)
        self._redeclare()

    def mark(self, names: Iterable[str]) -> None:
        """Something has changed for these nodes, such as what is in use."""
        self.upkeep.mark(names)

    def _redeclare(self) -> None:
        self._declarations = tuple(
            each for declared in self._declared.values() for each in declared.declarations
        )
        self.mark(self.nodes())

    # ------------------------------------------------------------------ what is done

    async def run(self) -> None:
        """Set right until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.upkeep.run())
            tasks.create_task(self._come_back())

    async def _come_back(self) -> None:
        """To what was contested; when nothing changes any more, nobody else would tell us."""
        while True:
            await self.clock.sleep(CORRECTION_SECONDS)
            self.mark(list(self._corrections))

    async def _look(self, name: str) -> bool:
        seen = self.find(name)
        if seen is None or self._written.get(name) == seen.identity.resource_version:
            # Gone, or the watch has yet to show what we wrote. It will call us again.
            return False
        settlements = self._settlements(seen.item)
        patch = node_patch(seen.identity, seen.item, settlements)
        if patch is not None:
            await self.writer.patch(NODES, seen.identity.key, patch, subresource=STATUS)
            self._written[name] = seen.identity.resource_version
            self._count(name, settlements)
        self._settled[name] = settlements
        self._tell(seen.identity, seen.item, settlements)
        return patch is not None

    def _settlements(self, node: CapacityNode) -> tuple[Settlement, ...]:
        wanted = wanted_on(node, self._declarations)
        terms = Terms(
            taken=self.taken,
            contested=self._contested(node.name),
            may_withdraw=not node.problem
            and not any(declared.problems for declared in self._declared.values()),
        )
        return tuple(
            settle(
                node,
                resource,
                wanted.get(resource),
                used=self.used(node.name, resource),
                terms=terms,
            )
            for resource in sorted(wanted.keys() | node.marked.keys())
        )

    def _tell(
        self, identity: Identity, node: CapacityNode, settlements: tuple[Settlement, ...]
    ) -> None:
        news = frozenset(news_of(node, identity.uid, settlements))
        known = self._told.get(node.name, frozenset())
        for each in sorted(news - known, key=lambda each: each.note):
            self.tell(each)
        # What was healed once may be wiped again, and that is news again.
        self._told[node.name] = frozenset(
            each for each in news if each.reason is not CapacityReason.HEALED
        )

    # ------------------------------------------------------------------ who fights with us

    def _count(self, name: str, settlements: tuple[Settlement, ...]) -> None:
        now = self.clock.monotonic()
        for each in settlements:
            self.counters.withdrawn += each.verdict is Verdict.WITHDRAW
            self.counters.yielded += each.verdict is Verdict.YIELD
            if each.is_healing:
                self.counters.healed += 1
                corrections = self._corrections.setdefault(name, {})
                corrections.setdefault(each.resource, deque()).append(now)

    def _contested(self, name: str) -> frozenset[str]:
        since = self.clock.monotonic() - CORRECTION_SECONDS
        corrections = self._corrections.get(name, {})
        for times in corrections.values():
            while times and times[0] <= since:
                times.popleft()
        if not any(corrections.values()):
            self._corrections.pop(name, None)
        return frozenset(
            resource for resource, times in corrections.items() if len(times) >= CORRECTIONS_MAX
        )
