"""Read pods, inventories and ResourceClaims of a cluster once.

Only pods are required. Many clusters have no inventories, and many users may list pods but not the
other kinds. Both are reported as problems, and the result is made without them.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ForbiddenError, NotFoundError, Query, Reader, Resource
from bursar.app.cluster.reading.listing import list_all
from bursar.app.devices.kinds import DEVICES, RESOURCE_CLAIMS
from bursar.app.devices.reports.report import Evidence
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.rows import ClaimDevice
from bursar.core.devices.source import Source
from bursar.wire.devices.inventory import decode_device_object
from bursar.wire.devices.pod import DevicePodDecoder
from bursar.wire.devices.resource_claim import decode_resource_claim

T = TypeVar("T")


async def read_evidence(
    reader: Reader, sources: Iterable[Source], *, namespace: str = "", node: str = ""
) -> Evidence:
    """Read everything, or what one node has. Raises `ClusterError`.

    All namespaces are read if that is allowed, because two pods that hold one device may be in
    different namespaces. Otherwise only `namespace` is read.
    """
    reading = _Reading(reader)
    pods = await reading.pods(DevicePodDecoder(sources).decode, namespace, node)
    return Evidence(
        pods=pods,
        inventories=await reading.inventories(node),
        dynamic=await reading.dynamic(namespace),
        problems=tuple(reading.problems),
    )


class _Reading:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.problems: Final[list[str]] = []

    async def pods(
        self, decode: Callable[[bytes], DevicePod], namespace: str, node: str
    ) -> list[DevicePod]:
        selector = f"spec.nodeName={node}" if node else ""
        try:
            return await self._objects(PODS, Query(field_selector=selector), decode)
        except ForbiddenError:
            if not namespace:
                raise
        self.problems.append(
            "pods of other namespaces may not be listed; conflicts with them are not found"
        )
        query = Query(namespace=namespace, field_selector=selector)
        return await self._objects(PODS, query, decode)

    async def inventories(self, node: str) -> dict[str, Inventory]:
        query = Query(field_selector=f"metadata.name={node}" if node else "")
        try:
            found = await self._objects(DEVICES, query, decode_device_object)
        except NotFoundError:
            self.problems.append(f"no {DEVICES} in this cluster; ids are not checked")
            return {}
        except ForbiddenError as error:
            self.problems.append(f"left out: {DEVICES}: {error.message}")
            return {}
        for each in found:
            self.problems.extend(f"{DEVICES} {each.node}: {line}" for line in each.problems)
        return {each.node: each.inventory for each in found}

    async def dynamic(self, namespace: str) -> list[ClaimDevice]:
        for version in RESOURCE_CLAIMS:
            try:
                claims = await self._claims(version, namespace)
            except NotFoundError:
                continue
            except ForbiddenError as error:
                self.problems.append(f"left out: {version}: {error.message}")
                return []
            return [device for claim in claims for device in claim]
        # A cluster without DRA has no ResourceClaims.
        return []

    async def _claims(self, version: Resource, namespace: str) -> list[tuple[ClaimDevice, ...]]:
        try:
            return await self._objects(version, Query(), decode_resource_claim)
        except ForbiddenError:
            if not namespace:
                raise
        query = Query(namespace=namespace)
        return await self._objects(version, query, decode_resource_claim)

    async def _objects(
        self, resource: Resource, query: Query, decode: Callable[[bytes], T]
    ) -> list[T]:
        return await list_all(self._reader, resource, query, decode, problems=self.problems)
