"""A pod-resources proxy between a kubelet and pods that are both made up, in virtual time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bursar.app.devices.node_pods import FreshnessRules, NodePods
from bursar.app.devices.planning import HoldingPlanning, Planning, latest_pods
from bursar.app.devices.ports import CallError, Method, SourceError, Version
from bursar.app.devices.proxy import PodResourcesProxy, ProxyRules
from bursar.core.devices.allocation import Problem
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DeviceContainer, DevicePod, live_pods
from bursar.core.devices.resolve import Rules
from bursar.core.devices.source import KOORDINATOR
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from support.virtual_time import MachineClock, in_virtual_time

GPU = "nvidia.com/gpu"
Listed = dict[str, list[tuple[str, str]]]
"""Pod to (resource, device) of all its containers."""
SOURCES = {KOORDINATOR.name: KOORDINATOR}


def gpu_pod(name: str, *devices: str, uid: str = "", asks: bool = True, **facts: Any) -> DevicePod:
    """A pod to which Koordinator gave whole GPUs."""
    claims = tuple(Claim(kind="gpu", device=device, minor=0) for device in devices)
    amounts = {GPU: len(devices)} if asks else {}
    return DevicePod(
        namespace="team",
        name=name,
        uid=uid or name,
        containers=(DeviceContainer(name="main", asks=amounts),),
        claims=(Claims(source=KOORDINATOR.name, claims=claims),) if devices else (),
        **facts,
    )


class MadeUpKubelet:
    """Lists the pods it is told of; each container "main", with devices of its own."""

    def __init__(self, clock: MachineClock) -> None:
        self.pods: dict[str, list[tuple[str, str]]] = {}
        self.has_alpha = True
        self.takes_s = 0.0
        self.error: CallError | None = None
        self.allocatable_body = b""
        self.nonsense = b""
        """What it answers instead, whatever is asked."""
        self.calls: list[str] = []
        self.requests: list[bytes] = []
        self.within_s: list[float | None] = []
        self._clock = clock

    async def call(
        self, version: Version, method: Method, request: bytes, within_s: float | None
    ) -> bytes:
        is_list = method is Method.LIST
        self.calls.append(f"{version.value} List" if is_list else method.value)
        self.within_s.append(within_s)
        self.requests.append(request)
        await self._clock.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        if self.nonsense:
            return self.nonsense
        if method is Method.ALLOCATABLE:
            return self.allocatable_body
        if method is Method.GET:
            return self._get(request)
        if version is Version.V1ALPHA1 and not self.has_alpha:
            raise CallError(12, "unknown service v1alpha1.PodResourcesLister")
        pods = [self._pod(name) for name in self.pods]
        return v1.ListPodResourcesResponse(pod_resources=pods).SerializeToString()

    def _get(self, request: bytes) -> bytes:
        asked = v1.GetPodResourcesRequest.FromString(request)
        if asked.pod_name not in self.pods:
            text = f"pod {asked.pod_name} in namespace {asked.pod_namespace} not found"
            raise CallError(2, text)
        answer = v1.GetPodResourcesResponse(pod_resources=self._pod(asked.pod_name))
        return answer.SerializeToString()

    def _pod(self, name: str) -> v1.PodResources:
        devices = [
            v1.ContainerDevices(resource_name=resource, device_ids=[device])
            for resource, device in self.pods[name]
        ]
        main = v1.ContainerResources(name="main", devices=devices, cpu_ids=[3, 1])
        return v1.PodResources(name=name, namespace="team", containers=[main])


class MadeUpPods:
    def __init__(self, clock: MachineClock) -> None:
        self.pods: list[DevicePod] = []
        self.is_broken = False
        self.takes_s = 0.0
        self.reads = 0
        self._clock = clock

    async def read(self) -> list[DevicePod]:
        self.reads += 1
        pods = list(self.pods)
        await self._clock.sleep(self.takes_s)
        if self.is_broken:
            raise SourceError("403 Forbidden")
        return pods


class MadeUpInventory:
    inventory: Inventory | None = None

    def current(self) -> Inventory | None:
        return self.inventory


@dataclass
class Told:
    news: list[tuple[str, Problem]] = field(default_factory=list)

    def report(self, pod: DevicePod, problem: Problem) -> None:
        self.news.append((pod.uid, problem))


class Scene:
    def __init__(self, rules: ProxyRules | None, planning: Planning | None) -> None:
        self.clock = MachineClock()
        self.kubelet = MadeUpKubelet(self.clock)
        self.source = MadeUpPods(self.clock)
        self.inventory = MadeUpInventory()
        self.told = Told()
        self.planning = planning or HoldingPlanning(SOURCES, Rules(needs_inventory=False))
        self.proxy = PodResourcesProxy(
            kubelet=self.kubelet,
            pods=NodePods(
                self.source,
                self.clock,
                FreshnessRules(),
                live_pods if planning is None else latest_pods,
            ),
            inventory=self.inventory,
            planning=self.planning,
            reporter=self.told,
            clock=self.clock,
            rules=rules or ProxyRules(),
        )

    def place(self, name: str, *gpus: str) -> None:
        """One pod is all that runs here; kubelet knows none of its devices."""
        self.kubelet.pods = {name: []}
        self.source.pods = [gpu_pod(name, *gpus)]

    async def list(self, version: Version = Version.V1) -> Listed:
        return devices(await self.proxy.call(version, Method.LIST, b"", None))

    async def lists(self, count: int) -> Sequence[Listed]:
        return await asyncio.gather(*(self.list() for _ in range(count)))

    async def get(self, name: str) -> Sequence[tuple[str, str]]:
        request = v1.GetPodResourcesRequest(pod_name=name, pod_namespace="team")
        body = await self.proxy.call(Version.V1, Method.GET, request.SerializeToString(), None)
        return _lines(v1.GetPodResourcesResponse.FromString(body).pod_resources)


def devices(body: bytes) -> Listed:
    pods = v1.ListPodResourcesResponse.FromString(body).pod_resources
    return {pod.name: _lines(pod) for pod in pods}


def _lines(pod: v1.PodResources) -> list[tuple[str, str]]:
    return [
        (line.resource_name, device)
        for container in pod.containers
        for line in container.devices
        for device in line.device_ids
    ]


def on_scene(*, rules: ProxyRules | None = None, planning: Planning | None = None) -> Any:
    """Play a test on a scene, in virtual time."""
    return in_virtual_time(on=lambda: Scene(rules, planning))
