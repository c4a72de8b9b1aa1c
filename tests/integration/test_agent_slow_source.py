"""A source of pods that takes calls and never answers them, at a real `bursar agent`.

That is worse than one that refuses: whoever waits for it misses the deadline of its own clients.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.devices.agent import LOOPBACK, AgentProcess, Raw, gpu_pod
from support.devices.kubelet_server import Pod, kubelet_server
from support.devices.node_with_agent import GPU
from support.log_lines import messages
from support.until import until, until_blocking

pytestmark = pytest.mark.integration

DEADLINE_MS = 5000
FAILURES = "bursar_pod_source_failures_total"
HELD = {"main": {GPU: ["GPU-0"]}}
AGED = 'bursar_pod_resources_degraded_total{how="aged"}'
BARE = 'bursar_pod_resources_degraded_total{how="bare"}'
LATE = 'bursar_pod_resources_requests_total{version="v1",method="List",code="DEADLINE_EXCEEDED"}'


class HangingPort:
    """`/pods` over plain HTTP. While it hangs it reads what is asked and says nothing."""

    def __init__(self, *pods: Raw) -> None:
        listed = {"apiVersion": "v1", "kind": "PodList", "items": list(pods)}
        self._body = json.dumps(listed).encode()
        self._answers = asyncio.Event()
        self._answers.set()
        self.number = 0

    @property
    def options(self) -> tuple[str, ...]:
        return (
            "--pods-from=kubelet-read-only",
            f"--kubelet-address={LOOPBACK}",
            f"--kubelet-read-only-port={self.number}",
            # Longer than clients wait.
            "--kubelet-timeout=8s",
        )

    def hang(self) -> None:
        self._answers.clear()

    def answer(self) -> None:
        self._answers.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await self._answers.wait()
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(self._body)}\r\n"
                kind = "Content-Type: application/json\r\n\r\n"
                writer.write(f"{head}{kind}".encode() + self._body)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            # The agent has given up on it, or has ended.
            pass
        finally:
            writer.close()


@asynccontextmanager
async def hanging_port(*pods: Raw) -> AsyncIterator[HangingPort]:
    port = HangingPort(*pods)
    server = await asyncio.start_server(port.connected, LOOPBACK, 0)
    port.number = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        port.answer()
        server.close()
        await server.wait_closed()


async def test_pods_that_are_known_keep_their_devices_within_the_deadline_of_every_client(
    client, tmp_path
):
    async with (
        kubelet_server(Pod("trainer")) as kubelet,
        hanging_port(gpu_pod("trainer", "GPU-0")) as port,
    ):
        with AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent:
            answers = [await client.list(agent.socket)]
            port.hang()

            async def is_noticed() -> bool:
                answers.append(await client.list(agent.socket, timeout_ms=DEADLINE_MS))
                found = await asyncio.to_thread(agent.metrics)
                return found[FAILURES] >= 1 and found[AGED] >= 10

            await until(is_noticed, "a read has failed, and clients were answered meanwhile")
            found = await asyncio.to_thread(agent.metrics)
            parts = await asyncio.to_thread(agent.health)
            port.answer()
            await until_blocking(lambda: "no answer" not in agent.health()["pods"], "pods are read")
            recovered = await asyncio.to_thread(agent.metrics)
            log = agent.log()

    assert {each.code for each in answers} == {"OK"}
    assert all(each.devices == {"default/trainer": HELD} for each in answers)
    assert LATE not in found
    assert found[BARE] == 0
    assert found["bursar_pod_source_failing_seconds"] > 0
    assert "no answer" in parts["pods"]
    assert "cannot read the pods of this node" in messages(log)
    assert recovered["bursar_pod_source_failing_seconds"] == 0


async def test_whoever_knows_nothing_yet_answers_as_kubelet_does_within_the_deadline(
    client, tmp_path
):
    async with (
        kubelet_server(Pod("trainer")) as kubelet,
        hanging_port(gpu_pod("trainer", "GPU-0")) as port,
    ):
        port.hang()
        with AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent:
            bare = [
                await client.list(agent.socket, timeout_ms=DEADLINE_MS),
                await client.get(agent.socket, "default", "trainer", timeout_ms=DEADLINE_MS),
            ]
            allocatable = await client.allocatable(agent.socket, timeout_ms=DEADLINE_MS)
            found = await asyncio.to_thread(agent.metrics)
            agent.program.stop()
            log = agent.log()

    assert [(each.code, each.devices) for each in bare] == [
        ("OK", {"default/trainer": {"main": {}}})
    ] * 2
    assert allocatable.code == "OK"
    assert found[BARE] == 2
    assert "Traceback" not in log
