"""dcgm-exporter's own tests of its pod mapping, row by row: at kubelet's socket, and at ours.

A row is read twice by dcgm-exporter's rules. First kubelet has the devices and is asked directly;
then a real `bursar agent` is, to which pods bring the same devices in an annotation wherever
that can say them, so that what is read is what the agent added. Kubelet names the rest.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from support.devices.agent import Raw
from support.devices.kubelet_server import Claim, ClaimDevice, Container, Device, Pod
from support.devices.node_with_agent import (
    GPU,
    Node,
    Tenant,
    gpus,
    node_with_agent,
    shared_gpu,
)
from support.devices.socket_clients import DcgmAnswer, podresources_client

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

UUID = "GPU-7d3c1f20-52b4-4e0a-9a61-0c8f5be2a914"
MIG = f"MIG-{UUID}"
A100, MIG_10GB, MIG_5GB = "nvidia.com/a100", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.5gb"
SETTINGS_KEY = "example.com/devices"
SETTINGS = {
    "sources": [
        {
            "name": "others",
            "annotation": SETTINGS_KEY,
            "kinds": {name: {"resource": name} for name in (GPU, A100, MIG_10GB, MIG_5GB)},
        }
    ]
}
INSTANCES = {MIG: "0-3"}
"""What NVML tells: the third instance of GPU 0."""


# ------------------------------------------------------------------ who gives the devices

Giver = Callable[[str, Sequence[Device]], Tenant]


def by_kubelet(name: str, devices: Sequence[Device]) -> Tenant:
    return Tenant(name, asks={"main": {}}, given={"main": devices})


def by_koordinator(name: str, devices: Sequence[Device]) -> Tenant:
    return Tenant(name, gpus(*(each.id for each in devices)), asks=asking(devices))


def by_koordinator_in_half(name: str, devices: Sequence[Device]) -> Tenant:
    """The agent numbers the shares: 0 and 1, as they are in the rows."""
    [device] = devices
    whole, _, _ = device.id.partition("::")
    return Tenant(name, shared_gpu(whole, 50), asks=asking(devices))


def by_settings(name: str, devices: Sequence[Device]) -> Tenant:
    """Of a source that only the agent's settings know."""
    written: dict[str, list[Raw]] = {}
    for each in devices:
        written.setdefault(each.resource, []).append({"id": each.id})
    annotations = {SETTINGS_KEY: json.dumps(written)}
    return Tenant(name, asks=asking(devices), metadata={"annotations": annotations})


def asking(devices: Sequence[Device]) -> Mapping[str, Mapping[str, str]]:
    counted = Counter(each.resource for each in devices)
    return {"main": {resource: str(count) for resource, count in counted.items()}}


# ------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class Reading:
    """What is told by kubelet and by the agent, of pods with these names."""

    names: Sequence[str]
    answers: Sequence[DcgmAnswer]

    @property
    def labels(self) -> list[list[tuple[str, str]]]:
        return [each.labels for each in self.answers]

    def user(self, number: int = 0, **more: Any) -> Raw:
        return {"namespace": "default", "pod": self.names[number], "container": "main", **more}


@dataclass
class Scene:
    node: Node
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def read(
        self, by: Giver, *pods: Sequence[Device], metrics: Sequence[Any] = (), **settings: Any
    ) -> Reading:
        """Pods are new each time, for the agent looks for those at once."""
        node, row = self.node, next(self.numbers)
        names = [f"row-{row}-{number}" for number in range(len(pods))]
        holders = list(zip(names, pods, strict=True))
        await node.kubelet.show(*(by_kubelet(*each).listed() for each in holders))
        answers = [await node.client.dcgm(node.kubelet.socket, metrics, **settings)]
        listed = await node.client.list(node.kubelet.socket)
        await node.has(*(by(*each) for each in holders))
        if by is not by_kubelet:
            bare = await node.client.list(node.kubelet.socket)
            assert bare.devices == {f"default/{name}": {"main": {}} for name in names}
        assert (await node.client.list(node.socket)).devices == listed.devices
        answers.append(await node.client.dcgm(node.socket, metrics, **settings))
        return Reading(names, answers)

    async def read_claims(self, claim: Claim, *metrics: Any, **settings: Any) -> Reading:
        """Claims are kubelet's: they pass through."""
        node, name = self.node, f"row-{next(self.numbers)}"
        node.pods.tell([Tenant(name, asks={"main": {}}).written()])
        await node.kubelet.show(Pod(name, [Container("main", claims=[claim])]))
        sockets = (node.kubelet.socket, node.socket)
        question = {"dra": True, **settings}
        return Reading([name], [await node.client.dcgm(it, metrics, **question) for it in sockets])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory):
    """One kubelet and one agent for all rows."""
    folder = tmp_path_factory.mktemp("dcgm")
    sources = folder / "sources.yaml"
    sources.write_text(json.dumps(SETTINGS))
    options = (f"--sources={sources}", "--share-suffix", "--no-events")
    async with (
        podresources_client() as client,
        node_with_agent(folder, *options, client=client) as node,
    ):
        yield Scene(node)


