"""A node with an agent: kubelet's own servers for it to read, and clients of upstream's code.

    async with node_with_agent(folder) as node:
        await node.has(Tenant("trainer", gpus("GPU-1")))
        told = await node.client.dcgm(node.socket, ["GPU-1"])

Pods that are new to the agent are looked for at once, so tests that share a node only have to
give their pods names of their own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bursar.app.devices.kinds import DEVICES
from controlplane import ControlPlane
from support.builders.koordinator_device import DEFINITION
from support.devices.agent import ANNOTATION, AgentProcess, Raw, pods_port
from support.devices.kubelet_http import KubeletHttp
from support.devices.kubelet_server import (
    Container,
    Contents,
    Device,
    KubeletServer,
    Pod,
    kubelet_server,
)
from support.devices.socket_clients import PodResourcesClient, podresources_client
from support.processes.kubectl import kubectl

GPU, RDMA, FPGA = "nvidia.com/gpu", "koordinator.sh/rdma", "koordinator.sh/fpga"
ASKED_BY = {"gpu": GPU, "rdma": RDMA, "fpga": FPGA}
CREATED = "2026-01-01T00:00:00Z"
MANY = 100_000
"""Calls a second that nobody makes, for kubelets whose limit is not what a test is about."""

Asks = Mapping[str, Mapping[str, str]]
"""Container to the resources it asks for."""


# ------------------------------------------------------------------ what Koordinator writes


def gpus(*ids: str, **more: Any) -> Raw:
    return {"gpu": [{"minor": minor, "id": each, **more} for minor, each in enumerate(ids)]}


def shared_gpu(id: str, percent: int) -> Raw:
    amounts = {"koordinator.sh/gpu-core": percent, "koordinator.sh/gpu-memory-ratio": percent}
    return gpus(id, resources={name: str(amount) for name, amount in amounts.items()})


def functions(*addresses: str, port: str = "0000:01:00.0") -> Raw:
    """Virtual functions of one port."""
    given = [{"minor": -1, "busID": address} for address in addresses]
    return {"rdma": [{"minor": 0, "id": port, "extension": {"vfs": given}}]}


def ports(*addresses: str) -> Raw:
    return {"rdma": [{"minor": minor, "id": each} for minor, each in enumerate(addresses)]}


# ------------------------------------------------------------------ pods


@dataclass(frozen=True)
class Tenant:
    """A pod as both sides know it: kubelet's socket, and whoever tells the pods of the node."""

    name: str
    allocated: object = None
    """What stands in the annotation: a document, or text as it is."""
    asks: Asks | None = None
    """None: one container `main` that asks for whatever is allocated."""
    sidecars: Sequence[str] = ()
    given: Mapping[str, Sequence[Device]] = field(default_factory=dict)
    """Container to what device plugins gave to it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    phase: str = "Running"

    def listed(self) -> Pod:
        return Pod(
            self.name,
            [Container(name, self.given.get(name, ())) for name in self._asks],
            init=[Container(name, restartable=True) for name in self.sidecars],
        )

    def written(self) -> Raw:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "default",
                "name": self.name,
                "uid": f"uid-{self.name}",
                "creationTimestamp": CREATED,
                "annotations": self._annotations(),
                **self.metadata,
            },
            "spec": {
                "initContainers": [
                    {"name": name, "image": "i", "restartPolicy": "Always"}
                    for name in self.sidecars
                ],
                "containers": [
                    {"name": name, "image": "i", "resources": {"limits": dict(asked)}}
                    for name, asked in self._asks.items()
                ],
            },
            "status": {"phase": self.phase},
        }

    @property
    def _asks(self) -> Asks:
        if self.asks is not None:
            return self.asks
        kinds = self.allocated if isinstance(self.allocated, dict) else {}
        return {"main": {ASKED_BY.get(kind, kind): "100" for kind in kinds}}

    def _annotations(self) -> dict[str, str]:
        if self.allocated is None:
            return {}
        is_text = isinstance(self.allocated, str)
        return {ANNOTATION: self.allocated if is_text else json.dumps(self.allocated)}


class PodsTeller(Protocol):
    """Who tells the agent which pods there are."""

    options: Sequence[str]

    def tell(self, pods: Sequence[Raw]) -> None: ...


@dataclass
class SecurePort:
    """Kubelet's own HTTPS server. It lets us in for who we are to the API server."""

    kubelet: KubeletHttp
    plane: ControlPlane

    @property
    def options(self) -> Sequence[str]:
        return (
            f"--node={self.kubelet.node}",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--kubelet-address={self.kubelet.endpoint.host}",
            f"--kubelet-port={self.kubelet.endpoint.port}",
        )

    def tell(self, pods: Sequence[Raw]) -> None:
        self.kubelet.put(pods)


