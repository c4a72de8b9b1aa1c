"""The clients that matter, at the socket of a real `bursar agent`: Multus, DCGM, grpc-go.

A check has the number under which the reference lists it (`pod-resources-scenarios.md`). Kubelet
is upstream's own code at both ends: its PodResources server, and its HTTPS server for `/pods`.
"""

import asyncio
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from google.protobuf.message import Message

from assets import ensure
from bursar.wire.devices.pod_resources import v1_pb2 as v1
from support.devices.agent import AgentProcess
from support.devices.kubelet_server import Allocatable, Container, Contents, Device, Memory, Pod
from support.devices.node_with_agent import (
    GPU,
    RDMA,
    Tenant,
    functions,
    gpus,
    node_with_agent,
    ports,
    secure_port,
    shared_gpu,
)
from support.devices.socket_clients import ALLOCATABLE, ALPHA_LIST, GET, LIST, podresources_client
from support.until import until, until_blocking

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

NIC = "example.com/nic"
A, B, C = (f"0000:01:00.{number}" for number in (2, 3, 4))
KIBIBYTE = "x" * 1000
"""With its frame about as much as the name says."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client():
    async with podresources_client() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(control_plane, client, tmp_path_factory):
    """One for all checks that leave it as it is."""
    folder = tmp_path_factory.mktemp("node")
    with secure_port(control_plane, folder) as pods:
        async with node_with_agent(folder, "--no-events", pods=pods, client=client) as running:
            yield running


def bulky(mebibytes: int) -> Pod:
    """A pod that makes kubelet's answer so long."""
    device = Device("example.com/bulk", KIBIBYTE)
    return Pod("bulk", [Container("main", [device] * (mebibytes * 1024))])


# ------------------------------------------------------------------ Multus


async def test_check_01_multus_gets_the_virtual_function_and_never_the_port(node, client):
    await node.has(Tenant("vf", functions(A)))
    told = await client.multus(node.socket, "default", "vf", networks=[RDMA])

    assert (told.source, told.error) == ("socket", "")
    assert (told.resources, told.networks) == ({RDMA: [A]}, [A])


async def test_check_02_a_port_given_whole_is_told_by_its_own_address(node, client):
    await node.has(Tenant("pf", ports("0000:1f:00.0")))

    assert (await client.multus(node.socket, "default", "pf")).resources == {RDMA: ["0000:1f:00.0"]}


async def test_check_03_three_networks_get_three_functions_and_a_fourth_gets_none(node, client):
    await node.has(Tenant("three", functions(C, A, B)))
    told = await client.multus(node.socket, "default", "three", networks=[RDMA] * 4)

    assert told.resources == {RDMA: [A, B, C]}
    assert told.networks == [A, B, C, ""]


async def test_check_04_nics_of_a_device_plugin_and_of_koordinator_are_both_there(node, client):
    given = {"main": [Device(NIC, "nic-0")]}
    await node.has(Tenant("both", functions(A), given=given))
    told = await client.multus(node.socket, "default", "both")

    assert told.resources == {NIC: ["nic-0"], RDMA: [A]}


async def test_check_05_an_unknown_pod_has_an_empty_map_and_no_error(node, client):
    await node.has(Tenant("known", functions(A)))
    told = await client.multus(node.socket, "default", "unknown")

    assert (told.source, told.code, told.error, told.resources) == ("socket", "OK", "", {})


async def test_check_06_while_it_restarts_the_socket_is_always_there(client, tmp_path):
    """Without a socket Multus takes the checkpoint, and the pod never gets its device."""
    misses, told, is_over = [], [], threading.Event()
    socket = tmp_path / "agent" / "kubelet.sock"

    def watch() -> None:
        while not is_over.wait(0.001):
            misses.extend([] if socket.is_socket() else [socket])

    async with node_with_agent(tmp_path, client=client) as node:
        await node.has(Tenant("vf", functions(A)))
        watcher = threading.Thread(target=watch)
        watcher.start()

        async def ask() -> None:
            while not is_over.is_set():
                told.append(await client.multus(socket, "default", "vf"))
                await asyncio.sleep(0.01)

        async def one_more_is_answered(before: int) -> None:
            await until(lambda: "OK" in {each.code for each in told[before:]}, "an answer")

        asking = asyncio.create_task(ask())
        for end in [node.agent.program.stop, node.agent.program.kill] * 2:
            await one_more_is_answered(len(told))
            await asyncio.to_thread(end)
            node.agent.program.start()
            await asyncio.to_thread(node.agent.program.wait_ready)
        await one_more_is_answered(len(told))
        is_over.set()
        await asking
        watcher.join()

    assert misses == []
    assert {each.source for each in told} == {"socket"}
    # A call that arrives in the moment gRPC's server ends is cancelled by it. Kubelet tries again.
    assert {each.code for each in told} <= {"OK", "UNAVAILABLE", "CANCELLED"}
    assert {tuple(each.resources.get(RDMA, ())) for each in told if each.code == "OK"} == {(A,)}


