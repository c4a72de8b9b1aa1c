"""The node with real containers: what runs on it, and what its kernel says about it."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assets import ASSETS, ensure
from real_node.cgroups import is_v1
from support.builders.manifests import Raw, a_manifest
from support.cluster.real_node import RealPods, real_pods
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl
from support.until import until_sync

SLEEP = "sleep 1000000 & wait"
CPU_FILES = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
"""Files of the `cpu` hierarchy of cgroup v1. Others are in the hierarchy of their first word."""
GUARANTEED = "cpu=150m memory=24Mi"
OOM_KILLED = 137


@pytest.fixture
def pods(real_node) -> Iterator[RealPods]:
    with real_pods(real_node) as pods:
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


@pytest.mark.parametrize(
    ("qos", "requests", "limits"),
    [
        ("Guaranteed", GUARANTEED, GUARANTEED),
        ("Burstable", "cpu=120m memory=16Mi", "cpu=350m memory=48Mi"),
        ("Burstable", "cpu=70m", ""),
        ("BestEffort", "", ""),
    ],
)
def test_the_kernel_has_the_cgroup_values_that_bursar_describes(pods, qos, requests, limits):
    pods.create("web", SLEEP, requests=requests, limits=limits)
    pod = pods.until_ready("web")
    described = describe(pod)
    [container] = described["containers"]
    [status] = pod["status"]["containerStatuses"]
    pod_path = described["cgroup"]["paths"]["cgroupfs"].lstrip("/")
    container_path = f"{pod_path}/{status['containerID'].removeprefix('containerd://')}"

    assert pod["status"]["qosClass"] == described["qosClass"] == qos
    for path, expected in (
        (pod_path, described["cgroup"]),
        (container_path, container["cgroup"]),
    ):
        values = expected["v1" if is_v1() else "v2"]
        found = {name: kernel_value(pods, path, name) for name in values}
        # A machine may have no huge pages and not count swap.
        known = {name: value for name, value in found.items() if value is not None}
        wanted = {name: values[name] or untouched_value(pods, name) for name in known}
        assert known == wanted
        assert {"cpu.shares", "memory.limit_in_bytes"} <= set(known) or not is_v1()
        assert {"cpu.weight", "cpu.max", "memory.max"} <= set(known) or is_v1()


def test_a_container_above_its_memory_limit_is_killed(pods):
    # It is restarted: containerd may hear of the end before it hears of the kill.
    pods.create("greedy", "tail /dev/zero", limits="memory=16Mi", restartPolicy="OnFailure")

    until_sync(
        lambda: ("OOMKilled", OOM_KILLED) in terminations(pods.read("greedy")),
        lambda: f"the container was killed: {pods.read('greedy')['status']}",
    )


def test_pods_above_their_limits_of_local_storage_are_evicted(pods):
    """Both in one test, since kubelet looks for them only now and then."""
    fill = f"dd if=/dev/zero of=/scratch/file bs=1M count=8; {SLEEP}"
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    pods.create("volume", fill, volumes=[volume], container_fields={"volumeMounts": mounts})
    pods.create("layer", f"mkdir /scratch; {fill}", limits="ephemeral-storage=2Mi")

    volume_status = pods.until_failed("volume")["status"]
    layer_status = pods.until_failed("layer")["status"]
    assert {volume_status["reason"], layer_status["reason"]} == {"Evicted"}
    assert 'Usage of EmptyDir volume "scratch" exceeds' in volume_status["message"]
    assert "ephemeral local storage usage exceeds" in layer_status["message"]


def test_this_machine_reaches_pods_and_services(pods):
    serve = "echo I am here > /tmp/index.html; httpd -f -p 8080 -h /tmp & wait"
    pods.create("web", serve, metadata={"labels": {"app": "web"}})
    pod = pods.until_ready("web")
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    service = pods.write("services", a_manifest("v1", "Service", "web", spec=spec))

    assert until_sync(lambda: page(pod["status"]["podIP"], 8080)) == b"I am here\n"
    assert until_sync(lambda: page(service["spec"]["clusterIP"], 80)) == b"I am here\n"


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


def terminations(pod: Raw) -> list[tuple[str, int]]:
    """Reasons and exit codes of the ends that the status of the pod's containers tells of."""
    return [
        (state["terminated"]["reason"], state["terminated"]["exitCode"])
        for status in pod["status"].get("containerStatuses", [])
        for state in (status["state"], status.get("lastState", {}))
        if "terminated" in state
    ]


def describe(pod: Raw) -> Raw:
    ran = run_bursar("describe", "pod", "-f", "-", "-o", "json", stdin=json.dumps(pod).encode())
    assert ran.code == 0, ran.err
    [described] = json.loads(ran.out)
    assert isinstance(described, dict)
    return described


def kernel_value(pods: RealPods, path: str, name: str) -> str | None:
    """The content of a cgroup file of the node's; None if this machine has no such file."""
    file = cgroup_file(pods, path, name)
    return file.read_text().strip() if file.exists() else None


def untouched_value(pods: RealPods, name: str) -> str:
    """What the file says in a cgroup that neither kubelet nor the runtime wrote to."""
    return cgroup_file(pods, "", name).read_text().strip()


def cgroup_file(pods: RealPods, path: str, name: str) -> Path:
    controller = "cpu" if name in CPU_FILES else name.partition(".")[0]
    return pods.node.cgroup.folder(controller) / path / name


def page(address: str, port: int) -> Any:
    """What a server answers, or None while there is none."""
    with closing(http.client.HTTPConnection(address, port, timeout=10)) as connection:
        try:
            connection.request("GET", "/")
            return connection.getresponse().read()
        except OSError:
            return None
