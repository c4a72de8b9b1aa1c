"""Switch the gate on when the controller is able to release pods.

A pod that is gated before any controller works would wait for ever. So the policies and the webhook
gate pods only if the controller's service account has `GATING_ANNOTATION`. A leader writes it when
its books are complete, and again if another writer removes it. While the controller is down, new
pods are gated and wait. If the service account is deleted, no user can remove gates, and gating
stops.
"""

import asyncio
from typing import Final

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.observe import follow
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.cluster.reconcile import ReconcileContext, Reconciler
from bursar.app.log import Log
from bursar.app.names import GATING_ACTIVE, GATING_ANNOTATION

LOG: Final = Log("controller")
WRITE_SECONDS: Final = 1.0
"""Shortest time between two writes."""

_ACTIVE: Final = Patch(
    kind=PatchKind.MERGE,
    body={"metadata": {"annotations": {GATING_ANNOTATION: GATING_ACTIVE}}},
)


class GateActivation:
    """Keeps the annotation. Call `run` once, when the books are complete."""

    def __init__(self, account: Informer[Sighting[bool]], context: ReconcileContext) -> None:
        self._account, self._context = account, context
        self.reconciler: Final = Reconciler("gate", self._reconcile, context, WRITE_SECONDS)

    async def run(self) -> None:
        """Watch the service account until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._account.run())
            tasks.create_task(self.reconciler.run())
            await follow(self._account, self._enqueue, lambda _: None)

    def _enqueue(self, seen: Sighting[bool]) -> None:
        self.reconciler.enqueue([seen.identity.key])

    async def _reconcile(self, key: Key) -> bool:
        seen = self._account.find(key)
        if seen is None or seen.item:
            return False
        await self._context.writer.patch(SERVICE_ACCOUNTS, key, _ACTIVE)
        LOG.info("new pods of the selected namespaces are gated")
        return True