# ------------------------------------------------------------------ the table

Metric = Mapping[str, object]


def whole(uuid: str = UUID, **more: object) -> Metric:
    """The metric of a GPU that is not cut."""
    return {"index": 0, "uuid": uuid, **more}


def instance(number: int) -> Metric:
    """The metric of a part that MIG cut off: looked up by its instance, whatever the ID type."""
    return {"index": 0, "uuid": MIG, "instance": number}


@dataclass(frozen=True)
class Row:
    id: str
    """It begins with the type of ID, and ends with `virtual` where virtual GPUs are told apart."""
    metric: Metric
    ids: Sequence[str]
    """A pod for each."""
    by: Giver
    resource: str = GPU
    names: Sequence[str] = ()
    """Resources that the exporter is told of, beside NVIDIA's own."""
    shares: Sequence[str] = ("",)
    """The label `vgpu` of each pod's series, or none."""

    @property
    def settings(self) -> Raw:
        id_type, *_ = self.id.split(",")
        return {
            "id_type": id_type,
            "virtual_gpus": self.id.endswith(", virtual"),
            "resource_names": list(self.names),
            "instances": INSTANCES,
        }


NAMED = {"resource": A100, "names": [A100]}
IN_MIG = {"resource": MIG_10GB}
TABLE = [
    Row("uid, a UUID", whole(), [UUID], by_koordinator),
    Row("uid, a MIG ID", whole(MIG), [MIG], by_koordinator),
    Row("uid, a MIG ID for the UUID in it", whole(), [MIG], by_koordinator),
    Row("device-name, a MIG ID", instance(3), [MIG], by_koordinator),
    Row("device-name, an instance", instance(0), ["nvidia0/gi0"], by_settings),
    Row("device-name, no number", whole(device="0"), ["0/vgpu"], by_settings),
    Row("uid, no number", whole(), [f"{UUID}::"], by_koordinator),
    Row("uid, a MIG resource", instance(3), [MIG], by_settings, **IN_MIG),
    Row("uid, a named resource", whole(), [UUID], by_settings, **NAMED),
    Row("device-name, in instance 0", instance(0), ["nvidia0/gi0/vgpu0"], by_settings),
    Row("device-name, in instance 1", instance(1), ["nvidia0/gi1/vgpu0"], by_settings),
    Row("uid, a UUID, virtual", whole(), [UUID], by_koordinator),
    Row("uid, a MIG ID, virtual", whole(MIG), [MIG], by_koordinator),
    Row("uid, a MIG ID for the UUID in it, virtual", whole(), [MIG], by_koordinator),
    Row("device-name, a MIG ID, virtual", instance(3), [MIG], by_koordinator),
    Row("device-name, an instance, virtual", instance(0), ["nvidia0/gi0"], by_settings),
    Row("device-name, no number, virtual", whole(device="0"), ["0/vgpu"], by_settings),
    Row("uid, no number, virtual", whole(), [f"{UUID}::"], by_koordinator),
    Row("uid, a MIG resource, virtual", instance(3), [MIG], by_settings, **IN_MIG),
    Row("uid, a named resource, virtual", whole(), [UUID], by_settings, **NAMED),
    Row(
        "device-name, a share of an instance, virtual",
        *(instance(3), ["nvidia0/gi3/vgpu0"], by_settings),
        shares=["#0"],
    ),
    Row(
        "device-name, a share of a GPU, virtual",
        *(whole(device="nvidia0"), ["nvidia0/vgpu1"], by_settings),
        shares=["#1"],
    ),
    Row(
        "uid, a share of a UUID, virtual",
        *(whole(), [f"{UUID}::0"], by_koordinator_in_half),
        shares=["#0"],
    ),
    Row(
        "uid, a share of a MIG ID, virtual",
        *(instance(3), [f"{MIG}::4"], by_kubelet, MIG_10GB),
        shares=["#4"],
    ),
    Row(
        "device-name, two shares of an instance, virtual",
        *(instance(3), ["nvidia0/gi3/vgpu0", "nvidia0/gi3/vgpu1"], by_settings),
        shares=["#0", "#1"],
    ),
    Row(
        "device-name, two shares of a GPU, virtual",
        *(whole(device="nvidia0"), ["nvidia0/vgpu1", "nvidia0/vgpu2"], by_settings),
        shares=["#1", "#2"],
    ),
    Row(
        "uid, two shares of a UUID, virtual",
        *(whole(), [f"{UUID}::0", f"{UUID}::1"], by_koordinator_in_half),
        shares=["#0", "#1"],
    ),
    Row(
        "uid, two shares of a MIG ID, virtual",
        *(instance(3), [f"{MIG}::4", f"{MIG}::5"], by_kubelet, MIG_10GB),
        shares=["#4", "#5"],
    ),
    Row("uid, nobody, virtual", instance(3), [], by_settings, shares=[]),
    Row("uid, nobody", instance(3), [], by_settings, shares=[]),
]