async def test_check_07_after_a_restart_of_kubelet_calls_succeed_again(node, client):
    await node.has(Tenant("again", functions(A)))
    before = await client.multus(node.socket, "default", "again")
    pid = node.agent.program.pid
    await node.kubelet.kill()
    during = await client.multus(node.socket, "default", "again")
    await node.kubelet.start()

    async def is_answered() -> bool:
        return (await client.multus(node.socket, "default", "again")).code == "OK"

    await until(is_answered, "kubelet is found again")
    after = await client.multus(node.socket, "default", "again")

    assert (during.source, during.code) == ("socket", "UNAVAILABLE")
    assert before.resources == after.resources == {RDMA: [A]}
    assert node.agent.program.pid == pid


@pytest.mark.parametrize("mode", ["improved", "compat"])
async def test_check_08_pods_that_fail_leave_the_last_good_answer(client, tmp_path, mode):
    """Documented: with `--when-unknown=refuse` an error once nothing is known, else never one."""
    short = ("--pods-max-age=50ms", "--stale-for=1s", "--when-unknown=refuse", f"--mode={mode}")
    async with node_with_agent(tmp_path, *short, client=client) as node:
        await node.has(Tenant("vf", functions(A)))
        good = await client.multus(node.socket, "default", "vf")
        node.pods.fail(500)
        last_good = await client.multus(node.socket, "default", "vf")
        await until_blocking(lambda: node.agent.page("/readyz")[0] == 503, "the pods are too old")
        refused = await client.multus(node.socket, "default", "vf")

    assert good.resources == last_good.resources == {RDMA: [A]}
    assert refused.code == "UNAVAILABLE"
    assert "the answer was 500" in refused.error


async def test_check_09_fifteen_mebibytes_pass_and_seventeen_are_a_clean_error(node, client):
    vf = Tenant("beside-bulk", functions(A))
    node.pods.tell([vf.written()])
    await node.kubelet.replace(Contents(pods=[vf.listed(), bulky(15)]))
    passes = await client.multus(node.socket, "default", "beside-bulk")
    await node.kubelet.replace(Contents(pods=[vf.listed(), bulky(17)]))
    refused = await client.multus(node.socket, "default", "beside-bulk")
    await node.kubelet.replace(Contents(pods=[vf.listed()]))
    after = await client.multus(node.socket, "default", "beside-bulk")

    assert passes.resources == after.resources == {RDMA: [A]}
    assert refused.code == "RESOURCE_EXHAUSTED"
    assert "larger than max" in refused.error


# ------------------------------------------------------------------ DCGM


async def test_check_10_labels_name_pod_namespace_and_container(node, client):
    await node.has(Tenant("labelled", gpus("GPU-10")))
    told = await client.dcgm(node.socket, ["GPU-10", "GPU-11"])

    assert told.labels == [("GPU-10", "default/labelled/main"), ("GPU-11", "")]


async def test_check_11_two_pods_on_one_gpu_are_stable_and_each_has_its_series(node, client):
    await node.has(
        Tenant("half-a", shared_gpu("GPU-1", 50)), Tenant("half-b", shared_gpu("GPU-1", 50))
    )
    usual = {tuple((await client.dcgm(node.socket, ["GPU-1"])).labels) for _ in range(100)}
    virtual = await client.dcgm(node.socket, ["GPU-1"], virtual_gpus=True)

    assert len(usual) == 1
    assert sorted(virtual.labels) == [("GPU-1", f"default/half-{each}/main") for each in "ab"]


