"""Which resizes are refused for the node's sake: the embedded cluster's words are the server's."""

import itertools
import json
import random
from dataclasses import dataclass, field

import pytest

from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import NAMESPACES, NODES, PODS
from bursar.app.cluster.ports import ClusterError, Key, Patch, PatchKind
from support.builders.manifests import node_manifest, pod_manifest
from support.until import until

PREFIX = "resize"
LINUX, BARE, WINDOWS, MODERN, NOWHERE = (
    f"{PREFIX}-{kind}" for kind in ("linux", "bare", "windows", "modern", "nowhere")
)
FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]
POLICY = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
FIRST, SECOND = "/spec/containers/0", "/spec/initContainers/0"
POD_LEVEL = {"resources": {"requests": {"cpu": "2", "memory": "2Gi"}}}


def a_node(name, system="", features=()):
    metadata = {"labels": {"kubernetes.io/os": system} if system else {}}
    made = node_manifest(
        name, "cpu=4 memory=4Gi pods=9", metadata=metadata, declaredFeatures=[*features]
    )
    return made | {"spec": {"unschedulable": True}}


WORLD = [
    a_node(LINUX, "linux"),
    a_node(BARE),
    a_node(WINDOWS, "windows"),
    a_node(MODERN, "linux", FEATURES),
]


def starting(**more):
    container = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}, **more}
    return {"initContainers": [container]}


def put(path, value):
    return {"op": "add", "path": path, "value": value}


def cpu(amount, of=FIRST):
    return put(f"{of}/resources/requests/cpu", amount)


def memory(amount):
    return put(f"{FIRST}/resources/requests/memory", amount)


@dataclass(frozen=True)
class Case:
    id: str
    node: str
    change: list = field(default_factory=list)
    says: str = ""
    spec: dict = field(default_factory=dict)


ROOM = "node didn't have enough allocatable resources: "
FEATURE = "pod update requires features {} which are not available on node "
_, INITS = FEATURES
CASES = [
    Case("fills the node", LINUX, [cpu("4")]),
    Case("too much cpu", LINUX, [cpu("4.0001")], ROOM + "cpu, requested: 4001, allocatable: 4000"),
    Case(
        "too much of both",
        LINUX,
        [cpu("5"), memory("5Gi")],
        ROOM + "cpu, requested: 5000, allocatable: 4000; memory, requested: 5368709120, "
        "allocatable: 4294967296",
    ),
    Case("no system", BARE, [cpu("5")], ROOM + "cpu, requested: 5000, allocatable: 4000"),
    Case("nothing changes", WINDOWS, [put(f"{FIRST}/image", "other")]),
    Case(
        "not linux",
        WINDOWS,
        [cpu("9")],
        f'pod resize is only supported on linux nodes, node "{WINDOWS}" is "windows"',
    ),
    Case("node gone", NOWHERE, [cpu("2")], f'node "{NOWHERE}" not found'),
    Case("node gone, nothing changes", NOWHERE, []),
    Case("without a node", "", [cpu("900")]),
    Case("sidecar", LINUX, [cpu("2", SECOND)], spec=starting(restartPolicy="Always")),
    Case(
        "sidecar too large",
        LINUX,
        [cpu("3500m", SECOND)],
        ROOM + "cpu, requested: 4500, allocatable: 4000",
        starting(restartPolicy="Always"),
    ),
    Case("init", LINUX, [cpu("2", SECOND)], FEATURE.format(INITS) + f'"{LINUX}"', starting()),
    Case("init, declared", MODERN, [cpu("2", SECOND)], spec=starting()),
    Case(
        "init too large",
        MODERN,
        [cpu("20", SECOND)],
        ROOM + "cpu, requested: 20000, allocatable: 4000",
        starting(),
    ),
    Case(
        "pod level and init",
        LINUX,
        [cpu("3", "/spec"), cpu("2", SECOND)],
        FEATURE.format(", ".join(FEATURES)) + f'"{LINUX}"',
        POD_LEVEL | starting(),
    ),
    Case("pod level, declared", MODERN, [cpu("3", "/spec")], spec=POD_LEVEL),
    Case(
        "pod level too large",
        MODERN,
        [cpu("30", "/spec")],
        ROOM + "cpu, requested: 30000, allocatable: 4000",
        POD_LEVEL,
    ),
    Case(
        "policy",
        WINDOWS,
        [put(f"{FIRST}/resizePolicy", POLICY)],
        "spec: Forbidden: only cpu and memory resources are mutable",
    ),
    Case(
        "policy of a sidecar, and too large",
        LINUX,
        [put(f"{SECOND}/resizePolicy", POLICY), cpu("9")],
        "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar "
        "containers are mutable",
        starting(restartPolicy="Always"),
    ),
]


