"""A signal that makes the scheduler try refused pods again when it sees no event by itself.

If an extender refused a pod, the scheduler tries the pod again after any event of the cluster, for
example when a pod ends. If a capacity is raised, or a hold ends, there is no such event, and the
pod would wait for up to five minutes. So the extender changes an object that the scheduler watches:
a CSIStorageCapacity in its own namespace, of a storage class that does not exist. Of all kinds that
the scheduler watches, this one needs the fewest permissions and has no other effect.
"""

from collections.abc import Callable, Sequence
from typing import Final

from bursar.app.cluster.ports import (
    AlreadyExistsError,
    Clock,
    ClusterError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Writer,
)
from bursar.app.extender.kinds import STORAGE_CAPACITIES
from bursar.app.extender.names import EXTENDER, SIGNAL
from bursar.app.log import Log
from bursar.core.pools.books import PoolBooks

LOG: Final = Log("extender")
TICK_SECONDS: Final = 1.0
LOOKS_MAX: Final = 1_000
"""Refused pods that one tick looks at. One signal is for all pods that could run now."""
ANNOTATION: Final = "bursar.io/signalled-at"


class SchedulerSignal:
    """Looks for pods that could run and are not tried, and signals at most once per tick."""

    def __init__(
        self,
        books: PoolBooks,
        clock: Clock,
        writer: Writer,
        *,
        namespace: str,
        is_leader: Callable[[], bool],
    ) -> None:
        self._books, self._clock, self._writer = books, clock, writer
        self._key, self._is_leader = Key(namespace, SIGNAL), is_leader
        self.owners: Sequence[Json] = ()
        """The ownerReferences of the object."""
        self.count = 0
        """Signals since the start."""

    async def run(self) -> None:
        while True:
            self._books.expire(int(self._clock.monotonic()))
            if self._books.take_overlooked(LOOKS_MAX) and self._is_leader():
                await self._signal()
            await self._clock.sleep(TICK_SECONDS)

    async def _signal(self) -> None:
        self.count += 1
        body: dict[str, Json] = {
            "metadata": {"annotations": {ANNOTATION: self._clock.now().isoformat()}}
        }
        try:
            try:
                patch = Patch(kind=PatchKind.MERGE, body=body)
                await self._writer.patch(STORAGE_CAPACITIES, self._key, patch)
            except NotFoundError:
                await self._writer.create(
                    STORAGE_CAPACITIES, self._new(), namespace=self._key.namespace
                )
        except AlreadyExistsError:
            pass
        except ClusterError as error:
            LOG.warning("the scheduler was not signalled; it tries pods later", error=error)

    def _new(self) -> Json:
        return {
            "apiVersion": STORAGE_CAPACITIES.api_version,
            "kind": STORAGE_CAPACITIES.kind,
            "metadata": {
                "name": self._key.name,
                "namespace": self._key.namespace,
                "ownerReferences": list(self.owners),
                "labels": {"app.kubernetes.io/managed-by": EXTENDER},
            },
            "storageClassName": SIGNAL,
            "capacity": "0",
        }
