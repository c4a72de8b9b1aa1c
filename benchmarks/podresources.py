"""List through the proxy, against kubelet's own server asked directly by the same client.

Server and client are upstream's Go code, the proxy is a process of its own, and the two are asked
turn and turn about on open connections, at a pace below kubelet's rate limit. Both answer with the
same number of devices: behind the proxy, half or all of them are in annotations. The node's pods
are decoded anew about every second, as in an agent that reads them from kubelet.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kubelet_server import Container, Contents, Device, KubeletServer, Pod, kubelet_server
from podresources_client import PodResourcesClient, podresources_client
from ratio import Ratio

PODS = 250
DEVICES = 10
ROUNDS = 12
CALLS = 80
PACE_MS = 12
"""Kubelet takes a hundred calls a second, whoever asks."""
WARM_UP_CALLS = 60

PROXY = """
import asyncio, gc, sys
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.node.kubelet_socket import KubeletSocket
from bursar.adapters.node.server import PodResourcesServer
from bursar.adapters.node.socket_file import SocketPlace, held
from bursar.adapters.pod_resources_codec import ProtobufCodec
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.freshness import NodePods
from bursar.app.devices.planning import HoldingPlanning
from bursar.app.devices.proxy import PodResourcesProxy
from bursar.app.devices.rate_limit import RateLimited, RateRules
from bursar.core.devices.source import KOORDINATOR
from bursar.wire.device_pod import DevicePodDecoder

class Body:
    def __init__(self, body):
        self.body = body
        self.decoder = DevicePodDecoder([KOORDINATOR])
    async def read(self):
        await asyncio.sleep(0.005)
        return self.decoder.decode_list(self.body)

class Nothing:
    def current(self):
        return None
    def tell(self, pod, problem):
        pass

async def main():
    upstream, ours, pods = sys.argv[1:]
    clock = SYSTEM_CLOCK
    with open(pods, "rb") as file:
        source = Body(file.read())
    async with KubeletSocket(upstream) as kubelet:
        proxy = PodResourcesProxy(
            kubelet=kubelet, codec=ProtobufCodec(), pods=NodePods(source, clock),
            inventory=Nothing(), planning=HoldingPlanning({KOORDINATOR.name: KOORDINATOR}),
            reporter=Nothing(), clock=clock,
        )
        limited = RateLimited(proxy, clock=clock, rules=RateRules())
        server = PodResourcesServer(limited, clock=clock, counts=CallCounts())
        place = SocketPlace(path=ours)
        with held(place):
            await server.start(place)
            gc.freeze()
            print("serving", flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


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
    """`behind` the proxy is one kubelet, `direct` another; annotations have the rest."""
    with tempfile.TemporaryDirectory() as folder:
        pods, ours = Path(folder, "pods.json"), Path(folder, "kubelet.sock")
        await asyncio.to_thread(pods.write_text, json.dumps(_pod_list(annotated)))
        async with (
            kubelet_server() as upstream,
            kubelet_server() as rival,
            podresources_client() as client,
        ):
            await upstream.replace(behind)
            await rival.replace(direct)
            proxy = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", PROXY, str(upstream.socket), str(ours), str(pods)),
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                assert proxy.stdout is not None
                await proxy.stdout.readline()
                return await _rows(what, client, ours, rival, proxy.pid)
            finally:
                proxy.terminate()
                await proxy.wait()


async def _rows(
    what: str, client: PodResourcesClient, ours: Path, rival: KubeletServer, pid: int
) -> Sequence[Ratio]:
    taken: dict[Path, list[int]] = {ours: [], rival.socket: []}
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
    return [*rows, Ratio("proxy's memory", _resident_mib(pid), "60 MB", 60 * 1e6 / 2**20, "MiB")]


async def _latencies(client: PodResourcesClient, socket: Path, calls: int) -> list[int]:
    answers = await client.calls(socket, times=calls, pace_ms=PACE_MS, quiet=True, max=64 << 20)
    failed = {answer.error for answer in answers if answer.code != "OK"}
    assert not failed, failed
    return [answer.micros for answer in answers]


def _percentile(ordered: Sequence[int], percent: int) -> float:
    return float(ordered[len(ordered) * percent // 100])


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


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


def _pod_list(devices: int) -> dict[str, object]:
    return {
        "kind": "PodList",
        "apiVersion": "v1",
        "items": [_pod(n, devices) for n in range(PODS)],
    }


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
