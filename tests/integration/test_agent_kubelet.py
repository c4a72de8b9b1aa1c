"""`bursar agent` beside a whole kubelet: static pods, its own `/pods`, its restarts."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from support.builders.manifests import pod_manifest
from support.devices.agent import ANNOTATION, AgentProcess
from support.devices.hollow_kubelet import HollowKubelet, hollow_kubelet
from support.devices.node_with_agent import GPU, RDMA, functions, gpus
from support.devices.socket_clients import Answer, PodResourcesClient, podresources_client
from support.until import until, until_blocking

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

VF, OTHER_VF = "0000:01:00.2", "0000:01:00.3"
TRAINER, PLAIN = "default/trainer-hollow-0", "default/plain-hollow-0"
CALLS_MIN = 20


def static_pod(name: str, annotation: str | None, **spec: Any) -> dict[str, Any]:
    amounts = "" if annotation is None else f"{GPU}=1 {RDMA}=100"
    metadata = {"annotations": {} if annotation is None else {ANNOTATION: annotation}}
    fields = {"container": "main", "metadata": metadata, "terminationGracePeriodSeconds": 0}
    return pod_manifest(name, requests=amounts, limits=amounts, **fields, **spec)


def trainer(address: str) -> dict[str, Any]:
    sidecar = {"name": "proxy", "image": "i", "restartPolicy": "Always"}
    annotation = json.dumps({**gpus("GPU-1"), **functions(address)})
    return static_pod("trainer", annotation, initContainers=[sidecar])


def held_with(address: str) -> dict[str, dict[str, list[str]]]:
    return {"proxy": {}, "main": {GPU: ["GPU-1"], RDMA: [address]}}


@dataclass(frozen=True)
class Beside:
    kubelet: HollowKubelet
    agent: AgentProcess
    client: PodResourcesClient

    async def until_listed(self, *pods: str) -> Answer:
        async def listed() -> Answer | None:
            answer = await self.client.list(self.agent.socket)
            return answer if answer.code == "OK" and set(answer.devices) == set(pods) else None

        return await until(listed, f"{pods} are listed")


@pytest.fixture(scope="module")
def kubelet() -> Iterator[HollowKubelet]:
    with hollow_kubelet() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beside(kubelet, tmp_path_factory):
    async with podresources_client() as client, kubelet.forwarded() as port:
        options = ("--pods-from=kubelet-read-only", f"--kubelet-read-only-port={port}", "--rate=0")
        folder = tmp_path_factory.mktemp("agent")
        with AgentProcess(folder, *options, kubelet_socket=kubelet.socket) as agent:
            yield Beside(kubelet, agent, client)


async def test_static_pods_have_their_devices_in_the_container_that_asks(beside):
    beside.kubelet.place("trainer", trainer(VF))
    beside.kubelet.place("plain", static_pod("plain", None))
    listed = await beside.until_listed(TRAINER, PLAIN)
    one = await beside.client.get(beside.agent.socket, *TRAINER.split("/"))
    told = await beside.client.multus(beside.agent.socket, *TRAINER.split("/"), networks=[RDMA])

    assert listed.devices == {TRAINER: held_with(VF), PLAIN: {"main": {}}}
    assert list(listed.devices[TRAINER]) == ["proxy", "main"]
    assert one.devices == {TRAINER: held_with(VF)}
    assert told.networks == [VF]


async def test_while_kubelet_restarts_nobody_gets_a_wrong_answer(beside):
    """Either kubelet's socket refuses, or what is listed is right."""
    beside.kubelet.place("trainer", trainer(VF))
    await beside.until_listed(TRAINER, PLAIN)
    restarting = asyncio.create_task(asyncio.to_thread(beside.kubelet.kill))
    answers: list[Answer] = []
    pid = beside.agent.program.pid

    async def ask(times: int) -> None:
        for _ in range(times):
            answers.append(await beside.client.list(beside.agent.socket))
            await asyncio.sleep(0.01)

    await ask(CALLS_MIN)
    await restarting
    await ask(1)
    beside.kubelet.restart()  # which has to be done by this thread: kubelet ends with its parent
    await ask(CALLS_MIN)
    answers.append(await beside.until_listed(TRAINER, PLAIN))

    assert {each.code for each in answers} == {"OK", "UNAVAILABLE"}
    right = {TRAINER: held_with(VF), PLAIN: {"main": {}}}
    for answer in answers:
        assert all(devices == right[pod] for pod, devices in answer.devices.items())
    assert beside.agent.program.pid == pid
    await until_blocking(lambda: beside.agent.page("/readyz")[0] == 200, "ready again")


async def test_a_manifest_that_changes_brings_the_new_device(beside):
    """The pod keeps its name and gets another UID."""
    beside.kubelet.place("trainer", trainer(VF))
    await beside.until_listed(TRAINER, PLAIN)
    beside.kubelet.place("trainer", trainer(OTHER_VF))
    seen: list[dict[str, dict[str, list[str]]]] = []

    async def is_new() -> bool:
        answer = await beside.client.list(beside.agent.socket)
        seen.extend([answer.devices[TRAINER]] if TRAINER in answer.devices else [])
        return seen[-1:] == [held_with(OTHER_VF)]

    await until(is_new, "the new device")

    # Once it is there, the old one does not come back.
    order = [VF if each == held_with(VF) else OTHER_VF for each in seen]
    assert all(each in (held_with(VF), held_with(OTHER_VF)) for each in seen)
    assert order == sorted(order)
