"""The reasons why pods wait, as Bursar computes them, equal those of a real kube-scheduler.

The cluster has an API server and a scheduler, and no controllers, so that nothing changes while
hundreds of pods wait at once. Each pod is one case: its event and its condition must have the
text that Bursar computes from the objects as the API server stores them.
"""

import asyncio
import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bursar.app.reports.explain import check_placement
from bursar.app.reports.surroundings import Surroundings, read_pods, read_surroundings
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod import Pod
from bursar.core.placement.fit_index import FitIndex
from bursar.core.placement.message import event_text
from controlplane import ControlPlane
from support.builders.random_objects import as_pod
from support.cluster.access import a_client, access_of
from support.processes.command_line import run_bursar
from support.scheduling import random_cluster as random_objects
from support.seeds import SEED
from support.until import until_sync

pytestmark = pytest.mark.integration

CASES = 330
NODE_COUNT = 14


def call(plane: ControlPlane, method: str, path: str, body: object = None, kind: str = "") -> Any:
    headers = {"Content-Type": kind} if kind else None
    code, answer = plane.request(method, path, body, headers)
    assert code < http.client.BAD_REQUEST, answer
    return json.loads(answer)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane()
    plane.start(parts=[plane.etcd, plane.apiserver, plane.scheduler])
    yield plane
    plane.stop()


