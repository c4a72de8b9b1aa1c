"""`bursar agent` as a process, between kubelet's own server and a client of upstream's making."""

import asyncio
import json
import os
import signal

import pytest

from bursar.adapters.telemetry.catalogue.metric import Process
from support.devices.agent import AgentProcess, annotated_pod, gpu_pod, pods_port
from support.devices.kubelet_server import (
    Allocatable,
    Container,
    Contents,
    Device,
    Pod,
    kubelet_server,
)
from support.log_lines import messages
from support.metrics.printed_metrics import differences
from support.until import until, until_blocking

pytestmark = pytest.mark.integration

GPU = "nvidia.com/gpu"


async def test_every_method_of_both_versions_shows_what_koordinator_gave(client, tmp_path):
    own = Container("main", [Device("example.com/nic", "nic-0")])
    async with kubelet_server(Pod("trainer", [own]), Pod("other")) as kubelet:
        with (
            pods_port(gpu_pod("trainer", "GPU-1", "GPU-0")) as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            listed = await client.list(agent.socket)
            old = await client.list(agent.socket, version="v1alpha1")
            one = await client.get(agent.socket, "default", "trainer")
            nobody = await client.get(agent.socket, "default", "nobody")
            directly = await client.get(kubelet.socket, "default", "nobody")
            allocatable = await client.allocatable(agent.socket)
            ready = await asyncio.to_thread(agent.page, "/readyz")

    held = {"example.com/nic": ["nic-0"], GPU: ["GPU-0", "GPU-1"]}
    for answer in (listed, old):
        assert answer.code == "OK", answer.error
        assert answer.devices["default/trainer"] == {"main": held}
        assert answer.devices["default/other"] == {"main": {}}
    assert one.devices == {"default/trainer": {"main": held}}
    assert (
        (nobody.code, nobody.error)
        == (directly.code, directly.error)
        == (
            "UNKNOWN",
            "pod nobody in namespace default not found",
        )
    )
    assert allocatable.code == "OK"
    assert ready[0] == 200, ready[1]


async def test_it_shows_its_state_on_a_page_and_in_its_log(client, tmp_path):
    async with kubelet_server(Pod("trainer")) as kubelet:
        with (
            pods_port(gpu_pod("trainer", "GPU-0")) as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            await client.list(agent.socket)
            page = await asyncio.to_thread(agent.page, "/statusz?format=json")
            text = await asyncio.to_thread(agent.page, "/statusz")
            os.kill(agent.program.pid, signal.SIGUSR1)
            await until_blocking(
                lambda: "state of this process" in messages(agent.log()), "the state is logged"
            )
            healthy = await asyncio.to_thread(agent.page, "/healthz")

    state = json.loads(page[1])
    assert (page[0], text[0], healthy[0]) == (200, 200, 200)
    assert state["pods"]["known"] == 1
    assert state["pods"]["resident_bytes_per_pod"] == state["process"]["resident_bytes"]
    assert "  serving: yes\n" in text[1]
    assert "trainer" not in page[1] + text[1]


async def test_what_it_did_is_in_its_metrics(client, tmp_path):
    bad = annotated_pod("bad", '{"gpu":[null]}', asks={GPU: "1"})
    requests = 'bursar_pod_resources_requests_total{{version="v1",method="{}",code="{}"}}'
    async with kubelet_server(Pod("trainer"), Pod("bad")) as kubelet:
        with (
            pods_port(gpu_pod("trainer", "GPU-0"), bad) as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            await client.list(agent.socket)
            await client.get(agent.socket, "default", "nobody")
            # A call is counted when it has ended, which may be after the client has its answer.
            found = await until_blocking(
                lambda: requests.format("Get", "UNKNOWN") in (got := agent.metrics()) and got,
                "the call of Get is counted",
            )
            log, page = agent.log(), agent.page("/metrics")[1]

    assert differences(page, Process.AGENT) == []
    assert found[requests.format("List", "OK")] == 1
    assert found[requests.format("Get", "UNKNOWN")] == 1
    assert found['bursar_kubelet_calls_total{version="v1",method="List",code="OK"}'] == 1
    assert found['bursar_device_problems{kind="unreadable"}'] == 1
    assert found["bursar_pod_resources_devices_added_total"] == 1
    assert found["bursar_pod_source_reads_total"] >= 1
    assert found["bursar_inventory_known"] == 0
    assert "pod default/bad: unreadable: koordinator: " in log


HOSTILE = {
    "null": '{"gpu":[null]}',
    "garbage": "\x00" * 2**18,
    "deep": '{"gpu":' + "[" * 100_000,
    "number": '{"gpu":[{"minor":1e999999,"id":"GPU-0"}]}',
    "spoof": '{"gpu":[{"minor":0,"id":"GPU-0"}]}',
}


async def test_weakness_1_a_hostile_annotation_costs_only_its_own_pod(client, tmp_path):
    pods = [annotated_pod(name, text) for name, text in HOSTILE.items()]
    async with kubelet_server(Pod("trainer"), *(Pod(name) for name in HOSTILE)) as kubelet:
        with (
            pods_port(*pods, gpu_pod("trainer", "GPU-0")) as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            answers = [await client.list(agent.socket) for _ in range(3)]
            is_alive = agent.program.is_running

    assert is_alive
    for answer in answers:
        nothing = {f"default/{name}": {"main": {}} for name in HOSTILE}
        assert answer.devices == {"default/trainer": {"main": {GPU: ["GPU-0"]}}, **nothing}


async def test_a_kubelet_that_comes_late_or_again_is_found(client, tmp_path):
    socket = tmp_path / "kubelet" / "kubelet.sock"
    with (
        pods_port(gpu_pod("trainer", "GPU-0")) as port,
        AgentProcess(tmp_path, *port.options, "--rate=0", kubelet_socket=socket) as agent,
    ):
        before = await client.list(agent.socket)
        async with kubelet_server(Pod("trainer"), socket=socket) as kubelet:
            await until_blocking(lambda: agent.page("/readyz")[0] == 200, "ready")
            answers = [await client.list(agent.socket)]
            await kubelet.restart()

            async def is_answered() -> bool:
                answers.append(await client.list(agent.socket))
                return answers[-1].code == "OK"

            await until(is_answered, "kubelet is found again")

    assert before.code == "UNAVAILABLE"
    assert {each.code for each in answers} <= {"OK", "UNAVAILABLE"}
    assert answers[-1].devices["default/trainer"] == {"main": {GPU: ["GPU-0"]}}


async def test_a_kubelet_that_hangs_costs_clients_their_own_deadline(client, tmp_path):
    async with kubelet_server(Pod("trainer")) as kubelet:
        with (
            pods_port() as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            await client.list(agent.socket)
            kubelet.pause()
            late = await client.list(agent.socket, timeout_ms=300)
            kubelet.resume()
            back = await client.list(agent.socket)

    assert (late.code, back.code) == ("DEADLINE_EXCEEDED", "OK")


async def test_weakness_3_pods_that_cannot_be_read_keep_nobody_from_starting(client, tmp_path):
    short = ("--pods-max-age=50ms", "--stale-for=500ms")
    async with kubelet_server(Pod("trainer")) as kubelet:
        with (
            pods_port(gpu_pod("trainer", "GPU-0")) as port,
            AgentProcess(tmp_path, *port.options, *short, kubelet_socket=kubelet.socket) as agent,
        ):
            assert (await client.list(agent.socket)).devices["default/trainer"]["main"]
            port.fail()
            last_good = await client.list(agent.socket)
            await until_blocking(lambda: agent.page("/readyz")[0] == 503, "the pods are too old")
            bare = await client.list(agent.socket)
            await until_blocking(
                lambda: "cannot read the pods of this node" in messages(agent.log()), "a line"
            )
            found = await asyncio.to_thread(agent.metrics)
            parts = await asyncio.to_thread(agent.health)
            port.tell([gpu_pod("trainer", "GPU-0")])
            await until_blocking(lambda: agent.page("/readyz")[0] == 200, "ready again")
            again = await client.list(agent.socket)
            await until_blocking(
                lambda: "can read the pods of this node again" in messages(agent.log()),
                "another line",
            )

    assert again.devices == last_good.devices
    assert last_good.devices["default/trainer"] == {"main": {GPU: ["GPU-0"]}}
    assert (bare.code, bare.devices["default/trainer"]) == ("OK", {"main": {}})
    assert found['bursar_pod_resources_degraded_total{how="bare"}'] >= 1
    assert found["bursar_pod_source_failing_seconds"] > 0
    assert "the answer was 500" in parts["pods"]


async def test_who_wants_no_pod_without_its_devices_gets_an_error_instead(client, tmp_path):
    async with kubelet_server(Pod("trainer")) as kubelet:
        with (
            pods_port() as port,
            AgentProcess(
                tmp_path, *port.options, "--when-unknown=refuse", kubelet_socket=kubelet.socket
            ) as agent,
        ):
            port.fail()
            refused = await client.list(agent.socket)

    assert refused.code == "UNAVAILABLE"
    assert "the pods of this node are not known" in refused.error


async def test_options_reach_the_answer(client, tmp_path):
    """Each of those that change answers, all in one process."""
    options = ("--only-with-devices", "--trust=any", "--share-suffix", "--scheduler=koord")
    shared = json.dumps({"gpu": [{"minor": 0, "id": "GPU-0", "resources": {GPU_CORE: "50"}}]})
    pods = [annotated_pod(name, shared) for name in ("a", "b", "c")]
    for pod in pods[:2]:
        pod["spec"]["schedulerName"] = "koord"
    async with kubelet_server(*(Pod(name) for name in "abcd")) as kubelet:
        with (
            pods_port(*pods) as port,
            AgentProcess(tmp_path, *port.options, *options, kubelet_socket=kubelet.socket) as agent,
        ):
            listed = await client.list(agent.socket)

    assert listed.devices == {
        "default/a": {"main": {GPU: ["GPU-0::0"]}},
        "default/b": {"main": {GPU: ["GPU-0::1"]}},
    }


GPU_CORE = "koordinator.sh/gpu-core"


async def test_sources_of_others_are_read_from_a_file(client, tmp_path):
    sources = tmp_path / "sources.yaml"
    sources.write_text(
        """
        sources:
        - name: ours
          annotation: example.com/devices
          layout: {shape: list, kind: card, fields: {device: serial}}
          kinds: {card: {resource: example.com/card}}
        """
    )
    pod = annotated_pod("p", "{}", asks={"example.com/card": "1"})
    pod["metadata"]["annotations"] = {"example.com/devices": '[{"serial": "c-7"}]'}
    async with kubelet_server(Pod("p")) as kubelet:
        with (
            pods_port(pod) as port,
            AgentProcess(
                tmp_path, *port.options, f"--sources={sources}", kubelet_socket=kubelet.socket
            ) as agent,
        ):
            listed = await client.list(agent.socket)

    assert listed.devices["default/p"] == {"main": {"example.com/card": ["c-7"]}}


async def test_kubelets_allocatable_devices_are_passed_on(client, tmp_path):
    there = Allocatable(devices=[Device("example.com/nic", "nic-0", numa=[1])], cpus=[0, 1])
    async with kubelet_server() as kubelet:
        await kubelet.replace(Contents(allocatable=there))
        with (
            pods_port() as port,
            AgentProcess(tmp_path, *port.options, kubelet_socket=kubelet.socket) as agent,
        ):
            ours = await client.allocatable(agent.socket)
            directly = await client.allocatable(kubelet.socket)

    assert ours.raw == directly.raw
    assert ours.allocatable == {"example.com/nic": ["nic-0"]}
