"""The agent's DaemonSet on a real node, beside a real kubelet with a device plugin."""

import asyncio
import json

import pytest

from bursar.app.devices.defaults import SOCKET, SOCKET_FOLDER
from support.cluster.real_node import real_pods
from support.devices.device_plugin import device_plugin
from support.install.installed_bursar import HOME, InstalledBursar
from support.until import until, until_sync

RESOURCE = "bursar.example/toy"
DEVICES = ("toy-0", "toy-1", "toy-2")


@pytest.fixture(scope="module")
def installed(real_node, image):  # noqa: ARG001 - the node must have the image
    found = InstalledBursar(real_node, ("rbac", "agent"))
    found.apply()
    try:
        until_sync(lambda: agent_is_ready(found), found.pods)
        yield found
    finally:
        found.try_kubectl("delete", "--ignore-not-found", "-f", "-", stdin=found.text)


def agent_is_ready(installed: InstalledBursar) -> bool:
    found = installed.kubectl("get", "daemonset", "-n", HOME, "bursar-agent", "-o", "json")
    status = json.loads(found)["status"]
    return bool(status.get("numberReady") == status["desiredNumberScheduled"] == 1)


async def test_the_agent_lists_the_device_that_kubelet_gave_to_a_pod(installed, client):
    node = installed.node
    socket = node.root / SOCKET_FOLDER.removeprefix("/var/") / SOCKET
    with (
        real_pods(node) as pods,
        device_plugin(node.kubelet_folder / "device-plugins", RESOURCE, DEVICES),
    ):

        def is_offered() -> bool:
            body = json.loads(installed.kubectl("get", "node", node.name, "-o", "json"))
            return bool(body["status"]["allocatable"].get(RESOURCE) == str(len(DEVICES)))

        await asyncio.to_thread(until_sync, is_offered, "kubelet offers the devices")
        pods.create(
            "player",
            "echo devices: $DEVICES; sleep 1000000 & wait",
            container_fields={"resources": {"limits": {RESOURCE: "2"}}},
        )
        await asyncio.to_thread(pods.until_ready, "player")
        said = installed.kubectl("logs", "-n", pods.namespace, "player")
        given = sorted(said.removeprefix("devices: ").strip().split(","))
        assert len(given) == 2
        assert set(given) < set(DEVICES)

        async def is_listed() -> bool:
            answer = await client.list(socket)
            assert answer.code == "OK", answer.error
            found = answer.devices[f"{pods.namespace}/player"]
            return {name: sorted(ids) for name, ids in found["c"].items()} == {RESOURCE: given}

        await until(is_listed, "the agent lists the devices of the pod")
        allocatable = await client.allocatable(socket)
        assert sorted(allocatable.allocatable[RESOURCE]) == sorted(DEVICES)
