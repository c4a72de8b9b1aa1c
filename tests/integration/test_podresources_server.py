"""Kubelet's own scenarios, on kubelet's own server with made-up contents.

They prove that the server and the clients, with which the agent is tested, tell what a kubelet
tells.
"""

import asyncio

import pytest

from support.devices.kubelet_server import (
    Allocatable,
    Claim,
    ClaimDevice,
    Container,
    Contents,
    Device,
    Memory,
    Pod,
    kubelet_server,
)
from support.devices.socket_clients import (
    ALLOCATABLE,
    ALPHA_LIST,
    GET,
    LIST,
)
from support.devices.upstream_programs import DialogueError

pytestmark = pytest.mark.integration

GPU = Device("nvidia.com/gpu", "GPU-0", numa=(0,))
NIC = Device("intel.com/nic", "0000:1f:00.2")
CLAIM = Claim(
    "gpu-claim",
    [
        ClaimDevice(
            "gpu.example.com", "node-1", "gpu-3", cdi=("example.com/gpu=gpu-3",), share="share-1"
        )
    ],
)
PLAIN = Container("main")
BUSY = Container("main", [GPU, NIC], cpus=(3, 2), memory=[Memory("hugepages-2Mi", 2097152, (1,))])


class TestList:
    async def test_no_pods(self, kubelet, client):
        answer = await client.list(kubelet.socket)
        assert (answer.code, answer.message, answer.size) == ("OK", {}, 0)

    async def test_pod_without_devices(self, kubelet, client):
        await kubelet.show(Pod("idle", namespace="team"))
        answer = await client.list(kubelet.socket)
        assert answer.message == {
            "pod_resources": [
                {"name": "idle", "namespace": "team", "containers": [{"name": "main"}]}
            ]
        }

    async def test_pod_with_devices(self, kubelet, client):
        await kubelet.show(Pod("busy", [BUSY]))
        [pod] = (await client.list(kubelet.socket)).pods
        assert pod["containers"] == [
            {
                "name": "main",
                "devices": [
                    {
                        "resource_name": "nvidia.com/gpu",
                        "device_ids": ["GPU-0"],
                        "topology": {"nodes": [{}]},
                    },
                    {"resource_name": "intel.com/nic", "device_ids": ["0000:1f:00.2"]},
                ],
                "cpu_ids": ["3", "2"],
                "memory": [
                    {
                        "memory_type": "hugepages-2Mi",
                        "size": "2097152",
                        "topology": {"nodes": [{"ID": "1"}]},
                    }
                ],
            }
        ]

    async def test_pod_with_dynamic_resources(self, kubelet, client):
        await kubelet.show(Pod("claimer", [Container("main", claims=[CLAIM])]))
        [pod] = (await client.list(kubelet.socket)).pods
        assert pod["containers"][0]["dynamic_resources"] == [
            {
                "claim_name": "gpu-claim",
                "claim_namespace": "default",
                "claim_resources": [
                    {
                        "cdi_devices": [{"name": "example.com/gpu=gpu-3"}],
                        "driver_name": "gpu.example.com",
                        "pool_name": "node-1",
                        "device_name": "gpu-3",
                        "share_id": "share-1",
                    }
                ],
            }
        ]

    async def test_pod_with_dynamic_resources_and_devices(self, kubelet, client):
        await kubelet.show(Pod("both", [Container("main", [GPU], claims=[CLAIM])]))
        [pod] = (await client.list(kubelet.socket)).pods
        assert set(pod["containers"][0]) == {"name", "devices", "dynamic_resources"}

    async def test_a_share_that_is_empty_differs_from_one_that_is_absent(self, kubelet, client):
        device = ClaimDevice("d", "p", "x", share="")
        await kubelet.show(Pod("claimer", [Container("main", claims=[Claim("c", [device])])]))
        [pod] = (await client.list(kubelet.socket)).pods
        [claim] = pod["containers"][0]["dynamic_resources"]
        assert claim["claim_resources"][0]["share_id"] == ""

    @pytest.mark.parametrize(
        ("terminal", "listed"),
        [((True, True), []), ((False, False), ["a", "b"]), ((True, False), ["b"])],
        ids=["none active", "all active", "some terminated"],
    )
    async def test_active_pods_only(self, kubelet, client, terminal, listed):
        first, second = terminal
        await kubelet.show(Pod("a", terminal=first), Pod("b", terminal=second))
        answer = await client.list(kubelet.socket)
        assert [pod["name"] for pod in answer.pods] == listed

    async def test_a_plain_init_container_is_hidden(self, kubelet, client):
        await kubelet.show(Pod("p", [PLAIN], init=[Container("setup", [GPU])]))
        assert (await client.list(kubelet.socket)).containers == {"default/p": ["main"]}

    async def test_restartable_init_containers_come_first_in_order(self, kubelet, client):
        init = [
            Container("proxy", [NIC], restartable=True),
            Container("setup"),
            Container("logs", restartable=True),
        ]
        await kubelet.show(Pod("p", [Container("main", [GPU])], init=init))
        answer = await client.list(kubelet.socket)
        assert answer.containers == {"default/p": ["proxy", "logs", "main"]}
        assert answer.devices["default/p"] == {
            "proxy": {"intel.com/nic": ["0000:1f:00.2"]},
            "logs": {},
            "main": {"nvidia.com/gpu": ["GPU-0"]},
        }

    async def test_a_device_near_two_numa_nodes_is_told_twice(self, kubelet, client):
        device = Device("nvidia.com/gpu", "GPU-0", numa=(0, 1))
        await kubelet.show(Pod("p", [Container("main", [device])]))
        [pod] = (await client.list(kubelet.socket)).pods
        assert [one["topology"] for one in pod["containers"][0]["devices"]] == [
            {"nodes": [{}]},
            {"nodes": [{"ID": "1"}]},
        ]

    async def test_the_order_of_pods_can_be_as_unstable_as_kubelets(self, kubelet, client):
        pods = [Pod(f"p{number}") for number in range(50)]
        await kubelet.replace(Contents(pods=pods, unordered=True))
        first, second = await client.calls(kubelet.socket, times=2)
        assert first.pods != second.pods
        assert first.containers == second.containers


