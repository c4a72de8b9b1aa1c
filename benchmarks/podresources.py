"""List through `bursar agent`, against kubelet's own server asked directly by the same client.

Server and client are upstream's Go code, and the two are asked turn and turn about on open
connections, at a pace below kubelet's rate limit. Both answer with the same number of devices, in a
new order each time: behind the agent, half or all of them are in annotations. The agent reads the
node's pods anew about every second, over HTTP.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ratio import Ratio
from support.devices.agent import AgentProcess, pods_port
from support.devices.kubelet_server import (
    Container,
    Contents,
    Device,
    KubeletServer,
    Pod,
    kubelet_server,
)
from support.devices.socket_clients import PodResourcesClient, podresources_client

PODS = 250
DEVICES = 10
ROUNDS = 12
CALLS = 80
PACE_MS = 12
"""The kubelet takes a hundred calls a second from all clients together."""
WARM_UP_CALLS = 60


def measure() -> Iterator[Ratio]:
    yield from asyncio.run(_measure())


async def _measure() -> list[Ratio]:
    rows = []
    full = _contents(DEVICES)
    rows += await _compared("half annotated", _contents(DEVICES // 2), full, DEVICES // 2)
    rows += await _compared("all annotated", _contents(0), full, DEVICES)
    return rows


async def _compared(
    what: str, behind: Contents, direct: Contents, annotated: int
) -> Sequence[Ratio]:
    """`behind` the agent is one kubelet, `direct` another; annotations have the rest."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            kubelet_server() as upstream,
            kubelet_server() as rival,
            podresources_client() as client,
        ):
            await upstream.replace(behind)
            await rival.replace(direct)
            with (
                pods_port(*(_pod(number, annotated) for number in range(PODS))) as port,
                AgentProcess(Path(folder), *port.options, kubelet_socket=upstream.socket) as agent,
            ):
                return await _rows(what, client, agent, rival)


async def _rows(
    what: str, client: PodResourcesClient, agent: AgentProcess, rival: KubeletServer
) -> Sequence[Ratio]:
    taken: dict[Path, list[int]] = {agent.socket: [], rival.socket: []}
    for socket in taken:
        await _latencies(client, socket, WARM_UP_CALLS)
    for _ in range(ROUNDS):
        for socket, found in taken.items():
            found.extend(await _latencies(client, socket, CALLS))
    mine, theirs = (sorted(found) for found in taken.values())
    rows = [
        Ratio(
            f"List p{percent}, {what}"[:32],
            _percentile(mine, percent),
            "kubelet directly",
            _percentile(theirs, percent),
            "µs",
            "≤ 1.5",
        )
        for percent in (50, 99)
    ]
    memory = agent.memory()["VmRSS"] / 2**20
    return [*rows, Ratio("the agent's memory", memory, "60 MiB", 60, "MiB", "≤ 1")]


async def _latencies(client: PodResourcesClient, socket: Path, calls: int) -> list[int]:
    answers = await client.calls(socket, times=calls, pace_ms=PACE_MS, quiet=True, max=64 << 20)
    failed = {answer.error for answer in answers if answer.code != "OK"}
    assert not failed, failed
    return [answer.micros for answer in answers]


def _percentile(ordered: Sequence[int], percent: int) -> float:
    return float(ordered[len(ordered) * percent // 100])


def _contents(devices: int) -> Contents:
    pods = [
        Pod(
            f"pod-{n}",
            [
                Container(
                    "main",
                    [Device("vendor.com/nic", f"nic-{n}-{d}", [d % 2]) for d in range(devices)],
                )
            ],
        )
        for n in range(PODS)
    ]
    return Contents(pods=pods, unordered=True)


def _pod(number: int, devices: int) -> dict[str, object]:
    gpus = [
        {"minor": d, "id": f"GPU-{number}-{d}", "resources": {"koordinator.sh/gpu-core": "100"}}
        for d in range(devices)
    ]
    annotations = {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": gpus})}
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(devices)}
    environment = [{"name": f"NAME_{n}", "value": "v" * 30} for n in range(20)]
    container = {
        "name": "main",
        "image": "example.com/main",
        "env": environment,
        "resources": {"limits": limits, "requests": limits},
    }
    return {
        "metadata": {
            "namespace": "default",
            "name": f"pod-{number}",
            "uid": f"uid-{number}",
            "creationTimestamp": "2026-11-16T00:00:00Z",
            "annotations": annotations,
        },
        "spec": {"nodeName": "node-1", "containers": [container]},
        "status": {"phase": "Running"},
    }
