"""`bursar describe quota` and `bursar queue` on a real cluster.

What Kubernetes' own quota controller writes into the status of ResourceQuotas is compared
with our recount, over pods and quotas of every shape that quotas tell apart.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from random import Random

import pytest

from bursar.adapters.files.crds import crd_folder
from bursar.adapters.kube.client import KubeClient
from bursar.app.cluster.kinds import (
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
)
from bursar.app.cluster.ports import AlreadyExistsError, Key, Patch, PatchKind, Query, Resource
from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS, CUSTOM_KINDS
from bursar.core.model.quantity import Quantity
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from support.cluster.access import a_client, access_of
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl
from support.until import until

CLASSES = {"quota-test-high": 1000, "quota-test-low": 10}
NAMESPACE_COUNT = 4
POD_COUNT = 560
FINALIZER = "bursar.io/test"

AMOUNTS = {
    "cpu": ["0", "1m", "100m", "1", "1.5", "2e3"],
    "memory": ["0", "1M", "100Mi", "1Gi", "1.5Gi", "123456789"],
    "ephemeral-storage": ["1Gi", "500M"],
    "example.com/dongle": ["1", "3"],
    "hugepages-2Mi": ["2Mi", "64Mi"],
}
WHOLE = ("example.com/dongle", "hugepages-2Mi")
"""Request and limit must be the same."""
NAMES = [
    *("pods", "count/pods", "cpu", "memory", "ephemeral-storage", "hugepages-2Mi"),
    *(f"requests.{name}" for name in AMOUNTS),
    *(f"limits.{name}" for name in AMOUNTS if name not in WHOLE),
]
COUNTS = ["pods", "count/pods"]


def rule(scope, operator="Exists", *values):
    return {"scopeName": scope, "operator": operator, **({"values": values} if values else {})}


HIGH, LOW = CLASSES
SHAPES = [
    {},
    {"scopes": ["Terminating"]},
    {"scopes": ["NotTerminating"]},
    {"scopes": ["BestEffort"]},
    {"scopes": ["NotBestEffort"]},
    {"scopes": ["PriorityClass"]},
    {"scopes": ["CrossNamespacePodAffinity"]},
    {"scopes": ["Terminating", "NotBestEffort"]},
    {"scopes": ["BestEffort", "NotTerminating"]},
    *(
        {"scopeSelector": {"matchExpressions": rules}}
        for rules in (
            [rule("Terminating")],
            [rule("NotTerminating")],
            [rule("BestEffort")],
            [rule("NotBestEffort")],
            [rule("CrossNamespacePodAffinity")],
            [rule("PriorityClass")],
            [rule("PriorityClass", "DoesNotExist")],
            [rule("PriorityClass", "In", HIGH)],
            [rule("PriorityClass", "NotIn", HIGH)],
            [rule("PriorityClass", "In", HIGH, LOW), rule("NotBestEffort")],
            [rule("PriorityClass", "NotIn", LOW), rule("Terminating")],
        )
    ),
]


# ------------------------------------------------------------------ pods of every shape


def a_container(random: Random, name: str) -> dict:
    requests, limits = {}, {}
    for resource, amounts in AMOUNTS.items():
        if random.random() < 0.35:
            amount = random.choice(amounts)
            if resource in WHOLE or random.random() < 0.4:
                limits[resource] = amount
            if resource in WHOLE or random.random() < 0.8:
                requests[resource] = amount
    if "hugepages-2Mi" in requests and "cpu" not in limits:
        requests["cpu"] = "10m"
    return {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}}


def an_affinity(random: Random) -> dict:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **random.choice([{}, {"namespaces": ["elsewhere"]}, {"namespaceSelector": {}}]),
    }
    side = random.choice(["podAffinity", "podAntiAffinity"])
    if random.random() < 0.5:
        return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {side: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def random_pod(random: Random, name: str) -> dict:
    spec = {
        "automountServiceAccountToken": False,
        "nodeSelector": {"no-node": "has-this"},
        "containers": [{"name": "bare", "image": "i"}]
        if random.random() < 0.2
        else [a_container(random, f"c{index}") for index in range(random.randint(1, 3))],
    }
    if random.random() < 0.3:
        first, *_ = spec["initContainers"] = [a_container(random, f"i{n}") for n in range(2)]
        if random.random() < 0.5:
            first["restartPolicy"] = "Always"
    if random.random() < 0.3:
        spec["activeDeadlineSeconds"] = random.choice([100_000, 200_000])
    if random.random() < 0.5:
        spec["priorityClassName"] = random.choice(list(CLASSES))
    if random.random() < 0.3:
        spec["affinity"] = an_affinity(random)
    if random.random() < 0.2:
        spec["schedulingGates"] = [{"name": random.choice([GATE, "example.com/theirs"])}]
    return {"metadata": {"name": name}, "spec": spec}


def a_quota(name: str, shape: dict) -> dict:
    is_best_effort = "BestEffort" in shape.get("scopes", ()) or any(
        each["scopeName"] == "BestEffort"
        for each in shape.get("scopeSelector", {}).get("matchExpressions", ())
    )
    # With a scope only names that Kubernetes knows to be a pod's are allowed.
    names = COUNTS[:1] if is_best_effort else NAMES if not shape else scoped_names()
    return {
        "metadata": {"name": name},
        "spec": {"hard": dict.fromkeys(names, "1G"), **shape},
    }


def scoped_names() -> list[str]:
    compute = [name for name in AMOUNTS if name not in WHOLE and name != "ephemeral-storage"]
    return [
        "pods",
        *compute,
        *(f"requests.{name}" for name in compute),
        *(f"limits.{name}" for name in compute),
    ]


# ------------------------------------------------------------------ the cluster


@pytest.fixture
async def client(control_plane) -> AsyncIterator[KubeClient]:
    async with a_client(access_of(control_plane)) as client:
        yield client


@pytest.fixture
async def namespaces(client) -> AsyncIterator[list[str]]:
    names = [f"recount-{uuid.uuid4().hex[:8]}" for _ in range(NAMESPACE_COUNT)]
    await asyncio.gather(*(make_namespace(client, name) for name in names))
    yield names
    await asyncio.gather(*(let_go(client, name) for name in names))
    await asyncio.gather(*(client.delete(NAMESPACES, Key("", name)) for name in names))


async def make_namespace(client, name, **labels):
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    # Pods are refused without it. The controller that makes it need not be waited for.
    with contextlib.suppress(AlreadyExistsError):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace=name)


async def let_go(client, namespace):
    """Take our finalizer off, so that the namespace can end."""
    free = Patch(kind=PatchKind.MERGE, body={"metadata": {"finalizers": None}})
    for body in (await client.list(PODS, Query(namespace=namespace))).items:
        meta = json.loads(body)["metadata"]
        if meta.get("finalizers"):
            await client.patch(PODS, Key(namespace, meta["name"]), free)


async def make_classes(client):
    for name, value in CLASSES.items():
        with contextlib.suppress(AlreadyExistsError):
            await client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


async def live_through(client, random: Random, namespace: str, pod: dict) -> None:
    """Create a pod and let something happen to it."""
    fate = random.choice(["stays"] * 6 + ["Succeeded", "Failed", "Running", "leaves", "lingers"])
    if fate in {"leaves", "lingers"}:
        pod["metadata"]["finalizers"] = [FINALIZER]
    if fate == "lingers" and "schedulingGates" not in pod["spec"]:
        # On a node, so that there is a grace; nobody runs this one.
        del pod["spec"]["nodeSelector"]
        pod["spec"]["nodeName"] = "nobody-home"
        pod["spec"]["terminationGracePeriodSeconds"] = 100_000
    key = Key(namespace, pod["metadata"]["name"])
    await client.create(PODS, pod, namespace=namespace)
    if fate in {"Succeeded", "Failed", "Running"}:
        phase = Patch(kind=PatchKind.MERGE, body={"status": {"phase": fate}})
        await client.patch(PODS, key, phase, subresource="status")
    elif fate != "stays":
        await client.delete(PODS, key)


def recounted(plane, namespaces) -> dict:
    kubeconfig = str(plane.kubeconfig)
    ran = run_bursar("describe", "quota", "-A", "-o", "json", "--kubeconfig", kubeconfig)
    assert ran.code == 0, ran.err
    ours = [each for each in json.loads(ran.out) if each["namespace"] in namespaces]
    return {(each["namespace"], each["name"]): each for each in ours}


def values(texts) -> dict:
    return {name: Quantity.parse(text) for name, text in texts.items()}


def differences(quotas) -> list:
    return [
        (key, each["used"], each["reported"])
        for key, each in quotas.items()
        if values(each["used"]) != values(each["reported"])
    ]


async def test_the_recount_equals_what_kubernetes_counts(control_plane, client, namespaces):
    """Some quota of every shape in each namespace; pods that stay, end, leave and linger."""
    random = Random(20260504)  # noqa: S311 - a repeatable case
    await make_classes(client)
    pods = [
        (namespaces[index % NAMESPACE_COUNT], random_pod(random, f"p{index:03}"))
        for index in range(POD_COUNT)
    ]
    await asyncio.gather(*(live_through(client, random, *each) for each in pods))
    # The quotas come after the pods, so that admission asks nothing of them.
    await asyncio.gather(
        *(
            client.create(RESOURCE_QUOTAS, a_quota(f"q{index:02}", shape), namespace=namespace)
            for namespace in namespaces
            for index, shape in enumerate(SHAPES)
        )
    )

    async def agreed() -> dict | None:
        quotas = await asyncio.to_thread(recounted, control_plane, namespaces)
        is_whole = len(quotas) == NAMESPACE_COUNT * len(SHAPES)
        if is_whole and not differences(quotas):
            return quotas
        await asyncio.sleep(1)  # To look is work, from which Kubernetes should not be kept.
        return None

    quotas = await until(agreed, "Kubernetes and `bursar describe quota` count the same")
    assert all(each["used"].keys() == each["hard"].keys() for each in quotas.values())
    counted = [Quantity.parse(each["used"]["pods"]).value() for each in quotas.values()]
    assert sum(count > 0 for count in counted) > 0.9 * len(counted)
    assert len(set(counted)) > 20


# ------------------------------------------------------------------ the queue


@pytest.fixture
async def gated_namespaces(control_plane, client) -> AsyncIterator[list[str]]:
    """Two namespaces whose pods are held back, and the kinds of AAQ, which stay."""
    kubectl(control_plane, "apply", "--server-side", "-f", str(crd_folder()))
    kinds = [f"crd/{resource}" for resource in CUSTOM_KINDS]
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=120s", *kinds)
    names = sorted(f"queue-{uuid.uuid4().hex[:8]}" for _ in range(2))
    for name in names:
        await make_namespace(client, name, **{GATING_LABEL: "", "queue-test": names[0]})
    yield names
    for name in names:
        await client.delete(NAMESPACES, Key("", name))


def an_object(resource: Resource, name: str, **spec) -> dict:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def a_waiting_pod(name: str, memory: str, gates=(GATE,)) -> dict:
    container = {"name": "c", "image": "i", "resources": {"requests": {"memory": memory}}}
    gate_list = [{"name": gate} for gate in gates]
    return {
        "metadata": {"name": name},
        "spec": {"schedulingGates": gate_list, "containers": [container]},
    }


async def test_the_queue_of_a_real_cluster_is_worked_out_without_a_controller(
    control_plane, client, gated_namespaces
):
    here, there = gated_namespaces
    own = an_object(APPLICATION_QUOTAS, "own", hard={"memory": "1Gi"})
    shared = an_object(
        CLUSTER_QUOTAS,
        here,
        quota={"hard": {"pods": "2"}},
        selector={"labels": {"matchLabels": {"queue-test": here}}},
    )
    await client.create(APPLICATION_QUOTAS, own, namespace=here)
    await client.create(CLUSTER_QUOTAS, shared)
    try:
        for place, pod in (
            (here, a_waiting_pod("a-runs", "512Mi", gates=())),
            (here, a_waiting_pod("b-fits", "256Mi")),
            (here, a_waiting_pod("c-lacks-both", "512Mi")),
            (there, a_waiting_pod("d-lacks-a-place", "1Mi")),
            (there, a_waiting_pod("e-elsewhere", "1Mi", gates=(GATE, "example.com/theirs"))),
        ):
            # Pods are ordered by the second of their creation, those of one second by name.
            await client.create(PODS, pod, namespace=place)
        arguments = ("queue", "--kubeconfig", str(control_plane.kubeconfig), "-o", "json")
        everything = json.loads((await asyncio.to_thread(run_bursar, *arguments, "-A")).out)
        one = json.loads((await asyncio.to_thread(run_bursar, *arguments, "-n", there)).out)
    finally:
        await client.delete(CLUSTER_QUOTAS, Key("", here))

    listed = [pod for pod in everything if pod["namespace"] in gated_namespaces]
    assert [(pod["name"], pod["reason"]) for pod in listed] == [
        ("b-fits", None),
        # The namespaces take turns at the quota that they share.
        ("d-lacks-a-place", "QuotaExceeded"),
        ("e-elsewhere", "OtherGates"),
        ("c-lacks-both", "QuotaExceeded"),
    ]
    place, both = listed[1], listed[3]
    lacks = [
        (refusal["quota"]["name"], each["resource"], each["missing"])
        for refusal in both["refusals"]
        for each in refusal["shortages"]
    ]
    assert lacks == [("own", "memory", "256Mi"), (here, "pods", "1")]
    assert (place["ahead"], both["ahead"]) == ([], [f"{there}/d-lacks-a-place"])
    assert all(pod["uid"] and pod["created"] for pod in listed)
    # Pods of earlier tests leave the queue, so that positions change.
    for pod in [*everything, *one]:
        del pod["position"]
    assert one == [pod for pod in everything if pod["namespace"] == there]
