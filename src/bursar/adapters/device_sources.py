"""Pods and devices of one node from the API server: watched, and nothing of any other node.

What is watched may be a moment behind. So whoever misses a pod in it asks with `read`, which
is answered with the newest state there is.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bursar.app.cluster.informer.informer import InformerCounters
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe import Cluster, observe
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
from bursar.app.cluster.time_limit import within
from bursar.app.devices.ports import SourceError
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.wire.structs.fields import printable

DEVICES: Final = Resource(
    "scheduling.koordinator.sh", "v1alpha1", "devices", "Device", is_namespaced=False
)
"""Koordinator's list of what a node has, one object for each node and named after it."""
READ_SECONDS: Final = 3.0
STALE_SECONDS: Final = 150.0
"""Bookmarks come about every minute: two of them missing is a watch that is not to be trusted."""
ABSENT_SECONDS: Final = 300.0
"""How often it is tried whether a kind has appeared. Every node of a cluster does that."""
LINE_LENGTH_MAX: Final = 512


class ApiPods:
    """A `PodSource`. `run` it in the background if `newest` is to know anything."""

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        *,
        clock: Clock,
        random: Random,
        decode: Callable[[bytes], DevicePod],
    ) -> None:
        """`decode` raises `ValueError` for what is no pod."""
        self._cluster, self._clock, self._decode = cluster, clock, decode
        self._query = Query(field_selector=f"spec.nodeName={node}")
        self._informer = observe(cluster, clock, random, PODS, decode, query=self._query)
        self._unreadable = 0
        self._heard: tuple[str, Sequence[DevicePod]] = ("", ())
        """The moment and the pods of the last `newest`."""

    async def run(self) -> None:
        """Follow the node's pods until cancelled."""
        await self._informer.run()

    async def wait_synced(self) -> None:
        """Wait until `newest` knows all pods; the caller sets the deadline."""
        await self._informer.wait_synced()

    def newest(self) -> Sequence[DevicePod] | None:
        """All pods as last heard, at no cost; None while nothing trustworthy has been heard.

        The very same list for as long as nothing was heard.
        """
        if not self._informer.is_synced or self._informer.staleness_seconds > STALE_SECONDS:
            return None
        moment, pods = self._heard
        if not moment or moment != self._informer.resource_version:
            pods = [sighting.item for sighting in self._informer.snapshot().objects()]
            self._heard = self._informer.resource_version, pods
        return pods

    async def read(self) -> Sequence[DevicePod]:
        """All pods of this node, as of a moment after the call. Raises `SourceError`.

        A pod that cannot be read is left out, for the others must not suffer from it.
        """
        try:
            page = await within(self._clock, READ_SECONDS, self._list())
        except TimeoutError:
            raise SourceError(f"the API server did not answer within {READ_SECONDS:g} s") from None
        except ForbiddenError as error:
            needed = "that takes `list` and `watch` on `pods`"
            raise SourceError(_line(f"the API server: {error}; {needed}")) from None
        except ClusterError as error:
            raise SourceError(_line(f"the API server: {error}")) from None
        found: list[DevicePod] = []
        for body in page.items:
            try:
                found.append(self._decode(body))
            except ValueError:
                self._unreadable += 1
        return found

    async def _list(self) -> Page:
        # In one piece: what runs on one node is no long list, and pages can expire.
        return await self._cluster.list(PODS, self._query)

    @property
    def unreadable(self) -> int:
        """How often a pod could not be read, ever."""
        return self._unreadable + self._informer.counters.decode_failures

    @property
    def counters(self) -> InformerCounters:
        """Of the watch; for metrics."""
        return self._informer.counters


class WatchedInventory:
    """An `InventorySource`: the node's Device object, where somebody keeps one. `run` it."""

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        *,
        clock: Clock,
        random: Random,
        decode: Callable[[bytes], Inventory],
    ) -> None:
        """`decode` raises `ValueError` for what is no list of devices."""
        self._key = Key("", node)
        self._patient = _PatientCluster(cluster, clock, random)
        self._informer = observe(
            self._patient,
            clock,
            random,
            DEVICES,
            decode,
            query=Query(field_selector=f"metadata.name={node}"),
        )

    async def run(self) -> None:
        """Follow the object until cancelled, and wait for its kind where there is none."""
        await self._informer.run()

    async def wait_synced(self) -> None:
        """Wait until it is known whether there is one; for ever where the kind is missing."""
        await self._informer.wait_synced()

    def current(self) -> Inventory | None:
        if self._patient.is_absent:
            return None
        sighting = self._informer.find(self._key)
        return None if sighting is None else sighting.item

    @property
    def is_absent(self) -> bool:
        """Whether the cluster has no such kind of object."""
        return self._patient.is_absent

    @property
    def is_suspect(self) -> bool:
        """Whether the object's latest state could not be read, so that an older one is used."""
        return self._key in self._informer.suspects

    @property
    def counters(self) -> InformerCounters:
        """Of the watch; for metrics."""
        return self._informer.counters


@dataclass(slots=True)
class _PatientCluster:
    """A cluster where a kind may be missing, or not for us to see, without that being a fault.

    An informer comes back within half a minute whatever the error was. That is right for a
    server that has a bad time; but thousands of nodes must not knock that often at a door
    that, in most clusters, will never be there.
    """

    cluster: Cluster
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
            await self._wait(error)
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
            await self._wait(error)
            raise
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _wait(self, error: ClusterError) -> None:
        self.is_absent = isinstance(error, NotFoundError)
        await self.clock.sleep(self.random.uniform(ABSENT_SECONDS / 2, ABSENT_SECONDS))


def _line(text: str) -> str:
    return printable(text, LINE_LENGTH_MAX)