class TestAllocatable:
    @pytest.mark.parametrize(
        "has",
        [
            Allocatable(),
            Allocatable(cpus=(0, 1, 2)),
            Allocatable(memory=[Memory("memory", 1 << 33)]),
            Allocatable(devices=[GPU, NIC], cpus=(0, 1)),
            Allocatable(devices=[GPU]),
        ],
        ids=["nothing", "CPUs only", "memory only", "devices and CPUs", "devices without CPUs"],
    )
    async def test_what_the_node_has(self, kubelet, client, has):
        await kubelet.replace(Contents(allocatable=has))
        answer = await client.allocatable(kubelet.socket)
        assert answer.code == "OK"
        assert answer.allocatable == {one.resource: [one.id] for one in has.devices}
        assert [int(number) for number in answer.message.get("cpu_ids", [])] == list(has.cpus)
        assert [int(one["size"]) for one in answer.message.get("memory", [])] == [
            one.size for one in has.memory
        ]


class TestGet:
    async def test_a_missing_pod_is_an_error_without_a_code_of_its_own(self, kubelet, client):
        answer = await client.get(kubelet.socket, "team", "ghost")
        assert (answer.code, answer.error) == ("UNKNOWN", "pod ghost in namespace team not found")

    async def test_a_terminated_pod_is_missing(self, kubelet, client):
        await kubelet.show(Pod("done", terminal=True))
        answer = await client.get(kubelet.socket, "default", "done")
        assert answer.error == "pod done in namespace default not found"

    async def test_pod_without_devices(self, kubelet, client):
        await kubelet.show(Pod("idle"), Pod("other"))
        answer = await client.get(kubelet.socket, "default", "idle")
        assert answer.devices == {"default/idle": {"main": {}}}

    async def test_pod_with_devices(self, kubelet, client):
        await kubelet.show(Pod("busy", [BUSY]))
        listed = await client.list(kubelet.socket)
        got = await client.get(kubelet.socket, "default", "busy")
        assert got.pods == listed.pods

    async def test_a_plain_init_container_is_hidden_and_a_restartable_one_shown(
        self, kubelet, client
    ):
        init = [Container("setup"), Container("proxy", restartable=True)]
        await kubelet.show(Pod("p", init=init))
        got = await client.get(kubelet.socket, "default", "p")
        assert got.containers == {"default/p": ["proxy", "main"]}


class TestV1alpha1:
    async def test_no_pods(self, kubelet, client):
        assert (await client.list(kubelet.socket, version="v1alpha1")).message == {}

    async def test_pod_without_devices(self, kubelet, client):
        await kubelet.show(Pod("idle"))
        answer = await client.list(kubelet.socket, version="v1alpha1")
        assert answer.devices == {"default/idle": {"main": {}}}

    async def test_pod_with_devices_and_nothing_else(self, kubelet, client):
        await kubelet.show(Pod("busy", [BUSY]))
        [pod] = (await client.list(kubelet.socket, version="v1alpha1")).pods
        assert pod["containers"] == [
            {
                "name": "main",
                "devices": [
                    {"resource_name": "nvidia.com/gpu", "device_ids": ["GPU-0"]},
                    {"resource_name": "intel.com/nic", "device_ids": ["0000:1f:00.2"]},
                ],
            }
        ]

    async def test_terminated_pods_are_listed_and_sidecars_are_not(self, kubelet, client):
        await kubelet.show(Pod("done", terminal=True, init=[Container("proxy", restartable=True)]))
        answer = await client.list(kubelet.socket, version="v1alpha1")
        assert answer.containers == {"default/done": ["main"]}


