"""The capacity reconciler: nodes offer the declared amounts, also after they were wiped.

Upstream's advertiser writes capacity once, when it starts. Here each change of a node, of the
declarations or of the usage leads to a reconcile of the node, and each difference to one
fenced patch.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bursar.app.capacity.events import CapacityEvent, CapacityReason, events_of
from bursar.app.capacity.node_patch import STATUS, node_patch
from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.kinds import NODES
from bursar.app.cluster.ports import Key
from bursar.app.cluster.reconcile import PendingWrites, ReconcileContext, Reconciler
from bursar.app.log import Log
from bursar.core.peerpods.capacity import (
    CapacityNode,
    Declaration,
    Declared,
    Settlement,
    SettleRules,
    settle,
    wanted_on,
)

LOG: Final = Log("capacity")
CAPACITY_SECONDS: Final = 0.5
"""Shortest time between two writes of one node."""
CORRECTIONS_MAX: Final = 6
CORRECTION_SECONDS: Final = 60.0
"""An amount that is corrected `CORRECTIONS_MAX` times within this time is contested: it is left
alone for a while."""


@dataclass(eq=False, kw_only=True)
class CapacityReconciler:
    """Writes the capacity of nodes as declared. Call `run` once."""

    context: ReconcileContext
    find: Callable[[str], Sighting[CapacityNode] | None]
    """Looks up a node by name in the informer."""
    nodes: Callable[[], Iterable[str]]
    """The names of all known nodes."""
    used: Callable[[str, str], int]
    """How much the pods on a node request of a resource."""
    record: Callable[[CapacityEvent], None]
    healed: int = field(default=0, init=False)
    """How often an amount was restored, since the reconciler was made."""

    def __post_init__(self) -> None:
        self._declared = dict[Key, Declared]()
        self._declarations: tuple[Declaration, ...] = ()
        self._recorded: dict[str, frozenset[CapacityEvent]] = {}
        self._pending = PendingWrites[bool]()
        self._corrections: dict[str, dict[str, deque[float]]] = {}
        """By node and resource: the times of recent corrections."""
        self.reconciler = Reconciler(
            "capacity of nodes", self._reconcile, self.context, CAPACITY_SECONDS
        )

    @property
    def resources(self) -> frozenset[str]:
        """The declared resources, also those for which no node is selected."""
        return frozenset(each.resource for each in self._declarations)

    # ------------------------------------------------------------------ changes

    def on_node_change(self, seen: Sighting[CapacityNode]) -> None:
        """A node was created or changed."""
        self.enqueue([seen.identity.key.name])

    def on_node_delete(self, seen: Sighting[CapacityNode]) -> None:
        key = seen.identity.key
        self._pending.forget(key)
        for known in (self._recorded, self._corrections):
            known.pop(key.name, None)

    def on_declaration_change(self, seen: Sighting[Declared]) -> None:
        """A ConfigMap that declares capacity was created or changed."""
        key = seen.identity.key
        if self._declared.get(key) == seen.item:
            return
        for problem in seen.item.problems:
            LOG.warning("a declaration cannot be read", object=key, reason=problem)
        self._declared[key] = seen.item
        self._redeclare()

    def on_declaration_delete(self, seen: Sighting[Declared]) -> None:
        self._declared.pop(seen.identity.key, None)
        self._redeclare()

    def enqueue(self, names: Iterable[str]) -> None:
        """Reconcile these nodes soon, for example because their usage has changed."""
        self.reconciler.enqueue(names)

    def _redeclare(self) -> None:
        self._declarations = tuple(
            each for declared in self._declared.values() for each in declared.declarations
        )
        self.enqueue(self.nodes())

    # ------------------------------------------------------------------ reconciling

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run())
            tasks.create_task(self._retry_contested())

    async def _retry_contested(self) -> None:
        """Queue nodes with contested amounts again, which need not change any more."""
        while True:
            await self.context.clock.sleep(CORRECTION_SECONDS)
            self.enqueue(list(self._corrections))

    async def _reconcile(self, name: str) -> bool:
        seen = self.find(name)
        if seen is None or self._pending.find(seen.identity):
            # The watch will show the deletion, or the pending write, and queue the node again.
            return False
        settlements = self._settlements(seen.item)
        patch = node_patch(seen.identity, seen.item, settlements)
        if patch is not None:
            await self.context.writer.patch(NODES, seen.identity.key, patch, subresource=STATUS)
            self._pending.add(seen.identity, True)
            self._count(name, settlements)
        self._record(seen.identity, seen.item, settlements)
        return patch is not None

    def _settlements(self, node: CapacityNode) -> tuple[Settlement, ...]:
        wanted = wanted_on(node, self._declarations)
        rules = SettleRules(
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
                rules=rules,
            )
            for resource in sorted(wanted.keys() | node.marked.keys())
        )

    def _record(
        self, identity: Identity, node: CapacityNode, settlements: tuple[Settlement, ...]
    ) -> None:
        events = frozenset(events_of(node, identity.uid, settlements))
        known = self._recorded.get(node.name, frozenset())
        for event in sorted(events - known, key=lambda event: event.note):
            self.record(event)
        # An amount that was healed may be wiped again, which is a new event.
        self._recorded[node.name] = frozenset(
            event for event in events if event.reason is not CapacityReason.HEALED
        )

    # ------------------------------------------------------------------ contested amounts

    def _count(self, name: str, settlements: tuple[Settlement, ...]) -> None:
        now = self.context.clock.monotonic()
        for each in settlements:
            if each.is_healing:
                self.healed += 1
                corrections = self._corrections.setdefault(name, {})
                corrections.setdefault(each.resource, deque()).append(now)

    def _contested(self, name: str) -> frozenset[str]:
        since = self.context.clock.monotonic() - CORRECTION_SECONDS
        corrections = self._corrections.get(name, {})
        for times in corrections.values():
            while times and times[0] <= since:
                times.popleft()
        if not any(corrections.values()):
            self._corrections.pop(name, None)
        return frozenset(
            resource for resource, times in corrections.items() if len(times) >= CORRECTIONS_MAX
        )
