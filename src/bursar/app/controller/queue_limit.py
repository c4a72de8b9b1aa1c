"""Bound the number of waiting pods: refuse new pods of namespaces in which too many wait.

A gated pod costs a tenant nothing, so without a bound one tenant could fill etcd and the
controller's memory with pods that wait. The leader counts the waiting pods of each namespace. It
writes the full namespaces to `FULL_QUEUES_ANNOTATION` of the controller's service account, and
again if another writer changes it. The API server evaluates a policy that takes this account as
its parameter (`app/install/admission.py`), and refuses new pods of these namespaces.

The list follows the queue with a delay, so that a tenant can exceed the bound by the pods that it
creates in about two seconds. A `count/pods` of a ResourceQuota is exact: it counts gated pods, too.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.observe import Watched, follow, observe_one
from bursar.app.cluster.ports import Clock, Key, Patch, PatchKind
from bursar.app.cluster.reconcile import ReconcileContext, Reconciler
from bursar.app.log import Log
from bursar.app.names import CONTROLLER, FULL_QUEUES_ANNOTATION
from bursar.core.quota.books import Books
from bursar.core.quota.views.queue import FullQueues, waiting_by_namespace
from bursar.wire.cluster.annotations import decode_annotation

LOG: Final = Log("controller")
CHECK_SECONDS: Final = 0.5
"""Shortest time between two counts of the queue."""
WRITE_SECONDS: Final = 1.0
"""Shortest time between two writes."""
NAMESPACES_MAX: Final = 1000
"""Most namespaces in the annotation. All annotations of an object may have 256 KiB."""

RecordFull = Callable[[str, int], None]
"""Called with a namespace that has become full, and the number of pods that may wait."""


def observe_full_queues(
    cluster: Watched, clock: Clock, random: Random, namespace: str
) -> Informer[Sighting[str]]:
    """Watch the controller's service account: the annotation with the full namespaces."""
    return observe_one(
        cluster, clock, random, SERVICE_ACCOUNTS, _listed, Key(namespace, CONTROLLER)
    )


def _listed(body: bytes) -> str:
    return decode_annotation(body, FULL_QUEUES_ANNOTATION)


def full_text(full: FullQueues) -> str:
    """The value of the annotation: the number of pods that may wait, then the namespaces.

    Each name has a comma before and after it, so that a policy finds it by a search.
    """
    names = sorted(full.names)[:NAMESPACES_MAX]
    return f"{full.pods_max},{','.join(names)}," if names else ""


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")[1:]))


class QueueLimit:
    """Keeps the annotation. Call `run` once, when the books are complete."""

    def __init__(
        self,
        books: Books,
        account: Informer[Sighting[str]],
        context: ReconcileContext,
        *,
        pods_max: int,
        record: RecordFull,
    ) -> None:
        self._books, self._account, self._context = books, account, context
        self._record = record
        self._is_changed = asyncio.Event()
        self.full = FullQueues(pods_max)
        self.reconciler: Final = Reconciler("queue", self._reconcile, context, WRITE_SECONDS)

    def notify(self) -> None:
        """The queue may have changed: count soon."""
        self._is_changed.set()

    async def run(self) -> None:
        """Count and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._account.run())
            tasks.create_task(self.reconciler.run())
            await self._account.wait_synced()
            listed = [seen.item for seen in self._account.snapshot().objects()]
            # A namespace that a predecessor found full stays so until it opens at 90 %.
            self.full = FullQueues(self.full.pods_max, _names_in("".join(listed)))
            tasks.create_task(follow(self._account, self._enqueue, lambda _: None))
            while True:
                self._is_changed.clear()
                self._count()
                await self._is_changed.wait()
                await self._context.clock.sleep(CHECK_SECONDS)

    def _count(self) -> None:
        before = self.full.names
        for name in sorted(self.full.update(waiting_by_namespace(self._books))):
            LOG.warning("too many pods wait; new ones are refused", namespace=name)
            self._record(name, self.full.pods_max)
        if self.full.names != before:
            self.reconciler.enqueue([each.identity.key for each in self._accounts()])

    def _accounts(self) -> list[Sighting[str]]:
        return list(self._account.snapshot().objects())

    def _enqueue(self, seen: Sighting[str]) -> None:
        self.reconciler.enqueue([seen.identity.key])

    async def _reconcile(self, key: Key) -> bool:
        seen, wanted = self._account.find(key), full_text(self.full)
        if seen is None or seen.item == wanted:
            return False
        change = {"metadata": {"annotations": {FULL_QUEUES_ANNOTATION: wanted or None}}}
        await self._context.writer.patch(
            SERVICE_ACCOUNTS, key, Patch(kind=PatchKind.MERGE, body=change)
        )
        return True
