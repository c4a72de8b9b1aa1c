"""The capacity work of one term: the informers, the usage, and the reconciler.

Nothing is written before all nodes, pods and declarations have been seen. A reconciler that
knows the nodes but not the declarations would withdraw everything that it ever set.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from bursar.app.capacity.events import CapacityEvent
from bursar.app.capacity.reconciler import CapacityReconciler
from bursar.app.capacity.usage import ExtendedUsage
from bursar.app.capacity.watched_sources import CapacitySources
from bursar.app.cluster.observe import follow
from bursar.app.cluster.ports import Key
from bursar.app.cluster.reconcile import ReconcileContext
from bursar.core.model.pod_row import PodRow


@dataclass(eq=False, kw_only=True)
class CapacityController:
    """Call `run` once."""

    context: ReconcileContext
    """Its `may_write` need not know whether the informers of `sources` are synced."""
    sources: CapacitySources
    record: Callable[[CapacityEvent], None]

    def __post_init__(self) -> None:
        self._synced = 0
        self.usage = ExtendedUsage()
        may_write = self.context.may_write
        self.reconciler = CapacityReconciler(
            context=replace(self.context, may_write=lambda: self.is_synced and may_write()),
            find=lambda name: self.sources.nodes.find(Key("", name)),
            nodes=lambda: (key.name for key in self.sources.nodes.snapshot()),
            used=self.usage.used,
            record=self.record,
        )

    @property
    def is_synced(self) -> bool:
        """Whether everything that exists has been seen."""
        return self._synced >= 2 + len(self.sources.declarations)

    async def run(self) -> None:
        """Run the informers and reconcile until cancelled."""
        sources, reconciler = self.sources, self.reconciler
        async with asyncio.TaskGroup() as tasks:
            for informer in sources.informers():
                tasks.create_task(informer.run())
            for followed in (
                follow(sources.pods, self._see_pod, self._lose_pod, self._on_synced),
                follow(
                    sources.nodes,
                    reconciler.on_node_change,
                    reconciler.on_node_delete,
                    self._on_synced,
                ),
                *(
                    follow(
                        each,
                        reconciler.on_declaration_change,
                        reconciler.on_declaration_delete,
                        self._on_synced,
                    )
                    for each in sources.declarations
                ),
            ):
                tasks.create_task(followed)
            tasks.create_task(reconciler.run())

    def _on_synced(self) -> None:
        self._synced += 1

    def _see_pod(self, row: PodRow) -> None:
        self.reconciler.enqueue(self.usage.see(row))

    def _lose_pod(self, row: PodRow) -> None:
        self.reconciler.enqueue(self.usage.lose(row))
