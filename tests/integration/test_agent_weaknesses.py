"""The weaknesses of Koordinator's proxy, checked at a real `bursar agent`.

The node has an inventory, as Koordinator keeps it at the API server, and kubelet's own servers.
Numbers are those of `pod-resources-weaknesses.md`.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
import pytest_asyncio

from certificates import Authority
from controlplane import ControlPlane
from support.devices.agent import AgentProcess
from support.devices.kubelet_http import KubeletHttp
from support.devices.kubelet_server import Container, Contents, Device, Pod, kubelet_server
from support.devices.node_with_agent import (
    FPGA,
    GPU,
    RDMA,
    Node,
    Tenant,
    functions,
    gpus,
    inventory,
    node_with_agent,
    ports,
    secure_port,
    shared_gpu,
)
from support.devices.socket_clients import podresources_client
from support.processes.kubectl import kubectl, try_kubectl
from support.until import until, until_blocking

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

PORT, VF, OTHER_VF = "0000:01:00.0", "0000:01:00.2", "0000:01:00.3"
CARD = "185011D4-21104518-A0C4ED94-14CC040A-56102003"
VENDOR = "node.koordinator.sh/gpu-vendor"
PROBLEMS = "bursar_device_problems"


def listed(kind: str, minor: int, id: str, *, numa: int = -1, **more: Any) -> dict[str, Any]:
    topology = {"nodeID": numa, "socketID": -1, "pcieID": "", "busID": ""}
    device = {"type": kind, "minor": minor, "id": id, "health": True, "topology": topology}
    return {**device, **more}


HARDWARE = [
    *(listed("gpu", n, f"GPU-{n}", numa=n % 2, labels={VENDOR: "nvidia"}) for n in range(4)),
    listed("gpu", 4, CARD, labels={VENDOR: "huawei"}),
    listed("gpu", 5, "GPU-5", health=False, labels={VENDOR: "nvidia"}),
    listed(
        "rdma",
        0,
        PORT,
        numa=1,
        vfGroups=[{"vfs": [{"minor": -1, "busID": each} for each in (VF, OTHER_VF)]}],
    ),
    listed("fpga", 0, "fpga-0"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client():
    async with podresources_client() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(control_plane, client, tmp_path_factory):
    """One for all tests that leave it as it is."""
    name, folder = f"node-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("node")
    with (
        inventory(control_plane, name, *HARDWARE),
        secure_port(control_plane, folder, name) as pods,
    ):
        async with node_with_agent(folder, pods=pods, client=client) as running:
            known = f"{len(HARDWARE)} devices"
            await until_blocking(
                lambda: known in running.agent.health()["inventory"], "the inventory"
            )
            yield running


async def problems(node: Node) -> Mapping[str, float]:
    """By kind, those there are."""
    found = await asyncio.to_thread(node.agent.metrics)
    kinds = {name: value for name, value in found.items() if name.startswith(PROBLEMS + "{")}
    return {name.split('"')[1]: value for name, value in kinds.items() if value}


async def events(plane: ControlPlane, pod: str) -> dict[str, str]:
    """Reason to note, once there are any."""
    found: dict[str, str] = {}

    def look() -> bool:
        told = kubectl(plane, "get", "events.events.k8s.io", "-n", "default", "-o", "json")
        for each in json.loads(told)["items"]:
            if (each["regarding"]["name"], each["reportingController"]) == (pod, "bursar-agent"):
                found[each["reason"]] = each["note"]
        return bool(found)

    await until_blocking(look, f"an event on {pod}")
    return found


# ------------------------------------------------------------------ who is believed


async def test_weakness_2_devices_are_only_for_pods_that_ask_and_only_those_of_the_node(node):
    await node.has(
        Tenant("honest", {**gpus("GPU-0"), **functions(VF)}),
        Tenant("idle", {**gpus("GPU-1"), **functions(OTHER_VF)}, asks={"main": {}}),
        Tenant("dreamer", {**gpus("GPU-99"), **functions("0000:99:00.0")}),
    )

    assert await node.devices("honest") == {"main": {GPU: ["GPU-0"], RDMA: [VF]}}
    assert await node.devices("idle") == await node.devices("dreamer") == {"main": {}}
    assert await problems(node) == {"not-asked-for": 1, "not-on-node": 1}


async def test_weakness_27_a_bad_annotation_is_told_on_its_pod(node, control_plane):
    await node.has(Tenant("scribbler", '{"gpu":[null]}', asks={"main": {GPU: "1"}}))
    await node.devices("scribbler")

    told = await events(control_plane, "scribbler")
    assert list(told) == ["DevicesUnreadable"]
    assert told["DevicesUnreadable"].startswith("koordinator: ")
    assert await problems(node) == {"unreadable": 1}


async def test_two_pods_with_one_whole_device_are_both_told_of_it(node, control_plane):
    await node.has(Tenant("first", gpus("GPU-2")), Tenant("second", gpus("GPU-2")))

    assert await node.devices("first") == await node.devices("second") == {"main": {GPU: ["GPU-2"]}}
    for name in ("first", "second"):
        told = await events(control_plane, name)
        assert list(told) == ["DeviceClaimedTwice"]
        assert "GPU-2" in told["DeviceClaimedTwice"]
    assert await problems(node) == {"claimed-twice": 2}


async def test_a_device_in_shares_is_nothing_to_tell_of(node):
    await node.has(*(Tenant(name, shared_gpu("GPU-3", 50)) for name in ("share-a", "share-b")))

    assert await node.devices("share-a") == await node.devices("share-b")
    assert await problems(node) == {}


# ------------------------------------------------------------------ what is answered


async def test_weakness_5_get_and_list_say_the_same(node, client):
    await node.has(Tenant("asked-alone", {**gpus("GPU-0"), **functions(VF)}))
    one = await client.get(node.socket, "default", "asked-alone")

    assert one.devices == {"default/asked-alone": await node.devices("asked-alone")}
    assert one.devices["default/asked-alone"]["main"]


async def test_weakness_6_what_is_allocated_is_allocatable_and_what_is_ill_is_not(node, client):
    own = Device("example.com/nic", "nic-0")
    whole = Tenant("whole-port", {**gpus("GPU-0"), **ports(PORT)})
    await node.has(Tenant("allocated", {**gpus("GPU-1"), **functions(VF)}), whole)
    held = {**await node.devices("allocated"), **await node.devices("whole-port")}
    told = await client.allocatable(node.socket)

    for resource, devices in held["main"].items():
        assert set(devices) <= set(told.allocatable[resource])
    assert told.allocatable[GPU] == [f"GPU-{n}" for n in range(4)]
    assert own.resource not in told.allocatable


async def test_weakness_8_a_device_with_a_template_does_not_disappear(node):
    template = gpus("GPU-0", extension={"gpuSharedResourceTemplate": "vir04"})
    await node.has(Tenant("templated", template))

    assert await node.devices("templated") == {"main": {GPU: ["GPU-0"]}}


async def test_weakness_9_no_resource_is_without_a_name(node):
    asks = {"main": {FPGA: "100", "example.com/tpu": "1"}}
    allocated = {"fpga": [{"minor": 0}], "tpu": [{"minor": 0, "id": "tpu-0"}]}
    await node.has(Tenant("programmable", allocated, asks=asks))

    assert await node.devices("programmable") == {"main": {FPGA: ["fpga-0"]}}
    assert await problems(node) == {"unknown-kind": 1}


async def test_weakness_10_an_accelerator_is_called_as_its_vendor_calls_it(node, client):
    asks = {"main": {"huawei.com/npu-core": "8"}}
    await node.has(Tenant("ascending", gpus(CARD, minor=4), asks=asks))
    told = await client.dcgm(node.socket, [CARD])

    assert await node.devices("ascending") == {"main": {"huawei.com/Ascend910": [CARD]}}
    assert told.labels == [(CARD, "")]


async def test_weakness_11_the_container_that_asks_gets_it(node):
    asks = {"web": {}, "nic": {RDMA: "100"}, "cuda": {GPU: "1"}}
    allocated = {**gpus("GPU-0"), **functions(VF)}
    await node.has(Tenant("divided", allocated, asks=asks, sidecars=["mesh"]))

    assert await node.devices("divided") == {
        "mesh": {},
        "web": {},
        "nic": {RDMA: [VF]},
        "cuda": {GPU: ["GPU-0"]},
    }


async def test_weakness_12_a_device_without_id_is_found_by_its_number_or_left_out(node):
    asks = {"main": {GPU: "2"}}
    await node.has(Tenant("numbered", {"gpu": [{"minor": 1}, {"minor": 77}]}, asks=asks))

    assert await node.devices("numbered") == {"main": {GPU: ["GPU-1"]}}
    assert await problems(node) == {"no-id": 1}


async def test_weakness_13_what_a_plugin_gave_is_not_told_twice(node):
    given = {"main": [Device(GPU, "GPU-0", (0,))]}
    await node.has(Tenant("twofold", gpus("GPU-0", "GPU-1"), given=given))

    assert await node.devices("twofold") == {"main": {GPU: ["GPU-0", "GPU-1"]}}


async def test_weakness_15_each_device_has_a_line_with_its_numa_node(node, client):
    await node.has(Tenant("near", {**gpus("GPU-0", "GPU-1"), **functions(VF)}))
    (pod,) = (await client.list(node.socket)).pods

    lines = [
        (
            line["resource_name"],
            line["device_ids"],
            [int(n.get("ID", 0)) for n in line["topology"]["nodes"]],
        )
        for line in pod["containers"][0]["devices"]
    ]
    assert lines == [(RDMA, [VF], [1]), (GPU, ["GPU-0"], [0]), (GPU, ["GPU-1"], [1])]


async def test_weakness_16_of_pods_with_one_name_the_live_one_counts(node):
    ended = Tenant("reborn", gpus("GPU-0"), phase="Failed", metadata={"uid": "1"})
    alive = Tenant("reborn", gpus("GPU-1"), metadata={"uid": "2"})
    for number, pods in enumerate(([ended, alive], [alive, ended])):
        name = f"reborn-{number}"
        written = [{**each.written()} for each in pods]
        for each in written:
            each["metadata"]["name"] = name
        node.pods.tell(written)
        await node.kubelet.show(Pod(name))

        assert await node.devices(name) == {"main": {GPU: ["GPU-1"]}}


async def test_weakness_17_a_partition_is_a_device_and_dcgm_finds_it(node, client):
    part = "MIG-8c25ea37-2909-6e62-b7bf-e2fcadebea8d"
    await node.has(Tenant("partitioned", {"gpu": [{"minor": 1, "id": part}]}))
    gpu = {"index": 1, "uuid": "GPU-1", "instance": 3}
    told = await client.dcgm(node.socket, [gpu], instances={part: "1-3"})

    assert await node.devices("partitioned") == {"main": {GPU: [part]}}
    assert told.labels == [("GPU-1", "default/partitioned/main")]


# ------------------------------------------------------------------ operations


async def test_weakness_19_a_read_that_nobody_waits_for_ends_in_its_time(client, tmp_path):
    """Kubelet's port takes the question and never answers: in its own time, for that is a failure
    whether or not anybody still waits. Others need not find out again."""
    asked, hung_up = asyncio.Event(), asyncio.Event()

    async def keep_waiting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        assert await reader.read() == b""
        hung_up.set()
        writer.close()

    silent = await asyncio.start_server(keep_waiting, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    options = ("--pods-from=kubelet-read-only", f"--kubelet-read-only-port={port}")
    async with silent, kubelet_server(Pod("patient")) as kubelet:
        timed = (*options, "--kubelet-timeout=1s")
        with AgentProcess(tmp_path, *timed, kubelet_socket=kubelet.socket) as agent:
            left = []

            async def is_asked() -> bool:
                # On a busy machine the client may leave before the agent has its call.
                left.append(await client.list(agent.socket, cancel_ms=300))
                return asked.is_set()

            await until(is_asked, "the agent asks kubelet")
            await until(hung_up.is_set, "the agent gives up")
            failures = "bursar_pod_source_failures_total"
            await until_blocking(lambda: agent.metrics()[failures] == 1, "a failure is counted")

    assert {each.code for each in left} == {"CANCELLED"}


async def test_weakness_20_a_kubelet_that_nobody_vouches_for_is_not_asked(
    control_plane, client, tmp_path
):
    """Pods still start; why they lack devices can be read."""
    kubelet = KubeletHttp(control_plane, tmp_path, authority=Authority(tmp_path))
    kubelet.put([Tenant("trusting", gpus("GPU-0")).written()])
    kubelet.program.start()
    kubelet.program.wait_ready()
    options = (
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--kubelet-address={kubelet.endpoint.host}",
        f"--kubelet-port={kubelet.endpoint.port}",
        "--no-events",
    )
    try:
        async with kubelet_server(Pod("trusting")) as server:
            with AgentProcess(tmp_path, *options, kubelet_socket=server.socket) as agent:
                answer = await client.list(agent.socket)
                parts = await asyncio.to_thread(agent.health)
    finally:
        kubelet.program.stop()

    assert (answer.code, answer.devices) == ("OK", {"default/trusting": {"main": {}}})
    assert "certificate is not trusted" in parts["pods"]


async def test_weakness_26_ready_is_who_can_answer(node):
    await node.kubelet.kill()
    dead = await asyncio.to_thread(node.agent.page, "/readyz")
    alive = await asyncio.to_thread(node.agent.page, "/healthz")
    await node.kubelet.start()
    await until_blocking(lambda: node.agent.page("/readyz")[0] == 200, "kubelet is back")

    assert (dead[0], alive[0]) == (503, 200)
    assert "\nkubelet: " in f"\n{dead[1]}"


async def test_weakness_28_longer_answers_can_be_allowed(client, tmp_path):
    bulk = Container("main", [Device("example.com/bulk", "x" * 1000)] * (17 * 1024))
    async with node_with_agent(tmp_path, "--max-message=32Mi", client=client) as node:
        await node.kubelet.replace(Contents(pods=[Pod("bulk", [bulk])]))
        passed = await client.list(node.socket, max=32 << 20, quiet=True)

    assert (passed.code, passed.size > 16 << 20) == ("OK", True)


# ------------------------------------------------------------------ pods of this very moment


async def test_a_pod_created_right_now_is_not_missed(node, client):
    """Multus asks in the moment a pod appears, and the agent knew the pods a moment before."""
    pods = []
    for number in range(10):
        pods.append(Tenant(f"new-{number}", functions(VF if number % 2 else OTHER_VF)))
        await node.has(*pods)
        told = await client.multus(node.socket, "default", f"new-{number}", networks=[RDMA])

        assert told.networks == [VF if number % 2 else OTHER_VF]


async def test_a_pod_born_again_has_its_new_device_and_not_its_predecessors(client, tmp_path):
    """As of a StatefulSet: the old one was seen leaving. No other pod is ever read again."""
    leaving = {"uid": "old", "deletionTimestamp": "2026-01-01T01:00:00Z"}
    async with node_with_agent(tmp_path, "--pods-max-age=5m", client=client) as node:
        for number in range(5):
            name = f"again-{number}"
            await node.has(Tenant(name, functions(VF), metadata=leaving))
            before = await client.multus(node.socket, "default", name)
            await node.has(Tenant(name, functions(OTHER_VF), metadata={"uid": "new"}))

            async def is_new(name: str = name) -> bool:
                told = await client.multus(node.socket, "default", name)
                return told.resources == {RDMA: [OTHER_VF]}

            assert before.resources == {RDMA: [VF]}
            await until(is_new, "the successor is found")


async def test_while_a_pod_leaves_and_its_successor_is_there_the_device_is_told_once(node, client):
    """Kubelet then lists the name twice. Multus joins both, and must not take one VF for two."""
    old = Tenant("heir", functions(VF), metadata={"uid": "old"})
    await node.has(old)
    before = await client.multus(node.socket, "default", "heir")
    new = Tenant("heir", functions(OTHER_VF), metadata={"uid": "new"}).written()
    leaving = old.written()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    node.pods.tell([leaving, new])
    await node.kubelet.show(Pod("heir", uid="old"), Pod("heir", uid="new"))
    after = await client.multus(node.socket, "default", "heir", networks=[RDMA] * 2)

    assert before.resources == {RDMA: [VF]}
    assert (after.resources, after.networks) == ({RDMA: [OTHER_VF]}, [OTHER_VF, ""])


async def test_who_reads_pods_for_every_call_never_sees_a_predecessor(client, tmp_path):
    """For pods that are replaced within a second, by force, and nobody sees them leave."""
    async with node_with_agent(tmp_path, "--pods-max-age=0s", client=client) as node:
        for number in range(10):
            address = VF if number % 2 else OTHER_VF
            await node.has(Tenant("forced", functions(address), metadata={"uid": str(number)}))
            told = await client.multus(node.socket, "default", "forced")

            assert told.resources == {RDMA: [address]}


async def test_a_watch_does_not_miss_a_pod_created_right_now_nor_one_born_again(
    control_plane, client, tmp_path
):
    """Pods as the API server has them."""
    name, space = f"node-{uuid.uuid4().hex[:8]}", f"agent-{uuid.uuid4().hex[:8]}"
    kubectl(control_plane, "create", "namespace", space)
    try_kubectl(control_plane, "-n", space, "create", "serviceaccount", "default")

    def create(pod: str, allocated: dict[str, Any]) -> None:
        written = Tenant(pod, allocated).written()
        written["metadata"] = {
            "namespace": space,
            "name": pod,
            "annotations": written["metadata"]["annotations"],
        }
        written["spec"]["nodeName"] = name
        del written["status"], written["spec"]["initContainers"]
        kubectl(control_plane, "create", "-f", "-", stdin=json.dumps(written))

    options = (f"--node={name}", f"--kubeconfig={control_plane.kubeconfig}", "--pods-from=api")
    async with kubelet_server() as kubelet:
        with AgentProcess(tmp_path, *options, kubelet_socket=kubelet.socket) as agent:
            await until_blocking(lambda: agent.page("/readyz")[0] == 200, "ready")
            given = {}
            for number, address in enumerate((VF, OTHER_VF, VF)):
                await asyncio.to_thread(create, f"born-{number}", functions(address))
                await kubelet.show(Pod(f"born-{number}", namespace=space))
                told = await client.multus(agent.socket, space, f"born-{number}")
                given[number] = told.resources
            kubectl(control_plane, "-n", space, "delete", "pod", "born-0", "--wait=false")
            await kubelet.show(Pod("born-0", namespace=space))
            await client.multus(agent.socket, space, "born-0")
            kubectl(
                control_plane, "-n", space, "delete", "pod", "born-0", "--grace-period=0", "--force"
            )
            await asyncio.to_thread(create, "born-0", functions(OTHER_VF))
            again = await client.multus(agent.socket, space, "born-0")
    kubectl(control_plane, "delete", "namespace", space, "--wait=false")

    assert given == {0: {RDMA: [VF]}, 1: {RDMA: [OTHER_VF]}, 2: {RDMA: [VF]}}
    assert again.resources == {RDMA: [OTHER_VF]}