async def test_check_12_numbered_shares_are_virtual_gpus(client, tmp_path):
    async with node_with_agent(tmp_path, "--share-suffix", client=client) as node:
        await node.has(*(Tenant(name, shared_gpu("GPU-1", 50)) for name in ("b", "a")))
        told = await client.dcgm(node.socket, ["GPU-1"], virtual_gpus=True)

    assert sorted(told.labels) == [("GPU-1", "default/a/main#0"), ("GPU-1", "default/b/main#1")]


async def test_check_13_the_container_that_asked_is_named(node, client):
    await node.has(Tenant("second", gpus("GPU-13"), asks={"web": {}, "cuda": {GPU: "1"}}))

    assert (await client.dcgm(node.socket, ["GPU-13"])).labels == [
        ("GPU-13", "default/second/cuda")
    ]


async def test_check_14_a_native_sidecar_is_not_taken_for_the_main_container(node, client):
    await node.has(Tenant("meshed", gpus("GPU-14"), sidecars=["proxy"]))
    listed = await client.list(node.socket)
    told = await client.dcgm(node.socket, ["GPU-14"])

    assert listed.containers == {"default/meshed": ["proxy", "main"]}
    assert told.labels == [("GPU-14", "default/meshed/main")]


async def test_check_15_an_accelerator_of_another_vendor_is_no_nvidia_gpu(node, client):
    card = "185011D4-21104518-A0C4ED94-14CC040A-56102003"
    asks = {"main": {"huawei.com/npu-core": "8"}}
    await node.has(Tenant("ascend", gpus(card), asks=asks))
    told = await client.dcgm(node.socket, [card])

    assert (told.labels, told.mapping) == ([(card, "")], {})
    assert (await node.devices("ascend")) == {"main": {"koordinator.sh/gpu": [card]}}


async def test_check_16_over_4_mebibytes_labels_are_still_there(client, tmp_path):
    """Pods without devices are left out; the client takes no more than 4 MiB."""
    idle = [Pod(f"idle-{number}-{KIBIBYTE}") for number in range(6 * 1024)]
    trainer = Tenant("trainer", gpus("GPU-16"))
    async with node_with_agent(tmp_path, "--trim-above=4Mi", client=client) as node:
        node.pods.tell([trainer.written()])
        await node.kubelet.replace(Contents(pods=[trainer.listed(), *idle]))
        directly = await client.dcgm(node.kubelet.socket, ["GPU-16"])
        told = await client.dcgm(node.socket, ["GPU-16"])
        trimmed = await node.metric('bursar_pod_resources_degraded_total{how="trimmed"}')

    assert directly.code == "RESOURCE_EXHAUSTED"
    assert told.labels == [("GPU-16", "default/trainer/main")]
    assert trimmed == 1


async def test_check_17_by_device_name_there_are_no_labels(node, client):
    """Documented: DCGM has to look for UUIDs, which is its default."""
    await node.has(Tenant("by-name", gpus("GPU-17")))
    told = await client.dcgm(node.socket, ["GPU-17"], id_type="device-name")

    assert (told.code, told.labels) == ("OK", [("GPU-17", "")])


async def test_check_18_no_socket_means_metrics_without_labels(client, tmp_path):
    told = await client.dcgm(tmp_path / "kubelet.sock", ["GPU-18"])

    assert (told.socket, told.error, told.labels) == (False, "", [("GPU-18", "")])


# ------------------------------------------------------------------ the wire, and kubelet


@pytest.mark.parametrize("dial", ["kubelet", "unix"])
async def test_check_19_grpc_go_is_understood_by_either_authority(node, client, dial):
    """A plain path is sent percent-encoded, which kubelet's own server is seen to get."""
    await node.has(Tenant(f"dialled-{dial}", gpus("GPU-19")))
    directly = await client.list(node.kubelet.socket, dial=dial)
    authority = await node.kubelet.authority()
    listed = await client.list(node.socket, dial=dial)

    sent = {"kubelet": quote(str(node.kubelet.socket), safe=""), "unix": "localhost"}
    assert (directly.code, authority) == ("OK", sent[dial])
    assert (listed.code, listed.error) == ("OK", "")
    assert listed.devices[f"default/dialled-{dial}"] == {"main": {GPU: ["GPU-19"]}}