class TestServer:
    async def test_calls_are_throttled_in_a_loop_of_200(self, kubelet, client):
        answers = await client.calls(kubelet.socket, times=200)
        refused = [one for one in answers if one.code != "OK"]
        assert {one.code for one in answers} == {"OK", "RESOURCE_EXHAUSTED"}
        assert {one.error for one in refused} == {"rejected by rate limit"}
        assert await kubelet.lists_served() == 200 - len(refused)

    async def test_metrics_are_exact(self, kubelet, client):
        await client.calls(kubelet.socket, times=2)
        await client.list(kubelet.socket, version="v1alpha1")
        await client.allocatable(kubelet.socket)
        await client.get(kubelet.socket, "default", "ghost")
        assert await kubelet.requests() == {
            "requests_total": {"v1": 4, "v1alpha1": 1},
            "requests_list": {"v1": 2},
            "requests_get_allocatable": {"v1": 1},
            "requests_get": {"v1": 1},
            "errors_get": {"v1": 1},
        }

    async def test_clients_of_both_versions_build_and_a_bad_endpoint_is_an_error(
        self, kubelet, client
    ):
        for version in ("v1", "v1alpha1"):
            assert (await client.list(kubelet.socket, version=version)).code == "OK"
        with pytest.raises(DialogueError, match="only support unix socket endpoint"):
            await client.list("tcp://127.0.0.1:1")

    async def test_pods_grow_and_shrink_in_number(self, kubelet, client):
        for names in (["a"], ["a", "b", "c"], ["c"], []):
            await kubelet.show(*[Pod(name) for name in names])
            answer = await client.list(kubelet.socket)
            assert [pod["name"] for pod in answer.pods] == names

    async def test_bytes_of_both_versions_agree_field_by_field(self, kubelet, client):
        await kubelet.show(Pod("p", [Container("main", [NIC])]))
        ours = await client.raw(kubelet.socket, LIST)
        alpha = await client.raw(kubelet.socket, ALPHA_LIST)
        assert ours.raw == alpha.raw != b""

    async def test_it_restarts_on_its_path_and_knows_the_same_pods(self, kubelet, client):
        await kubelet.show(Pod("p"))
        before = kubelet.pid
        await kubelet.restart()
        assert kubelet.pid != before
        assert (await client.list(kubelet.socket)).containers == {"default/p": ["main"]}

    async def test_a_stopped_one_leaves_a_socket_that_refuses(self, kubelet, client):
        await kubelet.stop()
        assert kubelet.socket.is_socket()
        answer = await client.list(kubelet.socket)
        assert answer.code == "UNAVAILABLE"
        assert "connection refused" in answer.error


class TestAdjustableServer:
    async def test_another_rate_limit(self, client):
        async with kubelet_server(qps=100_000, burst=1000) as kubelet:
            answers = await client.calls(kubelet.socket, times=300, quiet=True)
            assert {one.code for one in answers} == {"OK"}
            assert await kubelet.lists_served() == 300

    async def test_the_answers_are_those_of_the_plain_one(self, client):
        contents = Contents(
            pods=[Pod("p", [BUSY])], allocatable=Allocatable(devices=[GPU], cpus=(0,))
        )
        asked = {LIST: b"", ALLOCATABLE: b"", ALPHA_LIST: b"", GET: b"\x0a\x01p\x12\x07default"}
        answers = []
        for adjustable in (False, True):
            async with kubelet_server(adjustable=adjustable) as kubelet:
                await kubelet.replace(contents)
                replies = [await client.raw(kubelet.socket, *item) for item in asked.items()]
                answers.append([(one.code, one.raw) for one in replies])
        assert answers[0] == answers[1]
        assert all(code == "OK" and raw for code, raw in answers[0])

    async def test_a_kubelet_without_get(self, client):
        async with kubelet_server(Pod("p"), adjustable=True) as kubelet:
            disabled = (2, "PodResources API Get method disabled")
            await kubelet.replace(Contents(failures={"Get": disabled}))
            answer = await client.get(kubelet.socket, "default", "p")
            assert (answer.code, answer.error) == ("UNKNOWN", disabled[1])
            assert (await client.list(kubelet.socket)).code == "OK"

    async def test_a_newer_kubelet_sends_fields_that_nobody_knows(self, client):
        field_99 = b"\x9a\x06\x05newer"
        contents = Contents(pods=[Pod("p", [Container("main", [GPU])])], newer_fields=field_99)
        async with kubelet_server(adjustable=True) as kubelet:
            await kubelet.replace(contents)
            answer = await client.raw(kubelet.socket, LIST)
            # The answer, the pod, the container, the device, its topology, the NUMA node.
            assert answer.raw.count(field_99) == 6

    async def test_the_plain_one_refuses_what_upstream_cannot_do(self, kubelet):
        with pytest.raises(DialogueError, match="need -adjustable"):
            await kubelet.replace(Contents(newer_fields=b"\x08\x01"))


async def test_a_garbage_question_is_refused_and_the_dialogue_goes_on(client, kubelet):
    with pytest.raises(DialogueError, match="no method Watch of v1"):
        await client.calls(kubelet.socket, "Watch")
    both = asyncio.gather(client.list(kubelet.socket), client.list(kubelet.socket))
    assert [one.code for one in await both] == ["OK", "OK"]