@pytest.mark.parametrize("row", TABLE, ids=[row.id for row in TABLE])
async def test_the_table(scene, row):
    pods = ([Device(row.resource, each)] for each in row.ids)
    told = await scene.read(row.by, *pods, metrics=[row.metric], **row.settings)

    users = [
        f"default/{name}/main{share}" for name, share in zip(told.names, row.shares, strict=True)
    ]
    # A metric is never left out because nobody uses the GPU.
    expected = [(row.metric["uuid"], user) for user in users or [""]]
    assert told.labels == [expected, expected]


# ------------------------------------------------------------------ the mark of a share


@pytest.mark.parametrize(
    ("id", "share", "by"),
    [
        pytest.param("nvidia0/vgpu0", "0", by_settings, id="a device name, shared"),
        pytest.param("nvidia0", None, by_settings, id="a device name"),
        pytest.param("nvidia0/gi0/vgpu1", "1", by_settings, id="an instance, shared"),
        pytest.param("nvidia0/gi0", None, by_settings, id="an instance"),
        pytest.param(f"{UUID}::0", "0", by_koordinator_in_half, id="a UUID, shared"),
        pytest.param(UUID, None, by_koordinator, id="a UUID"),
        pytest.param(f"{MIG}::3", "3", by_kubelet, id="a MIG ID, shared"),
        pytest.param(MIG, None, by_koordinator, id="a MIG ID"),
    ],
)
async def test_the_mark_of_a_share_is_the_label(scene, id, share, by):
    told = await scene.read(by, [Device(GPU, id)], virtual_gpus=True, instances=INSTANCES)

    user = told.user() if share is None else told.user(vgpu=share)
    assert [each.mapping[id] for each in told.answers] == [[user], [user]]


@pytest.mark.parametrize(
    ("id", "names", "by"),
    [
        pytest.param(f"{MIG}::7", {f"{MIG}::7", UUID, "0-3"}, by_kubelet, id="MIG and number"),
        pytest.param(MIG, {MIG, UUID, "0-3"}, by_koordinator, id="MIG"),
        pytest.param(UUID, {UUID}, by_koordinator, id="GPU"),
        pytest.param(f"{UUID}::0", {UUID, f"{UUID}::0"}, by_koordinator_in_half, id="and number"),
        pytest.param("", {""}, by_kubelet, id="empty"),
        pytest.param(f"{MIG}::", {f"{MIG}::", UUID, "0-3"}, by_koordinator, id="MIG and no number"),
    ],
)
async def test_the_mark_of_a_share_is_stripped(scene, id, names, by):
    """NVML knows no shares: the instance is found only by what is left."""
    told = await scene.read(by, [Device(GPU, id)], instances=INSTANCES)

    expected = {name: [told.user()] for name in names}
    assert [each.mapping for each in told.answers] == [expected, expected]


# ------------------------------------------------------------------ several GPUs


async def test_each_gpu_has_the_labels_of_its_pod(scene):
    uuids = ["GPU-0", "GPU-1"]
    told = await scene.read(by_koordinator, *([Device(GPU, it)] for it in uuids), metrics=uuids)

    expected = [
        {"uuid": "GPU-0", "user": told.user(0)},
        {"uuid": "GPU-1", "user": told.user(1)},
    ]
    assert [each.series for each in told.answers] == [expected, expected]


async def test_what_is_neither_nvidias_nor_named_is_skipped(scene):
    devices = [Device(GPU, "gpu-0"), Device(A100, "gpu-1"), Device(MIG_5GB, "mig-0")]
    named = await scene.read(by_settings, devices, resource_names=[A100])
    unnamed = await scene.read(by_settings, devices)

    assert [set(each.mapping) for each in named.answers] == [{"gpu-0", "gpu-1", "mig-0"}] * 2
    assert [set(each.mapping) for each in unnamed.answers] == [{"gpu-0", "mig-0"}] * 2


@pytest.mark.parametrize(
    ("per_process", "of_the_device"),
    [
        pytest.param(False, [], id="a metric of the device"),
        pytest.param(True, [("GPU-0", "")], id="a metric by process"),
    ],
)
async def test_unused_gpus_keep_their_metrics(scene, per_process, of_the_device):
    told = await scene.read(
        *(by_koordinator, [Device(GPU, "GPU-0")]),
        metrics=["GPU-0", "GPU-1", "GPU-2"],
        virtual_gpus=True,
        per_process=per_process,
    )

    used = ("GPU-0", f"default/{told.names[0]}/main")
    expected = [*of_the_device, used, ("GPU-1", ""), ("GPU-2", "")]
    assert told.labels == [expected, expected]