async def test_check_20_without_annotations_every_byte_is_kubelets(node, client):
    busy = [Device(NIC, "nic-0", (0, 1)), Device(GPU, "GPU-20")]
    main = Container("main", busy, cpus=(3, 2), memory=[Memory("hugepages-2Mi", 1 << 21, (1,))])
    pods = [Pod("plain", [main, Container("idle")]), Pod("bare")]
    there = Allocatable(devices=busy, cpus=[0, 1, 2, 3], memory=[Memory("memory", 1 << 33)])
    node.pods.tell([Tenant("plain").written(), Tenant("bare").written()])
    await node.kubelet.replace(Contents(pods=pods, allocatable=there, unordered=True))
    one = v1.GetPodResourcesRequest(pod_name="plain", pod_namespace="default").SerializeToString()
    for method, request, kind in (
        (LIST, b"", v1.ListPodResourcesResponse),
        (GET, one, v1.GetPodResourcesResponse),
        (ALLOCATABLE, b"", v1.AllocatableResourcesResponse),
        (ALPHA_LIST, b"", v1.ListPodResourcesResponse),
    ):
        directly = await client.raw(node.kubelet.socket, method, request)
        ours = await client.raw(node.socket, method, request)

        assert (ours.code, len(ours.raw)) == ("OK", len(directly.raw))
        assert in_order(kind, ours.raw) == in_order(kind, directly.raw)


def in_order(kind: type[Message], raw: bytes) -> bytes:
    """Kubelet goes through maps, so its own order changes from call to call."""
    message = kind.FromString(raw)

    def sort(part: Message) -> None:
        for field, value in part.ListFields():
            each = [value] if isinstance(value, Message) else value
            if field.message_type is not None:
                for inner in each:
                    sort(inner)
            if field.name in {"pod_resources", "devices"} and field.is_repeated:
                value.sort(key=lambda inner: inner.SerializeToString())

    sort(message)
    return message.SerializeToString()


async def test_check_21_fields_of_a_newer_kubelet_survive_beside_what_is_added(node, client):
    new = b"\xfa\x3f\x05newer"
    await node.has(Tenant("newer", gpus("GPU-21")), newer_fields=new)
    directly = await client.raw(node.kubelet.socket, LIST)
    ours = await client.raw(node.socket, LIST)

    assert b"GPU-21" in ours.raw
    assert b"GPU-21" not in directly.raw
    assert ours.raw.count(new) == directly.raw.count(new) > 2


async def test_check_22_a_rapid_client_meets_kubelets_limit_and_shared_calls_do_not(
    client, tmp_path
):
    async with node_with_agent(tmp_path, usual_limits=True, client=client) as node:
        await node.has(Tenant("rapid", gpus("GPU-22")), delay_ms=100)
        shared = await client.calls(node.socket, parallel=10, quiet=True)
        cost = await node.kubelet.lists_served()
        await node.has(Tenant("rapid", gpus("GPU-22")))
        directly = await client.calls(node.kubelet.socket, times=200, quiet=True)
        ours = await client.calls(node.socket, times=200, quiet=True)

    refusal = {("RESOURCE_EXHAUSTED", "rejected by rate limit")}
    for answers in (directly, ours):
        assert {(each.code, each.error) for each in answers if each.code != "OK"} == refusal
    assert {each.code for each in shared} == {"OK"}
    assert cost <= len(shared) // 2


async def test_check_23_a_missing_pod_is_kubelets_error_code_and_words(node, client):
    directly = await client.get(node.kubelet.socket, "default", "nobody")
    ours = await client.get(node.socket, "default", "nobody")

    assert (ours.code, ours.error) == (directly.code, directly.error)
    assert (ours.code, ours.error) == ("UNKNOWN", "pod nobody in namespace default not found")


async def test_check_24_the_old_version_has_koordinators_devices_too(node, client):
    await node.has(Tenant("old", {**gpus("GPU-24"), **functions(A)}))
    listed = await client.list(node.socket, version="v1alpha1")

    assert listed.devices["default/old"] == {"main": {GPU: ["GPU-24"], RDMA: [A]}}


HOSTILE = {
    "crashing": '{"gpu":[null]}',
    "garbage": "\x01\x7fü" * (64 * 1024),
    "deep": '{"gpu":' * 50_000,
    "deeper": "[" * 200_000,
}


