"""`bursar agent` with the permissions of its manifests, on kubelet's own servers.

The kind of Koordinator's inventory is cluster-wide, so these tests have a cluster of their own.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from support.builders.manifests import pod_manifest
from support.cluster.control_plane import started_control_plane, wait_for_account
from support.devices.agent import ANNOTATION, AgentProcess, annotated_pod, gpu_pod, pods_port
from support.devices.kubelet_http import KubeletHttp
from support.devices.kubelet_server import Pod, kubelet_server
from support.devices.node_with_agent import MANY, inventory
from support.install.printed import printed
from support.processes.kubectl import kubectl, try_kubectl
from support.until import until_blocking

HOME = "aaq"
NODE = "node-0"
GPU = "nvidia.com/gpu"
DEVICES_OF_NODE = [
    {
        "type": "gpu",
        "minor": minor,
        "id": f"GPU-{minor}",
        "health": True,
        "labels": {"node.koordinator.sh/gpu-vendor": "nvidia"},
        "topology": {"nodeID": minor, "socketID": 0, "pcieID": "0", "busID": "0000:00:0.0"},
    }
    for minor in range(2)
]


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with started_control_plane(nodes=1) as plane:
        kubectl(plane, "create", "namespace", HOME)
        yield plane


@dataclass
class Node:
    plane: ControlPlane
    kubelet: KubeletHttp
    folder: Path

    def options(self, *arguments: str) -> tuple[str, ...]:
        """As the manifests have them, for an agent that is known by its service account."""
        kubectl(self.plane, "apply", "-f", "-", stdin=printed("agent", *arguments))
        token = kubectl(self.plane, "create", "token", "bursar-agent", "-n", HOME)
        (self.folder / "token").write_text(token.strip())
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}")
        account = f"system:serviceaccount:{HOME}:bursar-agent"
        pair = self.plane.client(account, *groups, "system:authenticated")
        return (
            f"--node={NODE}",
            f"--kubeconfig={self.plane.write_kubeconfig('agent', pair)}",
            f"--kubelet-token-file={self.folder / 'token'}",
            f"--kubelet-address={self.kubelet.endpoint.host}",
            f"--kubelet-port={self.kubelet.endpoint.port}",
        )

    def apply(self, document: dict[str, Any]) -> None:
        kubectl(self.plane, "apply", "-f", "-", stdin=json.dumps(document))

    def events(self) -> dict[str, tuple[str, str]]:
        """Pod to reason and note."""
        listed = kubectl(self.plane, "get", "events.events.k8s.io", "-n", "default", "-o", "json")
        return {
            each["regarding"]["name"]: (each["reason"], each["note"])
            for each in json.loads(listed)["items"]
            if each["reportingController"] == "bursar-agent"
        }


@pytest.fixture
def node(control_plane, tmp_path):
    kubelet = KubeletHttp(control_plane, tmp_path, node=NODE)
    kubelet.program.start()
    kubelet.program.wait_ready()
    yield Node(control_plane, kubelet, tmp_path)
    kubelet.program.stop()


async def test_as_installed_it_reads_pods_and_inventory_and_tells_of_what_is_wrong(
    node, client, tmp_path
):
    stray = gpu_pod("stray", "GPU-9")
    greedy = annotated_pod("greedy", '{"gpu":[{"minor":0,"id":"GPU-0"}]}')
    node.kubelet.put([gpu_pod("trainer", "GPU-1"), stray, greedy])
    names = ("trainer", "stray", "greedy")
    async with kubelet_server(*(Pod(name) for name in names)) as kubelet:
        with (
            inventory(node.plane, NODE, *DEVICES_OF_NODE),
            AgentProcess(tmp_path, *node.options(), kubelet_socket=kubelet.socket) as agent,
        ):
            await until_blocking(
                lambda: "2 devices" in agent.health()["inventory"], "the inventory"
            )
            listed = await client.list(agent.socket)
            allocatable = await client.allocatable(agent.socket)
            await until_blocking(lambda: {"stray", "greedy"} <= set(node.events()), "events")
            ready = await asyncio.to_thread(agent.page, "/readyz")

    (trainer,) = [pod for pod in listed.pods if pod["name"] == "trainer"]
    (line,) = trainer["containers"][0]["devices"]
    assert (line["resource_name"], line["device_ids"]) == (GPU, ["GPU-1"])
    assert [int(each["ID"]) for each in line["topology"]["nodes"]] == [1]
    assert listed.devices["default/stray"] == listed.devices["default/greedy"] == {"main": {}}
    assert allocatable.allocatable == {GPU: ["GPU-0", "GPU-1"]}
    assert node.events()["stray"][0] == node.events()["greedy"][0] == "DeviceNotShown"
    assert "GPU-9" in node.events()["stray"][1]
    assert ready[0] == 200, ready[1]


async def test_as_installed_a_full_node_shows_all_its_devices(node, client, tmp_path):
    """250 pods with 10 devices each, an inventory of all of them, and TLS to both servers."""
    ids = [f"GPU-8c25ea37-2909-6e62-b7bf-{number:012x}" for number in range(2500)]
    devices = [
        {"type": "gpu", "minor": minor, "id": name, "health": True}
        for minor, name in enumerate(ids)
    ]
    node.kubelet.put([gpu_pod(f"p{at}", *ids[10 * at : 10 * at + 10]) for at in range(250)])
    pods = (Pod(f"p{at}") for at in range(250))
    async with kubelet_server(*pods, qps=MANY, burst=MANY) as kubelet:
        options = (*node.options(), "--rate=0")
        with (
            inventory(node.plane, NODE, *devices),
            AgentProcess(tmp_path, *options, kubelet_socket=kubelet.socket) as agent,
        ):
            await until_blocking(
                lambda: "2500 devices" in agent.health()["inventory"], "the inventory"
            )
            answers = await client.calls(agent.socket, times=20, quiet=True)
            listed = await client.list(agent.socket)

    assert {each.code for each in answers} == {"OK"}
    assert sum(len(each["main"][GPU]) for each in listed.devices.values()) == 2500


async def test_pods_can_come_from_a_watch_and_a_new_one_is_not_missed(node, client, tmp_path):
    metadata = {"annotations": {ANNOTATION: '{"gpu":[{"minor":0,"id":"GPU-0"}]}'}}
    pod = pod_manifest("watched", limits=f"{GPU}=1", node=NODE, container="main", metadata=metadata)
    wait_for_account(node.plane)
    async with kubelet_server() as kubelet:
        options = node.options("--pods-from=api")
        with AgentProcess(
            tmp_path, *options, "--pods-from=api", kubelet_socket=kubelet.socket
        ) as agent:
            await until_blocking(lambda: agent.page("/readyz")[0] == 200, "ready")
            node.apply(pod)
            await kubelet.show(Pod("watched"))
            listed = await client.list(agent.socket)
    kubectl(node.plane, "delete", "pod", "watched", "--grace-period=0", "--force")

    assert listed.devices["default/watched"] == {"main": {GPU: ["GPU-0"]}}


async def test_a_dead_api_server_is_no_reason_not_to_start(node, client, tmp_path):
    access = json.loads(
        kubectl(node.plane, "config", "view", "--raw", "--minify", "--flatten", "-o", "json")
    )
    access["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    nowhere = tmp_path / "nowhere.json"
    nowhere.write_text(json.dumps(access))
    async with kubelet_server(Pod("trainer")) as kubelet:
        with (
            pods_port(gpu_pod("trainer", "GPU-0")) as port,
            AgentProcess(
                tmp_path, *port.options, f"--kubeconfig={nowhere}", kubelet_socket=kubelet.socket
            ) as agent,
        ):
            listed = await client.list(agent.socket)
            parts = await asyncio.to_thread(agent.health)

    assert listed.devices["default/trainer"] == {"main": {GPU: ["GPU-0"]}}
    assert parts["inventory"] == "OK, none known"


async def test_without_the_right_to_ask_kubelet_it_says_what_is_missing(node, client, tmp_path):
    options = node.options()
    (tmp_path / "token").write_text(
        kubectl(node.plane, "create", "token", "default", "-n", HOME).strip()
    )
    async with kubelet_server(Pod("trainer")) as kubelet:
        with AgentProcess(tmp_path, *options, kubelet_socket=kubelet.socket) as agent:
            listed = await client.list(agent.socket)
            code, text = await asyncio.to_thread(agent.page, "/readyz")

    assert (listed.code, listed.devices["default/trainer"]) == ("OK", {"main": {}})
    assert code == 503
    assert "`nodes/pods`" in text


def test_the_daemon_set_lands_on_every_node(node):
    node.options()

    def desired() -> str:
        asked = ("-n", HOME, "-o", "jsonpath={.status.desiredNumberScheduled}")
        return try_kubectl(node.plane, "get", "daemonset", "bursar-agent", *asked).out

    asyncio.run(until_blocking(lambda: desired() not in {"", "0"}, "scheduled"))
    assert desired() == "1"
