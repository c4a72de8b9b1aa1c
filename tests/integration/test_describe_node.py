"""`diff <(kubectl describe node) <(bursar describe node)` on a real cluster."""

import difflib
import re
import uuid

import pytest

from controlplane import ControlPlane
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl

MANIFESTS = """
apiVersion: v1
kind: Pod
metadata: {name: shop, namespace: NAMESPACE}
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
metadata: {name: scratch, namespace: NAMESPACE}
spec:
  nodeName: node-0
  containers:
  - {name: db, image: i, resources: {requests: {ephemeral-storage: 2Gi}, limits: {cpu: "1.500"}}}
"""
LEASE = ("Lease:", "  HolderIdentity:", "  AcquireTime:", "  RenewTime:")
"""Lines of kubectl's text that only a live cluster has; the events, at the end, are the others."""


@pytest.fixture
def namespace(control_plane: ControlPlane):
    name = f"describe-{uuid.uuid4().hex[:8]}"
    kubectl(control_plane, "create", "namespace", name)
    # Pods are refused without it. The controller that makes it need not be waited for.
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    control_plane.request("POST", accounts, {"metadata": {"name": "default"}})
    yield name
    kubectl(control_plane, "delete", "namespace", name, "--wait=false")


def described_by_kubectl(text: str) -> list[str]:
    """kubectl's text down to the events, without the lines that need a live cluster."""
    lines = text.splitlines()
    events = next((n for n, line in enumerate(lines) if line.startswith("Events:")), len(lines))
    return [line for line in lines[:events] if not line.startswith(LEASE)]


def test_on_a_real_cluster_only_lines_that_need_it_differ(control_plane, namespace):
    manifests = MANIFESTS.replace("NAMESPACE", namespace)
    kubectl(control_plane, "create", "-f", "-", stdin=manifests)
    kubectl(control_plane, "wait", "-n", namespace, "--for=condition=Ready", "pod", "--all")

    dump = kubectl(control_plane, "get", "nodes,pods", "-A", "-o", "yaml")
    theirs = described_by_kubectl(kubectl(control_plane, "describe", "node", "node-0"))
    ran = run_bursar("describe", "node", "node-0", "-f", "-", stdin=dump.encode(), TZ="UTC")
    ours = ran.out.split("\nStill fits:")[0].rstrip("\n").splitlines()

    assert f"  {namespace}" in ran.out
    different = [line for line in difflib.ndiff(theirs, ours) if line.startswith(("+ ", "- "))]
    # Between the two commands a second may pass, and a heartbeat may be written.
    assert [line for line in different if not _is_of_the_moment(line)] == []


def _is_of_the_moment(line: str) -> bool:
    """A pod's age, in seconds, or a condition's heartbeat."""
    heartbeats = ("kubelet has", "kubelet is", "RouteController created")
    return bool(re.search(r" \d+s$", line)) or any(text in line for text in heartbeats)
