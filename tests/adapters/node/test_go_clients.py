"""Upstream's Go client and kubelet's own Go server, with our server and client between them."""

from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.node.kubelet_socket import KubeletSocket
from bursar.app.devices.counters import CallCounts
from bursar.app.devices.node_pods import FreshnessRules, NodePods
from bursar.app.devices.planning import HoldingPlanning
from bursar.app.devices.proxy import PodResourcesProxy
from bursar.app.devices.rate_limit import RateLimited, RateRules
from support.devices.kubelet_server import (
    Allocatable,
    Container,
    Contents,
    Device,
    Memory,
    Pod,
    kubelet_server,
)
from support.devices.pod_resources_proxy import SOURCES, MadeUpInventory, MadeUpPods, Told, gpu_pod
from support.devices.scripted_kubelet import serving
from support.devices.socket_clients import ALLOCATABLE, ALPHA_LIST, GET, LIST, podresources_client
from support.until import until

pytestmark = pytest.mark.integration

NIC = Device("vendor.com/nic", "nic-7", (1,))
BUSY = Container("main", [NIC], cpus=(3, 2), memory=[Memory("hugepages-2Mi", 2097152, (1,))])
GPU = "nvidia.com/gpu"


class Between:
    """A proxy over a kubelet of upstream's code, and pods made up here."""

    def __init__(self, folder, kubelet, client):
        self.kubelet, self.client = kubelet, client
        self.socket = folder / "kubelet.sock"
        self.source = MadeUpPods(SYSTEM_CLOCK)
        self.told = Told()
        self.counts = CallCounts()

    async def listed_again(self):
        listed = await self.client.list(self.socket)
        return listed if listed.code == "OK" else None

    @asynccontextmanager
    async def proxied(self, rate: RateRules):
        async with KubeletSocket(str(self.kubelet.socket)) as upstream:
            pods = NodePods(self.source, SYSTEM_CLOCK, FreshnessRules())
            proxy = PodResourcesProxy(
                kubelet=upstream,
                pods=pods,
                inventory=MadeUpInventory(),
                planning=HoldingPlanning(SOURCES),
                reporter=self.told,
                clock=SYSTEM_CLOCK,
            )
            limited = RateLimited(proxy, clock=SYSTEM_CLOCK, rules=rate)
            async with serving(limited, self.socket, counts=self.counts):
                yield
                await pods.close()


@asynccontextmanager
async def between(folder, *pods, rate=None, **options):
    async with AsyncExitStack() as stack:
        kubelet = await stack.enter_async_context(kubelet_server(*pods, **options))
        client = await stack.enter_async_context(podresources_client())
        scene = Between(folder, kubelet, client)
        await stack.enter_async_context(scene.proxied(rate or RateRules()))
        yield scene


@pytest.mark.parametrize("dial", ["path", "unix"])
async def test_grpc_go_is_understood_whatever_it_sends_as_authority(tmp_path, dial):
    """For a plain path it sends that, percent-encoded; some servers reset such streams."""
    options = {"dial": "unix"} if dial == "unix" else {}
    async with between(tmp_path, Pod("a", [BUSY], namespace="team")) as scene:
        scene.source.pods = [gpu_pod("a", "GPU-1")]
        listed = await scene.client.list(scene.socket, **options)

    assert quote(str(scene.socket), safe="") != "localhost"
    assert (listed.code, listed.error) == ("OK", "")
    assert listed.devices["team/a"]["main"] == {NIC.resource: [NIC.id], GPU: ["GPU-1"]}


async def test_without_annotations_every_answer_is_kubelets_to_the_byte(tmp_path):
    plain = Pod("plain", [Container("one"), Container("two")], namespace="team")
    async with between(tmp_path, adjustable=True) as scene:
        contents = Contents(
            pods=[Pod("a", [BUSY], namespace="team"), plain],
            allocatable=Allocatable([NIC], [0, 1], [Memory("memory", 2**30)]),
            newer_fields=b"\xfa\x3f\x03new",
        )
        await scene.kubelet.replace(contents)
        scene.source.pods = [gpu_pod("a"), gpu_pod("plain")]
        request = b"\x0a\x01a\x12\x04team"
        for method, asked in ((LIST, b""), (GET, request), (ALLOCATABLE, b""), (ALPHA_LIST, b"")):
            ours = await scene.client.raw(scene.socket, method, asked)
            theirs = await scene.client.raw(scene.kubelet.socket, method, asked)

            assert (ours.code, ours.raw) == ("OK", theirs.raw)
            assert theirs.raw


