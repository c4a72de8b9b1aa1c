"""The node with real containers: what runs on it, and what its kernel says about it."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from assets import ASSETS, ensure
from support.cluster.real_node import RealPods
from support.nodes.container_checks import (
    EVICTED,
    SHAPES,
    SLEEP,
    check_eviction,
    check_oom_kill,
    check_resize,
    check_service,
    check_values,
    checked_pods,
)
from support.processes.kubectl import kubectl
from support.until import until_sync


@pytest.fixture(scope="module")
def checked(real_node) -> Iterator[RealPods]:
    with checked_pods(real_node) as pods:
        yield pods


def test_the_node_is_ready_with_kubelet_and_containerd_as_pinned(real_node):
    _, answer = real_node.plane.request("GET", f"/api/v1/nodes/{real_node.name}")
    status = json.loads(answer)["status"]

    assert ("Ready", "True") in [(c["type"], c["status"]) for c in status["conditions"]]
    assert status["nodeInfo"]["kubeletVersion"] == ASSETS["kubelet"].version
    assert status["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_a_pod_is_a_real_container_with_logs_and_exec(pods):
    pods.create("web", f"echo The shell runs; {SLEEP}")
    pods.until_ready("web")
    where = ("-n", pods.namespace)

    assert kubectl(pods.plane, *where, "logs", "web") == "The shell runs\n"
    inside = kubectl(pods.plane, *where, "exec", "web", "--", "cat", "/proc/1/cmdline")
    assert "echo The shell runs" in inside


@pytest.mark.parametrize("name", SHAPES)
def test_the_kernel_has_the_cgroup_values_that_bursar_describes(checked, name):
    check_values(checked, name)


def test_the_kernel_has_the_described_values_after_a_resize_in_place(checked):
    check_resize(checked)


def test_a_container_above_its_memory_limit_is_killed(checked):
    check_oom_kill(checked)


@pytest.mark.parametrize("name", EVICTED)
def test_a_pod_above_a_limit_of_local_storage_is_evicted(checked, name):
    check_eviction(checked, name)


def test_this_machine_reaches_pods_and_services(checked):
    check_service(checked)


def test_a_pod_reaches_the_api_server_through_its_service(pods):
    """With kubectl, which finds the Service, its certificate and a token as all clients do."""
    program = {"path": str(ensure("kubectl")), "type": "File"}
    pods.create(
        "client",
        f"until /kubectl get --raw /version; do sleep 1; done; {SLEEP}",
        volumes=[{"name": "kubectl", "hostPath": program}],
        container_fields={"volumeMounts": [{"name": "kubectl", "mountPath": "/kubectl"}]},
    )
    pods.until_ready("client")
    version = ASSETS["kube-apiserver"].version

    until_sync(
        lambda: version in kubectl(pods.plane, "-n", pods.namespace, "logs", "client"),
        lambda: kubectl(pods.plane, "-n", pods.namespace, "logs", "client"),
    )


async def test_kubelets_sockets_are_reached_from_outside_and_from_pods(pods, client):
    volume = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet", "type": "Directory"}}
    mounts = [{"name": "kubelet", "mountPath": "/var/lib/kubelet"}]
    check = "cd /var/lib/kubelet && test -S pod-resources/kubelet.sock -a -d device-plugins"
    pods.create(
        "agent",
        f"{check} || exit 1; {SLEEP}",
        volumes=[volume],
        container_fields={"volumeMounts": mounts},
    )

    await asyncio.to_thread(pods.until_ready, "agent")
    assert (pods.node.kubelet_folder / "device-plugins" / "kubelet.sock").is_socket()
    answer = await client.list(pods.node.kubelet_folder / "pod-resources" / "kubelet.sock")
    assert answer.containers[f"{pods.namespace}/agent"] == ["c"]