async def test_check_25_hostile_annotations_cost_nobody_else_anything(node, client):
    pid = node.agent.program.pid
    hostile = [
        Tenant(name, text, asks={"main": {GPU: "1", RDMA: "1"}}) for name, text in HOSTILE.items()
    ]
    await node.has(*hostile, Tenant("innocent", {**gpus("GPU-25"), **functions(A)}))
    for _ in range(3):
        assert await node.devices("innocent") == {"main": {GPU: ["GPU-25"], RDMA: [A]}}
    listed = await client.list(node.socket)

    assert all(listed.devices[f"default/{name}"] == {"main": {}} for name in HOSTILE)
    assert await node.metric('bursar_device_problems{kind="unreadable"}') == len(HOSTILE)
    assert node.agent.program.pid == pid


async def test_check_26_root_and_the_group_are_let_in_and_nobody_else(client, open_folder):
    uid, group = 54321, 54322
    options = ("--socket-mode=0660", f"--socket-group={group}")
    async with node_with_agent(open_folder, *options, client=client) as node:
        await node.has(Tenant("guarded", gpus("GPU-26")))
        root = await client.list(node.socket)
        member = await asyncio.to_thread(listed_as, node.agent, uid, group)
        other = await asyncio.to_thread(listed_as, node.agent, uid)

    assert (root.code, member["code"]) == ("OK", 0)
    assert other["code"] == 14
    assert "permission denied" in other["error"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Everybody may pass through: what is tried is the socket."""
    with tempfile.TemporaryDirectory(prefix="bursar-open-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def listed_as(agent: AgentProcess, uid: int, *groups: int) -> dict[str, object]:
    """A List by somebody else, in a process of their own."""
    question = {"op": "call", "args": {"socket": str(agent.socket), "quiet": True}}
    with ensure("podresources").open("rb") as program:
        # It may lie in a folder that only root may enter.
        asked = subprocess.run(
            [f"/proc/self/fd/{program.fileno()}", "ask"],
            input=json.dumps(question).encode() + b"\n",
            stdout=subprocess.PIPE,
            pass_fds=[program.fileno()],
            user=uid,
            group=uid,
            extra_groups=groups,
            check=True,
            timeout=60,
        )
    outcome: dict[str, object] = json.loads(asked.stdout.splitlines()[1])["result"][0]
    return outcome


async def test_check_27_who_leaves_ends_the_work_and_fifty_at_once_are_answered(node, client):
    crowd = Tenant("crowd", gpus("GPU-27"))
    await node.has(crowd, delay_ms=300)
    under_way = "bursar_pod_resources_requests_under_way"
    left = await client.list(node.socket, cancel_ms=50)
    await until_blocking(lambda: node.agent.metrics()[under_way] == 0, "the call ended")
    before = await node.kubelet.lists_served()
    answers = await client.calls(node.socket, parallel=50)
    cost = await node.kubelet.lists_served() - before

    assert left.code == "CANCELLED"
    assert {each.code for each in answers} == {"OK"}
    assert all(each.devices["default/crowd"] == {"main": {GPU: ["GPU-27"]}} for each in answers)
    # Calls that arrive during a call share the next one. On a busy machine clients start late.
    assert cost <= len(answers) // 5


# ------------------------------------------------------------------ Koordinator's own tests


async def test_koordinators_own_fills_come_out_of_the_socket_in_its_own_mode(client, tmp_path):
    """Its five cases at once: everything in the first container, sorted, one line for a kind."""
    stranger = Tenant("other-key").written()
    stranger["metadata"]["annotations"] = {"example.com/devices": "{not JSON"}
    both = Tenant("both", {**gpus("GPU-0", "GPU-1"), **functions(A)}, sidecars=["first"])
    known = [both, Tenant("id-only", gpus("GPU-2")), Tenant("bare")]
    async with node_with_agent(tmp_path, "--mode=compat", client=client) as node:
        node.pods.tell([*(each.written() for each in known), stranger])
        listed = [each.listed() for each in (*known, Tenant("other-key"), Tenant("absent"))]
        await node.kubelet.replace(Contents(pods=listed))
        answer = await client.list(node.socket)
        one = await client.get(node.socket, "default", "id-only")

    first = {RDMA: [A], GPU: ["GPU-0", "GPU-1"]}
    assert answer.devices == {
        "default/both": {"first": first, "main": {}},
        "default/id-only": {"main": {GPU: ["GPU-2"]}},
        **{f"default/{name}": {"main": {}} for name in ("bare", "other-key", "absent")},
    }
    assert list(answer.devices["default/both"]["first"]) == [RDMA, GPU]
    assert one.devices == {"default/id-only": {"main": {}}}
