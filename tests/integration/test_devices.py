"""`bursar devices` on a real cluster, and on kubelet's own PodResources server."""

import asyncio
import http.client
import json
import uuid
from collections.abc import Iterator

import pytest

from controlplane import ControlPlane
from support.builders.koordinator_device import DEFINITION
from support.builders.manifests import pod_manifest
from support.devices.agent import AgentProcess, gpu_pod, pods_port
from support.devices.kubelet_server import (
    Claim,
    ClaimDevice,
    Container,
    Device,
    Pod,
    kubelet_server,
)
from support.processes.command_line import Ran, run_bursar
from support.processes.kubectl import kubectl, try_kubectl

pytestmark = pytest.mark.integration

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
GROUP = "scheduling.koordinator.sh"


class Town:
    """A namespace, and a node of our own with an inventory."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.mark = uuid.uuid4().hex[:8]
        self.namespace, self.node = f"devices-{self.mark}", f"gpu-node-{self.mark}"
        self.made: list[str] = []

    def apply(self, *objects: dict) -> None:
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        kubectl(self.plane, "apply", "-f", "-", stdin=body)

    def build(self) -> None:
        kubectl(self.plane, "create", "namespace", self.namespace)
        # Pods need it, and the controller that makes it takes seconds after it was started.
        try_kubectl(self.plane, "-n", self.namespace, "create", "serviceaccount", "default")
        self.plane.add_node(self.node)
        cards = [
            {
                "type": "gpu",
                "id": f"GPU-{n}",
                "minor": n,
                "health": n != 2,
                "topology": {"nodeID": 1},
            }
            for n in range(4)
        ]
        self.apply(
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "Device",
                "metadata": {"name": self.node},
                "spec": {"devices": cards},
            }
        )

    def add_pod(self, name: str, annotation: str = "", **spec: object) -> None:
        self.apply(
            pod_manifest(
                f"{self.namespace}/{name}",
                limits="nvidia.com/gpu=2",
                node=self.node,
                container="main",
                metadata={"annotations": {ALLOCATED: annotation} if annotation else {}},
                **{"terminationGracePeriodSeconds": 0, **spec},
            )
        )

    def run(self, *words: str, kubeconfig: str = "") -> Ran:
        return run_bursar(
            "devices", *words, "--kubeconfig", kubeconfig or str(self.plane.kubeconfig)
        )

    def found(self, *words: str) -> list[tuple[str, str, list[str], list[str]]]:
        """Pod, device, sources and disagreements."""
        ran = self.run(*words, "-o", "json")
        assert ran.code == 0, ran.err
        return [
            (each["pod"], each["device"], each["sources"], each["disagreements"])
            for each in json.loads(ran.out)
        ]

    def remove(self) -> None:
        kubectl(self.plane, "delete", "namespace", self.namespace, "--wait=false")
        kubectl(self.plane, "delete", "node", self.node)
        try_kubectl(self.plane, "delete", f"devices.{GROUP}", self.node)


def a_gpu(*numbers: int) -> str:
    return json.dumps({"gpu": [{"minor": n, "id": f"GPU-{n}"} for n in numbers]})


@pytest.fixture
def town(control_plane: ControlPlane) -> Iterator[Town]:
    """The definition stays: others may have asked for it, too."""
    built = Town(control_plane)
    built.apply(DEFINITION)
    kubectl(
        control_plane,
        "wait",
        "--for=condition=Established",
        "--timeout=120s",
        f"crd/devices.{GROUP}",
    )
    built.build()
    yield built
    built.remove()


def test_devices_of_a_node_come_from_annotations_and_inventory(town):
    town.add_pod("one", a_gpu(0, 2))
    town.add_pod("two", a_gpu(0))
    town.add_pod("elsewhere", a_gpu(7))
    ran = town.run("--node", town.node)

    found = town.found("--node", town.node)
    place = town.namespace
    assert found == [
        ("elsewhere", None, ["koordinator"], ["gpu: 'GPU-7' is not a device of this node"]),
        ("one", "GPU-0", ["koordinator"], [f"also held by {place}/two (100 %)"]),
        ("one", "GPU-2", ["koordinator"], ["not healthy"]),
        ("two", "GPU-0", ["koordinator"], [f"also held by {place}/one (100 %)"]),
    ]
    assert ran.err == ""
    assert len(ran.out.splitlines()) == 5
    assert town.run("--node", town.node, "--check").code == 1
    free = json.loads(town.run("--node", town.node, "--free", "-o", "json").out)
    assert [each["device"] for each in free] == ["GPU-1", "GPU-3"]


def test_namespace_is_that_of_the_context_unless_told(town, tmp_path):
    town.add_pod("one", a_gpu(0))
    before = town.plane.kubeconfig.read_text()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(before)
    current = town.run("-o", "json", kubeconfig=str(kubeconfig))
    arguments = ("config", "set-context", "--current", f"--namespace={town.namespace}")
    kubectl(town.plane, "--kubeconfig", str(kubeconfig), *arguments)
    own = town.run("-o", "json", kubeconfig=str(kubeconfig))

    assert town.namespace not in current.out
    assert [each["pod"] for each in json.loads(own.out)] == ["one"]
    assert town.found("-n", town.namespace) == [("one", "GPU-0", ["koordinator"], [])]
    assert town.namespace in town.run("-A", "-o", "json").out


def test_claims_are_shown_where_their_pods_run(town):
    path = f"/apis/resource.k8s.io/v1/namespaces/{town.namespace}/resourceclaims"
    request = {"name": "codec", "exactly": {"deviceClassName": "codecs.example.com"}}
    town.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "codec", "namespace": town.namespace},
            "spec": {"devices": {"requests": [request]}},
        }
    )
    town.add_pod("encoder", resourceClaims=[{"name": "codec", "resourceClaimName": "codec"}])
    pod = f"/api/v1/namespaces/{town.namespace}/pods/encoder"
    uid = json.loads(town.plane.request("GET", pod)[1])["metadata"]["uid"]
    body = json.loads(town.plane.request("GET", f"{path}/codec")[1])
    result = {
        "request": "codec",
        "driver": "codecs.example.com",
        "pool": town.node,
        "device": "codec-0",
    }
    body["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "encoder", "uid": uid}],
    }
    code, answer = town.plane.request("PUT", f"{path}/codec/status", body)

    assert code == http.client.OK, answer
    assert town.found("-n", town.namespace) == [("encoder", f"{town.node}/codec-0", ["dra"], [])]


def test_whoever_may_see_one_namespace_is_served_and_told_what_is_missing(town):
    town.add_pod("one", a_gpu(0))
    user = f"watcher-{town.mark}"
    verbs = ("--verb=list", "--resource=pods")
    kubectl(town.plane, "-n", town.namespace, "create", "role", "watch", *verbs)
    who = ("--role=watch", f"--user={user}")
    kubectl(town.plane, "-n", town.namespace, "create", "rolebinding", "watch", *who)
    kubeconfig = town.plane.write_kubeconfig(user, town.plane.client(user))
    ran = town.run("-n", town.namespace, "-o", "json", kubeconfig=str(kubeconfig))
    all_of_it = town.run("-A", kubeconfig=str(kubeconfig))

    assert [each["device"] for each in json.loads(ran.out)] == ["GPU-0"]
    first, second, third = ran.err.splitlines()
    assert first == (
        "bursar: pods of other namespaces may not be listed; conflicts with them are not found"
    )
    assert second.startswith(f"bursar: left out: devices.{GROUP}: ")
    assert third.startswith("bursar: left out: resourceclaims.resource.k8s.io: ")
    assert all_of_it.code == 2
    assert all_of_it.err.startswith(f"bursar: {town.plane.url} (context ")


# ------------------------------------------------------------------ kubelet's socket


async def test_kubelets_socket_is_asked_without_any_cluster(tmp_path):
    gpu = Device("nvidia.com/gpu", "GPU-0", numa=(1,))
    claim = Claim("mine", [ClaimDevice("codecs.example.com", "n1", "codec-0")])
    pod = Pod("one", [Container("side"), Container("main", [gpu], cpus=(3,), claims=[claim])])
    async with kubelet_server(pod) as kubelet:
        words = ("devices", "--socket", str(kubelet.socket))
        ran = await _running(*words, "-o", "json")
        kept = await _running(*words, "-o", "pod-resources")

    assert (ran.code, ran.err) == (0, "")
    claimed, plain = json.loads(ran.out)
    keys = ("pod", "container", "device", "numa", "sources")
    assert [plain[key] for key in keys] == ["one", "main", "GPU-0", 1, ["kubelet"]]
    assert [claimed[key] for key in keys] == ["one", "main", "n1/codec-0", None, ["dra"]]
    (told,) = json.loads(kept.out)["podResources"]
    assert told["containers"][1]["dynamicResources"][0]["claimName"] == "mine"
    dump = tmp_path / "kept.json"
    dump.write_text(kept.out)
    again = run_bursar("devices", "--pod-resources", str(dump), "-o", "json")
    assert again.out == ran.out


async def test_socket_of_a_node_is_compared_with_what_the_cluster_says(town):
    town.add_pod("one", a_gpu(0))
    town.add_pod("two", a_gpu(1))
    reported = [
        Pod("one", [Container("main", [Device("nvidia.com/gpu", "GPU-0")])], town.namespace),
        Pod("two", [Container("main", [Device("nvidia.com/gpu", "GPU-3")])], town.namespace),
    ]
    kubeconfig = ("--kubeconfig", str(town.plane.kubeconfig), "-o", "json")
    async with kubelet_server(*reported) as kubelet:
        words = ("devices", "--socket", str(kubelet.socket), *kubeconfig)
        named = await _running(*words, "--node", town.node)
        inferred = await _running(*words, "-n", town.namespace)

    lines = json.loads(named.out)
    assert [(each["pod"], each["device"], each["sources"]) for each in lines] == [
        ("one", "GPU-0", ["kubelet", "koordinator"]),
        ("two", "GPU-1", ["koordinator"]),
        ("two", "GPU-3", ["kubelet"]),
    ]
    assert [each["disagreements"] for each in lines] == [
        [],
        ["kubelet says 'GPU-3'"],
        ["koordinator says 'GPU-1'"],
    ]
    assert inferred.out == named.out


async def test_agents_socket_tells_what_kubelets_does_not(tmp_path):
    pod = Pod("a", [Container("main")])
    async with kubelet_server(pod) as kubelet:
        with (
            pods_port(gpu_pod("a", "GPU-1")) as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            own = await _running("devices", "--socket", str(kubelet.socket), "-o", "json")
            filled = await _running("devices", "--socket", str(agent.socket), "-o", "json")

    assert json.loads(own.out) == []
    assert [(each["pod"], each["device"]) for each in json.loads(filled.out)] == [("a", "GPU-1")]


async def _running(*words: str) -> Ran:
    """The command, while servers of this process go on."""
    return await asyncio.to_thread(run_bursar, *words)
