"""Many clients call a real `bursar agent` at once: all are answered with few calls to kubelet."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from support.devices.kubelet_server import Allocatable, Device
from support.devices.node_with_agent import (
    GPU,
    RDMA,
    Node,
    Tenant,
    functions,
    gpus,
    node_with_agent,
)
from support.devices.socket_clients import Answer, podresources_client

pytestmark = pytest.mark.integration

CLIENTS = 50
CALLS = 10
ONE = Tenant("one", {**gpus("GPU-0"), **functions("0000:01:00.2")})
NIC = Allocatable(devices=[Device("example.com/nic", "nic-0")])
HELD = {"main": {GPU: ["GPU-0"], RDMA: ["0000:01:00.2"]}}


async def cost(node: Node) -> tuple[int, float]:
    """How often kubelet was asked to list, and how often for its pods."""
    return await node.kubelet.lists_served(), await node.metric("bursar_pod_source_reads_total")


async def test_fifty_clients_are_all_answered_behind_kubelets_own_limit(client, tmp_path):
    """Kubelet itself refuses some of them."""
    async with node_with_agent(tmp_path, "--rate=0", client=client, usual_limits=True) as node:
        await node.has(ONE, delay_ms=100)
        await client.list(node.socket)
        before, read_before = await cost(node)
        answers = await client.calls(node.socket, parallel=CLIENTS, times=CALLS)
        after, read_after = await cost(node)
        directly = await client.calls(node.kubelet.socket, parallel=CLIENTS, times=4, quiet=True)

    assert {each.code for each in answers} == {"OK"}
    assert all(each.devices == {"default/one": HELD} for each in answers)
    # Of those who ask anew, one begins the next call to kubelet and the others share the one after.
    # That is two for each of a client's calls, and more on a busy machine, where some start late.
    assert after - before <= len(answers) // 10
    # And pods are read no more often than that, however many ask.
    assert read_after - read_before <= after - before
    assert "RESOURCE_EXHAUSTED" in {each.code for each in directly}


async def test_all_methods_and_versions_at_once_do_not_get_in_each_others_way(tmp_path):
    asked = [
        ("List", {}),
        ("List", {"version": "v1alpha1"}),
        ("Get", {"namespace": "default", "name": "one"}),
        ("Get", {"namespace": "default", "name": "nobody"}),
        ("GetAllocatableResources", {}),
    ]
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(node_with_agent(tmp_path))
        clients = [
            await stack.enter_async_context(podresources_client()) for _ in range(len(asked))
        ]
        await node.has(ONE, allocatable=NIC)
        many = {"parallel": CLIENTS // len(asked), "times": 40}
        told = await asyncio.gather(
            *(
                each.calls(node.socket, method, **options, **many)
                for each, (method, options) in zip(clients, asked, strict=True)
            )
        )
        under_way = await node.metric("bursar_pod_resources_requests_under_way")

    assert [{each.code for each in answers} for answers in told] == [
        {"OK"},
        {"OK"},
        {"OK"},
        {"UNKNOWN"},
        {"OK"},
    ]
    for answers in told[:3]:
        assert all(each.devices == {"default/one": HELD} for each in answers)
    assert all(each.allocatable == {"example.com/nic": ["nic-0"]} for each in told[4])
    assert under_way == 0


async def test_a_full_node_is_told_to_many_while_pods_come_and_go(client, tmp_path):
    """250 pods with 10 devices each, pods that come and go, and fifty clients."""
    async with node_with_agent(tmp_path, client=client) as node:
        answers: list[Answer] = []
        for generation in range(4):
            tenants = [full(f"p-{generation}-{number}", number) for number in range(250)]
            await node.has(*tenants)
            answers += await client.calls(
                node.socket, parallel=CLIENTS, times=4, reconnect=True, quiet=True
            )
            listed = await client.list(node.socket)
            assert all(len(each["main"][GPU]) == 10 for each in listed.devices.values())
            assert len(listed.devices) == 250

    assert {each.code for each in answers} == {"OK"}


def full(name: str, number: int) -> Tenant:
    return Tenant(name, gpus(*(f"GPU-{number:08x}-{device}" for device in range(10))))
