"""Watch the pods and the inventory of one node at the API server.

A watch may be behind. A caller that misses a pod in it calls `read`, which lists the newest state.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe import Watched, observe, observe_one
from bursar.app.cluster.ports import (
    EVERYTHING,
    Clock,
    ClusterError,
    ForbiddenError,
    Key,
    NotFoundError,
    Page,
    Query,
    Resource,
    WatchEvent,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.cluster.time_limit import within
from bursar.app.devices.kinds import DEVICES
from bursar.app.devices.ports import SourceError
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.wire.devices.inventory import decode_inventory
from bursar.wire.structs.fields import printable

READ_SECONDS: Final = 3.0
STALE_SECONDS: Final = 150.0
"""After this long without an event the watch is stale. Bookmarks come about every minute."""
ABSENT_SECONDS: Final = 300.0
"""How often the agent retries a kind that the cluster does not have; each node does that."""
LINE_LENGTH_MAX: Final = 512


class ApiPods:
    """A `PodSource`. `cached` returns pods only while `run` is running."""

    def __init__(
        self,
        cluster: Watched,
        node: str,
        *,
        clock: Clock,
        random: Random,
        decode: Callable[[bytes], DevicePod],
    ) -> None:
        """`decode` raises `ValueError` for a body that is not a pod."""
        self._cluster, self._clock, self._decode = cluster, clock, decode
        self._query = Query(field_selector=f"spec.nodeName={node}")
        self._informer = observe(cluster, clock, random, PODS, decode, query=self._query)
        self._cached: tuple[str, Sequence[DevicePod]] = ("", ())
        """The resourceVersion and the pods of the last `cached`."""

    async def run(self) -> None:
        """Watch the node's pods until cancelled."""
        await self._informer.run()

    async def wait_synced(self) -> None:
        """Wait until `cached` has all pods; the caller sets the deadline."""
        await self._informer.wait_synced()

    def cached(self) -> Sequence[DevicePod] | None:
        """The pods of the watch, without waiting; None before the first sync and while stale.

        Returns the same list until an event arrives.
        """
        if not self._informer.is_synced or self._informer.staleness_seconds > STALE_SECONDS:
            return None
        version, pods = self._cached
        if not version or version != self._informer.resource_version:
            pods = [sighting.item for sighting in self._informer.snapshot().objects()]
            self._cached = self._informer.resource_version, pods
        return pods

    async def read(self) -> Sequence[DevicePod]:
        """List all pods of this node. Raises `SourceError`.

        A pod that cannot be decoded is left out; the other pods are returned.
        """
        try:
            return await within(self._clock, READ_SECONDS, self._list())
        except TimeoutError:
            raise SourceError(f"the API server did not answer within {READ_SECONDS:g} s") from None
        except ForbiddenError as error:
            needed = "that takes `list` and `watch` on `pods`"
            raise SourceError(_line(f"the API server: {error}; {needed}")) from None
        except ClusterError as error:
            raise SourceError(_line(f"the API server: {error}")) from None

    async def _list(self) -> list[DevicePod]:
        return await list_all(self._cluster, PODS, self._query, self._decode, problems=[])


class WatchedInventory:
    """An `InventorySource`: the node's Device object, if there is one. `run` watches it."""

    def __init__(self, cluster: Watched, node: str, *, clock: Clock, random: Random) -> None:
        self._key = Key("", node)
        self._retried = _RarelyRetried(cluster, clock, random)
        self._informer = observe_one(
            self._retried, clock, random, DEVICES, decode_inventory, self._key
        )

    async def run(self) -> None:
        """Watch the object until cancelled. If the kind does not exist, retry rarely."""
        await self._informer.run()

    async def wait_synced(self) -> None:
        """Wait for the first sync. If the cluster does not have the kind, that never comes."""
        await self._informer.wait_synced()

    def current(self) -> Inventory | None:
        if self._retried.is_absent:
            return None
        sighting = self._informer.find(self._key)
        return None if sighting is None else sighting.item

    @property
    def is_absent(self) -> bool:
        """Whether the cluster does not have the kind."""
        return self._retried.is_absent


@dataclass(slots=True)
class _RarelyRetried:
    """A cluster with a long back-off after 404 and 403.

    The informer retries after half a minute at most, which is right for an overloaded API server.
    But most clusters do not have the kind, and thousands of nodes must not retry that often.
    """

    cluster: Watched
    clock: Clock
    random: Random
    is_absent: bool = False

    async def get(self, resource: Resource, key: Key) -> bytes:
        return await self.cluster.get(resource, key)

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        try:
            answer = await self.cluster.list(resource, query, limit=limit, page=page)
        except (NotFoundError, ForbiddenError) as error:
            await self._back_off(error)
            raise
        self.is_absent = False
        return answer

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        stream = self.cluster.watch(
            resource, query, resource_version=resource_version, send_initial=send_initial
        )
        try:
            async for event in stream:
                self.is_absent = False
                yield event
        except (NotFoundError, ForbiddenError) as error:
            await self._back_off(error)
            raise
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _back_off(self, error: ClusterError) -> None:
        self.is_absent = isinstance(error, NotFoundError)
        await self.clock.sleep(self.random.uniform(ABSENT_SECONDS / 2, ABSENT_SECONDS))


def _line(text: str) -> str:
    return printable(text, LINE_LENGTH_MAX)