def pod_of(case, name):
    spec = {"schedulerName": "nobody", **case.spec}
    return pod_manifest(name, requests="cpu=1 memory=1Gi", node=case.node, **spec)


async def embedded_answer(case):
    """What the embedded cluster says, and nothing if it agrees."""
    cluster = MemoryCluster(VirtualClock(), source=random.Random(1))  # noqa: S311
    await cluster.create(NAMESPACES, {"metadata": {"name": PREFIX}})
    for node in WORLD:
        await cluster.create(NODES, node)
    key = Key(PREFIX, "p")
    await cluster.create(PODS, pod_of(case, "p"), namespace=PREFIX)
    patch = Patch(kind=PatchKind.JSON, body=case.change)
    try:
        await cluster.patch(PODS, key, patch, subresource="resize")
    except ClusterError as error:
        return error.message
    return ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_resize_is_refused_for_the_sake_of_its_node(case):
    answer = await embedded_answer(case)

    assert bool(answer) == bool(case.says)
    assert answer.endswith(case.says)


async def test_a_node_that_makes_no_sense_is_not_judged_by():
    cluster = MemoryCluster(VirtualClock(), source=random.Random(1))  # noqa: S311
    broken = a_node("broken") | {"status": {"allocatable": {"cpu": "many"}}}
    await cluster.create(NODES, broken)
    await cluster.create(PODS, pod_of(Case("", "broken"), "p"), namespace="default")
    patch = Patch(kind=PatchKind.JSON, body=[cpu("900")])

    body = await cluster.patch(PODS, Key("default", "p"), patch, subresource="resize")

    requests = json.loads(body)["spec"]["containers"][0]["resources"]["requests"]
    assert requests["cpu"] == "900"


@pytest.fixture
def ask(control_plane):
    """Requests to a server that has the namespace and the nodes."""

    def request(method, path, body):
        code, answer = control_plane.request(method, path, body)
        return code, json.loads(answer)

    account = {"metadata": {"name": "default"}}
    assert request("POST", "/api/v1/namespaces", {"metadata": {"name": PREFIX}})[0] == 201
    assert request("POST", f"/api/v1/namespaces/{PREFIX}/serviceaccounts", account)[0] == 201
    for node in WORLD:
        assert request("POST", "/api/v1/nodes", node)[0] == 201
    yield request
    request("DELETE", f"/api/v1/namespaces/{PREFIX}/pods?gracePeriodSeconds=0", None)
    request("DELETE", "/api/v1/nodes", None)


def changed(body, change):
    for step in change:
        *way, last = step["path"].strip("/").split("/")
        place = body
        for part in way:
            place = place[int(part) if part.isdigit() else part]
        place[last] = step["value"]
    return body


def real_answer(ask, case, name):
    code, pod = ask("POST", f"/api/v1/namespaces/{PREFIX}/pods", pod_of(case, name))
    assert code == 201, pod
    path = f"/api/v1/namespaces/{PREFIX}/pods/{name}/resize"
    code, answer = ask("PUT", path, changed(pod, case.change))
    return "" if code == 200 else answer["message"].replace(f'"{name}"', '"p"')


def admission_knows_all_nodes(ask, number):
    """It learns of them through a watch of its own, of the last one last."""
    last = WORLD[-1]["metadata"]["name"]
    return not real_answer(ask, Case("small", last, [cpu("2")]), f"probe-{number}")


async def test_the_real_server_says_the_same(ask):
    numbers = itertools.count()
    await until(lambda: admission_knows_all_nodes(ask, next(numbers)), "admission knows all nodes")
    real = {case.id: real_answer(ask, case, f"p-{n}") for n, case in enumerate(CASES)}
    embedded = {case.id: await embedded_answer(case) for case in CASES}

    assert embedded == real
