"""The memory of `bursar agent` on a full node. Its manifests request 80Mi.

250 pods with 10 devices each, an inventory of all of them, and TLS to kubelet and the API server.
Memory is read after one client has called List 100 times, and again after fifty clients have called
at once while all pods were replaced four times.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from controlplane import ControlPlane
from ratio import Ratio
from support.devices.node_with_agent import (
    Node,
    Tenant,
    gpus,
    inventory,
    node_with_agent,
    secure_port,
)
from support.until import until_blocking

NODE = "node-0"
PODS = 250
DEVICES = 10
CLIENTS = 50
GENERATIONS = 4
LIMIT_MB = 60
LIMIT_BUSY_MB = 75
IDS = [f"GPU-8c25ea37-2909-6e62-b7bf-{number:012x}" for number in range(PODS * DEVICES)]


def measure() -> Iterator[Ratio]:
    plane = ControlPlane()
    plane.start(nodes=1)
    devices = [
        {"type": "gpu", "minor": minor, "id": name, "health": True}
        for minor, name in enumerate(IDS)
    ]
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            secure_port(plane, Path(folder), NODE) as pods,
            inventory(plane, NODE, *devices),
        ):
            yield from asyncio.run(_measure(Path(folder), pods))
    finally:
        plane.stop()


async def _measure(folder: Path, pods) -> list[Ratio]:
    async with node_with_agent(folder, "--no-events", pods=pods) as node:
        await node.has(*_tenants(0))
        known = f"{len(IDS)} devices"
        await until_blocking(lambda: known in node.agent.health()["inventory"], "the inventory")
        await _call(node, times=100, pace_ms=30)
        rows = [_row("the agent's memory, one client", node, LIMIT_MB)]
        for generation in range(GENERATIONS):
            await node.has(*_tenants(generation))
            await _call(node, parallel=CLIENTS, times=4, reconnect=True)
        return [*rows, _row("the agent's memory, 50 clients", node, LIMIT_BUSY_MB)]


async def _call(node: Node, **how) -> None:
    answers = await node.client.calls(node.socket, quiet=True, **how)
    assert {answer.code for answer in answers} == {"OK"}


def _row(what: str, node: Node, limit: int) -> Ratio:
    used = node.agent.memory()["VmRSS"] / 1e6
    return Ratio(what, used, f"{limit} MB", limit, "MB", "≤ 1")


def _tenants(generation: int) -> list[Tenant]:
    return [
        Tenant(f"p-{generation}-{pod}", gpus(*IDS[DEVICES * pod : DEVICES * (pod + 1)]))
        for pod in range(PODS)
    ]