@contextmanager
def secure_port(plane: ControlPlane, folder: Path, node: str = "node-0") -> Iterator[SecurePort]:
    kubelet = KubeletHttp(plane, folder, node=node)
    kubelet.program.start()
    try:
        kubelet.program.wait_ready()
        yield SecurePort(kubelet, plane)
    finally:
        kubelet.program.stop()


# ------------------------------------------------------------------ the inventory


@contextmanager
def inventory(plane: ControlPlane, node: str, *devices: Raw) -> Iterator[None]:
    """Koordinator's object about the node. Its definition stays: others may want it, too."""
    kubectl(plane, "apply", "-f", "-", stdin=json.dumps(DEFINITION))
    kind = DEFINITION["metadata"]["name"]
    kubectl(plane, "wait", "--for=condition=Established", "--timeout=120s", f"crd/{kind}")
    listed = {
        "apiVersion": DEVICES.api_version,
        "kind": DEVICES.kind,
        "metadata": {"name": node},
        "spec": {"devices": list(devices)},
    }
    # Not applied: that would also write all of it into an annotation.
    kubectl(plane, "create", "-f", "-", stdin=json.dumps(listed))
    try:
        yield
    finally:
        kubectl(plane, "delete", kind, node)


# ------------------------------------------------------------------ the node


@dataclass(frozen=True)
class Node:
    kubelet: KubeletServer
    pods: PodsTeller
    agent: AgentProcess
    client: PodResourcesClient

    @property
    def socket(self) -> Path:
        return self.agent.socket

    async def has(self, *tenants: Tenant, **contents: Any) -> None:
        """These are the node's pods now, for everybody."""
        self.pods.tell([each.written() for each in tenants])
        listed = [each.listed() for each in tenants]
        await self.kubelet.replace(Contents(pods=listed, **contents))

    async def devices(self, name: str) -> dict[str, dict[str, list[str]]]:
        """What a List through the agent says of one pod, by container."""
        listed = await self.client.list(self.socket)
        assert listed.code == "OK", listed.error
        return listed.devices[f"default/{name}"]

    async def metric(self, name: str) -> float:
        found = await asyncio.to_thread(self.agent.metrics)
        return found[name]


@asynccontextmanager
async def node_with_agent(
    folder: Path,
    *options: str,
    pods: PodsTeller | None = None,
    client: PodResourcesClient | None = None,
    usual_limits: bool = False,
    **kubelet: Any,
) -> AsyncIterator[Node]:
    """Unless told otherwise, neither kubelet nor the agent minds how often it is asked.

    Pods come from a made-up read-only port, which can fail, unless somebody else tells them.
    """
    if not usual_limits:
        options, kubelet = ("--rate=0", *options), {"qps": MANY, "burst": MANY, **kubelet}
    async with AsyncExitStack() as stack:
        pods = pods or stack.enter_context(pods_port())
        client = client or await stack.enter_async_context(podresources_client())
        server = await stack.enter_async_context(kubelet_server(**kubelet))
        agent = AgentProcess(folder, *pods.options, *options, kubelet_socket=server.socket)
        yield Node(server, pods, stack.enter_context(agent), client)
