"""`bursar top` on a real cluster: the numbers are kubectl's, and usage is the metrics server's."""

import json
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from bursar.app.cluster.metrics_kinds import NODE_METRICS, POD_METRICS
from bursar.app.cluster.ports import Resource
from bursar.cli.errors.exit_codes import INTERRUPTED
from bursar.core.model.quantity import Quantity
from controlplane import ControlPlane
from support.processes.command_line import COMMAND, Ran, run_bursar
from support.processes.kubectl import kubectl, try_kubectl
from support.until import until_sync

MANIFESTS = """
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: NAMESPACE}
handler: sandbox
overhead: {podFixed: {cpu: 125m, memory: 60Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: sidecar, namespace: NAMESPACE}
spec:
  nodeName: node-0
  initContainers:
  - {name: mesh, image: i, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
  - {name: migrate, image: i, resources: {requests: {cpu: "2", memory: 256Mi}}}
  containers:
  - name: web
    image: i
    resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: sandboxed, namespace: NAMESPACE}
spec:
  nodeName: node-1
  runtimeClassName: NAMESPACE
  containers:
  - {name: db, image: i, resources: {requests: {ephemeral-storage: 2Gi}, limits: {cpu: "1.500"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod-level, namespace: NAMESPACE}
spec:
  nodeName: node-1
  resources: {requests: {cpu: "1", memory: 300M}, limits: {cpu: "2", memory: 1G}}
  containers:
  - {name: a, image: i, resources: {requests: {cpu: 200m, memory: 100M}}}
  - {name: b, image: i}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: NAMESPACE}
spec:
  nodeSelector: {no-node: has-this}
  containers:
  - {name: a, image: i, resources: {requests: {cpu: 100m, memory: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: NAMESPACE}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      nodeName: node-2
      containers:
      - {name: a, image: i, resources: {requests: {cpu: 50m, memory: 64Mi}}}
"""


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"top-{uuid.uuid4().hex[:8]}"
    kubectl(control_plane, "create", "namespace", name)
    # Pods are refused without it. The controller that makes it need not be waited for.
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    control_plane.request("POST", accounts, {"metadata": {"name": "default"}})
    kubectl(control_plane, "create", "-f", "-", stdin=MANIFESTS.replace("NAMESPACE", name))
    until_sync(lambda: len(living(control_plane, name)) == 6)
    yield name
    kubectl(control_plane, "delete", "namespace", name, "--wait=false")
    kubectl(control_plane, "delete", "runtimeclass", name)


def living(plane: ControlPlane, namespace: str) -> list[str]:
    return kubectl(plane, "get", "pods", "-n", namespace, "-o", "name").split()


def top(plane: ControlPlane, *words: str) -> Ran:
    return run_bursar("top", *words, "--kubeconfig", str(plane.kubeconfig))