@pytest.mark.parametrize(
    ("per_process", "of_the_device"),
    [
        pytest.param(False, 0, id="a metric of the instance"),
        pytest.param(True, 1, id="an instance's metric by process"),
    ],
)
async def test_unused_instances_keep_their_metrics(scene, per_process, of_the_device):
    told = await scene.read(
        *(by_settings, [Device(MIG_5GB, "nvidia0/gi7/vgpu0")]),
        metrics=[instance(number) for number in (7, 12, 13)],
        id_type="device-name",
        virtual_gpus=True,
        per_process=per_process,
    )

    used = (MIG, f"default/{told.names[0]}/main#0")
    expected = [*[(MIG, "")] * of_the_device, used, (MIG, ""), (MIG, "")]
    assert told.labels == [expected, expected]


async def test_mig_end_to_end(scene):
    """Eight GPUs, the first of them cut in two; a pod has that GPU, and its instance 11."""
    parts = [{"index": 0, "uuid": UUID, "instance": number} for number in (11, 13)]
    others = [{"index": index, "uuid": f"GPU-{index}"} for index in range(1, 8)]
    told = await scene.read(
        *(by_koordinator, [Device(GPU, UUID), Device(GPU, MIG)]),
        metrics=[*parts, *others],
        instances={MIG: "0-11"},
    )

    used, rest = (UUID, f"default/{told.names[0]}/main"), [(each["uuid"], "") for each in others]
    assert told.labels == [[used, (UUID, ""), *rest]] * 2
    expected = {name: [told.user()] for name in (UUID, MIG, "0-11")}
    assert [each.mapping for each in told.answers] == [expected, expected]


# ------------------------------------------------------------------ claims

POOL_AND_DEVICE = "pool-a/gpu-x"
CLAIM = Claim("c1", [ClaimDevice("gpu.nvidia.com", *POOL_AND_DEVICE.split("/"))], "team")
CLAIM_LABELS = {
    "namespace": "team",
    "name": "c1",
    "driver": "gpu.nvidia.com",
    "pool": "pool-a",
    "device": "gpu-x",
}


@pytest.mark.parametrize(
    "uuid",
    [pytest.param(UUID, id="the UUID"), pytest.param("GPU-new", id="the UUID, updated")],
)
async def test_a_claimed_gpu_is_found_by_the_uuid_that_the_api_server_tells(scene, uuid):
    claimable = {POOL_AND_DEVICE: {"uuid": uuid}}
    told = await scene.read_claims(CLAIM, UUID, "GPU-new", claimable=claimable)

    user = told.user(claim=CLAIM_LABELS)
    expected = [
        {"uuid": each, "user": user} if each == uuid else {"uuid": each}
        for each in (UUID, "GPU-new")
    ]
    assert [each.series for each in told.answers] == [expected, expected]
    assert [each.claimed for each in told.answers] == [{uuid: [user]}] * 2


async def test_a_claimed_gpu_whose_uuid_is_missing_has_no_labels(scene):
    told = await scene.read_claims(CLAIM, UUID, claimable={})

    assert [each.series for each in told.answers] == [[{"uuid": UUID}]] * 2
    assert [each.claimed for each in told.answers] == [{}, {}]


async def test_a_claimed_part_is_found_by_its_instance(scene):
    part = {"uuid": MIG, "profile": "1g.12gb"}
    told = await scene.read_claims(
        *(CLAIM, instance(3), instance(4), whole("GPU-parent")),
        claimable={POOL_AND_DEVICE: {"uuid": "GPU-parent", "mig": part}},
        instances=INSTANCES,
    )

    user = told.user(claim={**CLAIM_LABELS, "mig": part})
    expected = [{"uuid": MIG, "user": user}, {"uuid": MIG}, {"uuid": "GPU-parent"}]
    assert [each.series for each in told.answers] == [expected, expected]
    assert [each.claimed for each in told.answers] == [{"0-3": [user]}] * 2


@pytest.mark.parametrize("part", ["", "MIG-unknown"])
async def test_a_claimed_part_without_a_known_instance_has_no_labels(scene, part):
    told = await scene.read_claims(
        *(CLAIM, instance(3), whole("GPU-parent")),
        claimable={POOL_AND_DEVICE: {"uuid": "GPU-parent", "mig": {"uuid": part}}},
        instances=INSTANCES,
    )

    assert told.labels == [[(MIG, ""), ("GPU-parent", "")]] * 2
    assert [each.claimed for each in told.answers] == [{}, {}]
