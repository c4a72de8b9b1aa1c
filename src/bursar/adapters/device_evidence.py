"""Reading once what a cluster says about devices: pods, inventories and claims.

Only pods are a must. A cluster without inventories is common, and many who may see pods
may not see the rest: both are told, and the answer is given without.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from bursar.adapters.device_sources import DEVICES
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.listing import list_all
from bursar.app.cluster.ports import ForbiddenError, NotFoundError, Query, Reader, Resource
from bursar.app.devices.report import Evidence
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.register import DynamicDevice
from bursar.core.devices.source import Source
from bursar.wire.device_claims import decode_resource_claim
from bursar.wire.device_inventory import decode_device_object
from bursar.wire.device_pod import DevicePodDecoder

RESOURCE_CLAIMS: Final = tuple(
    Resource("resource.k8s.io", version, "resourceclaims", "ResourceClaim")
    for version in ("v1", "v1beta2", "v1beta1")
)
"""Newest first. A cluster serves some of them, with the same claims in each."""

T = TypeVar("T")


async def read_evidence(
    reader: Reader, sources: Iterable[Source], *, namespace: str = "", node: str = ""
) -> Evidence:
    """Everything, or what one node has. Raises `ClusterError`.

    A namespace is for those who may see no other: two pods that hold one device may be
    in different namespaces, so all are read where that is allowed.
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
            "pods of other namespaces may not be seen; whether they hold the same is not known"
        )
        query = Query(namespace=namespace, field_selector=selector)
        return await self._objects(PODS, query, decode)

    async def inventories(self, node: str) -> dict[str, Inventory]:
        query = Query(field_selector=f"metadata.name={node}" if node else "")
        try:
            found = await self._objects(DEVICES, query, decode_device_object)
        except NotFoundError:
            self.problems.append(f"no {DEVICES} in this cluster; ids are not compared with any")
            return {}
        except ForbiddenError as error:
            self.problems.append(f"left out: {DEVICES}: {error.message}")
            return {}
        for each in found:
            self.problems.extend(f"{DEVICES} {each.node}: {line}" for line in each.problems)
        return {each.node: each.inventory for each in found}

    async def dynamic(self, namespace: str) -> list[DynamicDevice]:
        for version in RESOURCE_CLAIMS:
            try:
                claims = await self._claims(version, namespace)
            except NotFoundError:
                continue
            except ForbiddenError as error:
                self.problems.append(f"left out: {version}: {error.message}")
                return []
            return [device for claim in claims for device in claim]
        # An older cluster, where nobody could have such a claim.
        return []

    async def _claims(self, version: Resource, namespace: str) -> list[tuple[DynamicDevice, ...]]:
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