async def test_failures_of_kubelet_arrive_as_they_are(tmp_path):
    async with between(tmp_path, adjustable=True) as scene:
        scene.source.pods = [gpu_pod("a")]
        missing = await scene.client.get(scene.socket, "team", "nobody")
        refused = (7, "not today: ü")
        await scene.kubelet.replace(Contents(failures={"List": refused}))
        listed = await scene.client.list(scene.socket)

    assert (missing.code, missing.error) == ("UNKNOWN", "pod nobody in namespace team not found")
    assert (listed.code, listed.error) == ("PERMISSION_DENIED", refused[1])


async def test_fifty_clients_at_once_cost_kubelet_a_few_calls(tmp_path):
    """Kubelet itself would refuse most of them."""
    rate = RateRules(per_second=0)
    async with between(tmp_path, Pod("a", namespace="team"), rate=rate) as scene:
        scene.source.pods = [gpu_pod("a", "GPU-1")]
        await scene.kubelet.replace(Contents(pods=[Pod("a", namespace="team")], delay_ms=200))
        answers = await scene.client.calls(scene.socket, parallel=50)
        served = await scene.kubelet.lists_served()

    assert {answer.code for answer in answers} == {"OK"}
    assert {answer.devices["team/a"]["main"][GPU][0] for answer in answers} == {"GPU-1"}
    # Calls that arrive during a call share the next one. On a busy machine clients start late.
    assert served <= len(answers) // 5


async def test_rapid_calls_are_refused_as_kubelet_refuses_them(tmp_path):
    async with between(tmp_path, Pod("a", namespace="team")) as scene:
        answers = await scene.client.calls(scene.socket, times=200, quiet=True)

    refused = {(each.code, each.error) for each in answers if each.code != "OK"}
    assert refused == {("RESOURCE_EXHAUSTED", "rejected by rate limit")}
    assert sum(each.code == "OK" for each in answers) >= 10


async def test_kubelet_that_restarts_is_found_again(tmp_path):
    async with between(tmp_path, Pod("a", namespace="team")) as scene:
        scene.source.pods = [gpu_pod("a", "GPU-1")]
        before = await scene.client.list(scene.socket)
        await scene.kubelet.kill()
        during = await scene.client.list(scene.socket)
        await scene.kubelet.start()
        after = await until(scene.listed_again, "kubelet is found again")

    assert during.code == "UNAVAILABLE"
    assert before.devices == after.devices == {"team/a": {"main": {GPU: ["GPU-1"]}}}


async def test_kubelet_that_hangs_costs_clients_their_own_deadline(tmp_path):
    async with between(tmp_path, Pod("a", namespace="team")) as scene:
        await scene.client.list(scene.socket)
        scene.kubelet.pause()
        late = await scene.client.list(scene.socket, timeout_ms=300)
        gone = await scene.client.list(scene.socket, cancel_ms=100)
        await until(lambda: scene.counts.under_way == 0)
        scene.kubelet.resume()
        back = await scene.client.list(scene.socket)

    assert (late.code, gone.code, back.code) == ("DEADLINE_EXCEEDED", "CANCELLED", "OK")


async def test_answer_of_fifteen_mebibytes_passes(tmp_path):
    name = "x" * 1000
    containers = [Container("main", [Device("vendor.com/nic", f"{name}{n}") for n in range(1500)])]
    pods = [Pod(f"p{n}", containers, namespace="team") for n in range(10)]
    async with between(tmp_path, *pods, Pod("a", namespace="team")) as scene:
        scene.source.pods = [gpu_pod("a", "GPU-1")]
        fits = await scene.client.list(scene.socket, max=16 << 20)
        refused = await scene.client.list(scene.socket, max=4 << 20)

    assert (fits.code, refused.code) == ("OK", "RESOURCE_EXHAUSTED")
    assert fits.size > 14 << 20
    assert fits.devices["team/a"]["main"] == {GPU: ["GPU-1"]}
