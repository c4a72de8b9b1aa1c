"""A whole kubelet, with static pods: what it tells on its socket and at `/pods`."""

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from support.devices.hollow_kubelet import PORT, READ_ONLY_PORT, HollowKubelet, hollow_kubelet
from support.devices.socket_clients import PodResourcesClient, podresources_client
from support.until import until

pytestmark = pytest.mark.integration

KEY = "scheduling.koordinator.sh/device-allocated"
ALLOCATED = '{"gpu":[{"minor":0,"id":"GPU-1"}]}'


def static_pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {KEY: ALLOCATED}},
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}], **spec},
    }


WITH_SIDECARS = static_pod(
    "trainer",
    initContainers=[
        {"name": "setup", "image": "example.com/setup"},
        {"name": "proxy", "image": "example.com/proxy", "restartPolicy": "Always"},
    ],
)


@pytest.fixture
def kubelet() -> Iterator[HollowKubelet]:
    with hollow_kubelet(trainer=WITH_SIDECARS) as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[PodResourcesClient]:
    async with podresources_client() as running:
        yield running


async def until_listed(client: PodResourcesClient, kubelet: HollowKubelet, pods: set[str]) -> None:
    async def is_listed() -> bool:
        return set((await client.list(kubelet.socket)).containers) == pods

    await until(is_listed, f"kubelet lists {pods}")


async def test_a_static_pod_is_named_after_its_node_and_its_sidecar_comes_first(kubelet, client):
    await until_listed(client, kubelet, {"default/trainer-hollow-0"})
    answer = await client.list(kubelet.socket)
    assert answer.containers == {"default/trainer-hollow-0": ["proxy", "main"]}
    got = await client.get(kubelet.socket, "default", "trainer-hollow-0")
    assert got.pods == answer.pods


@pytest.mark.parametrize("port", [PORT, READ_ONLY_PORT])
async def test_pods_tells_annotations_and_where_the_pod_came_from(kubelet, client, port):
    await until_listed(client, kubelet, {"default/trainer-hollow-0"})
    for path in ("/pods", "/pods/"):
        told = kubelet.pods(port, path)
        assert (told["kind"], told["apiVersion"]) == ("PodList", "v1")
        [pod] = told["items"]
        assert pod["metadata"]["annotations"][KEY] == ALLOCATED
        assert pod["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
        assert [one["name"] for one in pod["spec"]["initContainers"]] == ["setup", "proxy"]


async def test_a_node_without_pods_has_null_items():
    with hollow_kubelet() as kubelet:
        assert kubelet.pods()["items"] is None


async def test_get_of_a_missing_pod_is_the_error_of_the_plain_server(kubelet, client):
    answer = await client.get(kubelet.socket, "team", "ghost")
    assert (answer.code, answer.error) == ("UNKNOWN", "pod ghost in namespace team not found")


async def test_both_versions_answer_and_calls_are_throttled(kubelet, client):
    await until_listed(client, kubelet, {"default/trainer-hollow-0"})
    alpha = await client.list(kubelet.socket, version="v1alpha1")
    assert alpha.containers == {"default/trainer-hollow-0": ["main"]}
    answers = await client.calls(kubelet.socket, times=200)
    assert {one.code for one in answers} == {"OK", "RESOURCE_EXHAUSTED"}


async def test_pods_come_and_go_with_their_manifests(kubelet, client):
    kubelet.place("other", static_pod("other"))
    await until_listed(client, kubelet, {"default/trainer-hollow-0", "default/other-hollow-0"})
    kubelet.remove("trainer")
    await until_listed(client, kubelet, {"default/other-hollow-0"})


async def test_after_a_restart_the_same_path_tells_the_same_pods(kubelet, client):
    await until_listed(client, kubelet, {"default/trainer-hollow-0"})
    before = kubelet.pid
    kubelet.restart()
    assert kubelet.pid != before
    await until_listed(client, kubelet, {"default/trainer-hollow-0"})


async def test_a_killed_one_refuses_on_its_path_until_it_is_back(kubelet, client):
    kubelet.kill()
    answer = await client.list(kubelet.socket)
    assert (answer.code, kubelet.socket.is_socket()) == ("UNAVAILABLE", True)
    kubelet.restart()
    assert (await client.list(kubelet.socket)).code == "OK"


async def test_its_ports_are_on_loopback_for_programs_started_inside(kubelet):
    code = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{PORT}/healthz').status)"
    command = kubelet.command_inside(sys.executable, "-c", code)
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
    assert told.stdout == b"200\n"


async def test_a_forwarded_port_leads_there_from_outside_even_after_a_restart(kubelet):
    async with kubelet.forwarded() as port:
        assert (await asyncio.to_thread(kind_at, port)) == "PodList"
        kubelet.restart()
        assert (await asyncio.to_thread(kind_at, port)) == "PodList"


def kind_at(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/pods")
        kind: str = json.loads(connection.getresponse().read())["kind"]
        return kind
    finally:
        connection.close()