def furnish(plane: ControlPlane, rng: Random) -> None:
    """Namespaces, priorities, nodes and the pods on them."""
    for name, labels in random_objects.NAMESPACES.items():
        call(plane, "POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        account = {"metadata": {"name": "default"}}
        call(plane, "POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    for name, value in random_objects.PRIORITIES.items():
        policy = "Never" if name == random_objects.PEACEFUL else "PreemptLowerPriority"
        priority = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        call(plane, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    for number in range(NODE_COUNT):
        node = random_objects.a_node(rng, number)
        name = node["metadata"]["name"]
        call(plane, "POST", "/api/v1/nodes", node)
        # The API server taints every new node as not ready.
        patch = {"spec": {"taints": node["spec"]["taints"]}}
        call(plane, "PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")
        for index in range(rng.randrange(1, 4)):
            create(plane, random_objects.an_assigned_pod(rng, name, index))


def create(plane: ControlPlane, pod: dict[str, Any]) -> None:
    call(plane, "POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)


def surroundings(plane: ControlPlane) -> Surroundings:
    async def read() -> Surroundings:
        async with a_client(access_of(plane)) as client:
            return await read_surroundings(client)

    found = asyncio.run(read())
    assert found.is_complete
    return found


def waiting_pods(plane: ControlPlane) -> dict[str, Pod]:
    async def read() -> list[Pod]:
        async with a_client(access_of(plane)) as client:
            problems: list[str] = []
            pods = await read_pods(client, "", problems)
            assert not problems
            return pods

    return {pod.name: pod for pod in asyncio.run(read()) if pod.name.startswith("waiting-")}


def as_stored(raw: dict[str, Any]) -> Pod:
    """The pod as the API server will store it, with its priority."""
    priority = random_objects.PRIORITIES[raw["spec"]["priorityClassName"]]
    return replace(with_defaults(as_pod(raw)), priority=priority)


def written(pod: Pod) -> str:
    for condition in pod.conditions:
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            return condition.message
    return ""


def events(plane: ControlPlane) -> dict[str, str]:
    listed = call(plane, "GET", "/apis/events.k8s.io/v1/events?limit=5000")["items"]
    return {
        event["regarding"]["name"]: event["note"]
        for event in listed
        if event["reason"] == "FailedScheduling"
    }


@pytest.fixture(scope="module")
def scene(plane: ControlPlane) -> Surroundings:
    rng = Random(SEED)  # noqa: S311 - the same cluster for the same seed
    furnish(plane, rng)
    found = surroundings(plane)
    count = 0
    while count < CASES:
        raw = random_objects.a_waiting_pod(rng, f"waiting-{count:03}")
        placement = check_placement(as_stored(raw), found)
        if not placement.message:
            continue
        if "preemption: " not in placement.message:
            # Its victims would be deleted, and the next pod would find another cluster.
            raw["spec"]["priorityClassName"] = random_objects.PEACEFUL
        create(plane, raw)
        count += 1
    return found


@pytest.mark.seeded
def test_the_scheduler_gives_every_pod_the_same_reasons(plane: ControlPlane, scene: Surroundings):
    pods = until_sync(
        lambda: all(map(written, (found := waiting_pods(plane)).values())) and found,
        lambda: [pod.name for pod in waiting_pods(plane).values() if not written(pod)],
    )
    index = FitIndex(scene.nodes, scene.namespaces)
    texts = {name: check_placement(pod, scene).message for name, pod in pods.items()}

    assert len(texts) == CASES
    assert {name: written(pod) for name, pod in pods.items()} == texts
    assert {name: index.message(pod) for name, pod in pods.items()} == texts
    wanted = {name: event_text(text) for name, text in texts.items()}
    assert until_sync(lambda: len(found := events(plane)) == CASES and found) == wanted
    assert {pod.node_name for pod in pods.values()} == {""}


def test_explain_says_on_a_live_cluster_what_the_scheduler_wrote(
    plane: ControlPlane, scene: Surroundings
):
    pod = next(iter(waiting_pods(plane).values()))
    place_of_pod = ("-n", pod.namespace, "--kubeconfig", str(plane.kubeconfig))
    ran = run_bursar("explain", "pod", pod.name, *place_of_pod, "-o", "json")
    [found] = json.loads(ran.out)

    assert (ran.code, found["answer"]) == (1, "NoNodeFits")
    assert found["placement"]["event"] == check_placement(pod, scene).message
    listed = json.loads(run_bursar("explain", "pod", *place_of_pod, "-o", "json").out)
    waiting = {
        each.name for each in waiting_pods(plane).values() if each.namespace == pod.namespace
    }
    assert {each["name"] for each in listed} <= waiting


def test_a_tenant_is_told_nothing_about_pods_that_he_may_not_read(
    plane: ControlPlane, scene: Surroundings
):
    """He may read the pods of one namespace. Of nodes and other pods he learns nothing."""
    pod = next(each for each in waiting_pods(plane).values() if each.namespace == "fit-one")
    until_sync(lambda: written(waiting_pods(plane)[pod.name]), "the scheduler has tried the pod")
    rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/fit-one"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    call(plane, "POST", f"{rights}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
    call(
        plane,
        "POST",
        f"{rights}/rolebindings",
        {
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "tenant"}],
        },
    )
    kubeconfig = plane.write_kubeconfig("tenant", plane.client("tenant"))
    asked = ("explain", "pod", pod.name, "-n", "fit-one", "--kubeconfig", str(kubeconfig))
    ran = until_sync(lambda: (found := run_bursar(*asked)).code == 1 and found)

    assert "NotDecided: the pod waits for a node" in " ".join(ran.out.split())
    assert written(waiting_pods(plane)[pod.name])[:40] in " ".join(ran.out.split())
    assert "nodes of the cluster" in ran.out
    assert "fit-two" not in ran.out
    assert not any(books.node.name in ran.out for books in scene.nodes)


def test_the_cases_have_every_kind_of_reason(scene: Surroundings, plane: ControlPlane):
    """A cluster in which all pods wait for the same reason would prove little."""
    texts = " ".join(check_placement(pod, scene).message for pod in waiting_pods(plane).values())

    for reason in (
        *("Insufficient cpu", "Insufficient memory", "Insufficient example.com/foo"),
        *("Too many pods", "untolerated taint(s)", "were unschedulable"),
        *("node affinity/selector", "satisfy plugin(s) [NodeAffinity]", "free ports"),
        *("pod affinity rules", "pod anti-affinity rules", "existing pods anti-affinity rules"),
        *("topology spread constraints,", "(missing required label)"),
        *("Preemption is not helpful", "No preemption victims", "preemptionPolicy=Never"),
    ):
        assert reason in texts, reason