def document(plane: ControlPlane, *words: str) -> Any:
    ran = top(plane, *words, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


# ------------------------------------------------------------------ kubectl's own numbers

SHARE = r"(\S+)(?: \((\d+)%\))?"
ROW = re.compile(rf"  (\S+)\s+{SHARE}\s+{SHARE}")
Numbers = dict[tuple[str, str], tuple[Quantity, str | None, Quantity, str | None]]


def by_kubectl(plane: ControlPlane) -> Numbers:
    """Requests and limits with percentages, by node and resource, as `describe nodes` says."""
    found: Numbers = {}
    node, is_inside = "", False
    for line in kubectl(plane, "describe", "nodes").splitlines():
        if line.startswith("Name:"):
            node = line.split()[1]
        is_inside = line.startswith("Allocated resources:") or (is_inside and line.startswith("  "))
        row = ROW.fullmatch(line)
        if is_inside and row and row[2][0].isdigit():
            amounts = (Quantity.parse(row[2]), row[3], Quantity.parse(row[4]), row[5])
            found[node, row[1]] = amounts
    return found


def by_bursar(plane: ControlPlane, resources: set[str]) -> Numbers:
    words = [f"--resource={name}" for name in sorted(resources)]
    return {
        (node["node"], name): (
            Quantity.parse(each["requests"]),
            str(each["requestsPercent"] or 0),
            Quantity.parse(each["limits"]),
            str(each["limitsPercent"] or 0),
        )
        for node in document(plane, "nodes", *words)["nodes"]
        for name, each in node["resources"].items()
    }


@pytest.mark.usefixtures("namespace")
def test_nodes_have_the_numbers_of_kubectl(control_plane):
    """Other tests may add pods between the two commands, so they are asked until they agree."""

    def agree() -> bool:
        theirs = by_kubectl(control_plane)
        ours = by_bursar(control_plane, {name for _, name in theirs})
        return all(
            ours[key][::2] == numbers[::2]
            # kubectl writes no percentages of extended resources.
            and all(
                shown in {None, mine}
                for shown, mine in zip(numbers[1::2], ours[key][1::2], strict=True)
            )
            for key, numbers in theirs.items()
        )

    seen = by_kubectl(control_plane)
    assert {("node-0", "cpu"), ("node-1", "memory"), ("node-2", "ephemeral-storage")} <= set(seen)
    assert seen["node-0", "cpu"][0] >= Quantity.parse("2100m")
    until_sync(agree, lambda: (by_kubectl(control_plane), by_bursar(control_plane, {"cpu"})))


def test_pods_and_namespaces_add_up_to_what_the_manifests_say(control_plane, namespace):
    found = document(control_plane, "namespaces", "-n", namespace)

    # 2 + 100m for the start of the first, 1500m and overhead, 1, 100m, and twice 50m.
    assert found["namespaces"][0]["resources"]["cpu"]["requests"] == "4925m"
    assert (found["total"]["pods"], found["total"]["podsWithoutNode"]) == (6, 1)
    groups = document(control_plane, "pods", "-n", namespace, "--group-by", "owner")["groups"]
    assert {each["owner"]: each["pods"] for each in groups} == {
        "Deployment/shop": 2,
        **dict.fromkeys(["Pod/sidecar", "Pod/sandboxed", "Pod/pod-level", "Pod/waits"], 1),
    }


def test_quotas_have_the_numbers_of_kubernetes(control_plane, namespace):
    hard = {"requests.cpu": "5", "requests.memory": "2Gi", "pods": "20", "services": "3"}
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    control_plane.request("POST", path, quota)

    def status() -> dict[str, str]:
        out = kubectl(control_plane, "get", "quota", "team", "-n", namespace, "-o", "json")
        used: dict[str, str] = json.loads(out).get("status", {}).get("used", {})
        return used

    until_sync(lambda: status().get("pods") == "6")
    found = document(control_plane, "quotas", "-n", namespace)["quotas"]

    assert {each["resource"]: Quantity.parse(each["used"]) for each in found} == {
        name: Quantity.parse(amount) for name, amount in status().items()
    }
    assert {each["resource"]: each["percent"] for each in found}["requests.cpu"] == 98


# ------------------------------------------------------------------ a metrics server


def definition(resource: Resource) -> dict[str, Any]:
    """A CustomResourceDefinition that serves the kind of a metrics server."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": resource.version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "names": {
                "plural": resource.plural,
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "singular": resource.kind.lower(),
            },
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def a_metric(resource: Resource, name: str, **fields: Any) -> dict[str, Any]:
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**kind, "metadata": {"name": name}, **fields}


@pytest.fixture
def metrics(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    base = f"/apis/{NODE_METRICS.api_version}"
    usage = {"cpu": "250m", "memory": "1Gi"}
    objects = {
        f"{base}/nodes": a_metric(NODE_METRICS, "node-0", usage=usage),
        f"{base}/namespaces/{namespace}/pods": a_metric(
            POD_METRICS, "sidecar", containers=[{"name": "web", "usage": usage}]
        ),
    }
    kinds = [definition(resource) for resource in (NODE_METRICS, POD_METRICS)]
    try:
        for kind in kinds:
            kubectl(control_plane, "create", "-f", "-", stdin=json.dumps(kind))
        for path, body in objects.items():
            until_sync(lambda path=path: is_served(control_plane, path))
            control_plane.request("POST", path, body)
        yield
    finally:
        for kind in kinds:
            name = kind["metadata"]["name"]
            try_kubectl(control_plane, "delete", "crd", name, "--ignore-not-found")


def is_served(plane: ControlPlane, path: str) -> bool:
    return try_kubectl(plane, "get", "--raw", path).code == 0


@pytest.mark.usefixtures("metrics")
def test_usage_is_beside_requests_where_metrics_are_served(control_plane, namespace):
    nodes = top(control_plane, "nodes").out.splitlines()
    pods = document(control_plane, "pods", "-n", namespace)["pods"]

    assert "CPU USED" in nodes[0]
    used = {each["pod"]: each["resources"]["cpu"].get("usage") for each in pods}
    assert used["sidecar"] == "250m"
    assert used["waits"] is None
    namespaces = document(control_plane, "namespaces", "-n", namespace)["namespaces"]
    assert namespaces[0]["resources"]["memory"]["usage"] == "1Gi"


def test_without_metrics_there_is_no_such_column_and_no_complaint(control_plane, namespace):
    ran = top(control_plane, "pods", "-n", namespace)

    assert (ran.code, ran.err) == (0, "")
    assert "CPU USED" not in ran.out
    assert "POD" in ran.out


# ------------------------------------------------------------------ -w


def test_changes_are_shown_as_they_come(control_plane, namespace):
    words = ["top", "pods", "-w", "-n", namespace, "--kubeconfig", str(control_plane.kubeconfig)]
    process = subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        table = [process.stdout.readline() for _ in range(8)]
        kubectl(control_plane, "delete", "pod", "sandboxed", "-n", namespace, "--wait=false")
        pod = {"metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        added = process.stdout.readline()
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=60)
        process.stdout.close()

    assert [table[0].split()[0], table[-1].split()[0]] == ["POD", "(all)"]
    assert added.split() == ["late", "0", "0", "0", "0"]
    assert code == INTERRUPTED
