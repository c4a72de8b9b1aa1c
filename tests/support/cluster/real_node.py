"""A node with real containers for the length of a test run, and pods on it."""

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from assets import AssetError
from controlplane import ControlPlane
from program import ProgramError
from real_node import RealNodeError
from real_node.base import Node
from real_node.cluster import AnyNode, real_cluster
from real_node.images import BUSYBOX
from support.builders.manifests import Raw, namespace_manifest, pod_manifest
from support.builders.pods import listed
from support.cluster.audit import AUDIT_POLICY
from support.cluster.control_plane import wait_for_account
from support.until import PATIENCE_SECONDS, Description, until_sync

TURN_SECONDS = 3600
"""How long a worker waits for another one to run all its tests on the node."""


def require(missing: Callable[[], str | None]) -> None:
    """Fail the tests of a node if this machine lacks something that it takes."""
    lacking = missing()
    if lacking:
        pytest.fail(f"no real node: {lacking}", pytrace=False)


@contextmanager
def started_node(kind: type[AnyNode]) -> Iterator[AnyNode]:
    """A node and a control plane of its own. Workers of one pytest-xdist run take turns."""
    with _one_per_run():
        cluster = real_cluster(kind, audit_policy=AUDIT_POLICY)
        try:
            node = cluster.__enter__()
        except (AssetError, ProgramError, RealNodeError) as error:
            pytest.fail(f"no real node: {error}", pytrace=False)
        try:
            yield node
        finally:
            cluster.__exit__(None, None, None)


class RealPods:
    """Pods of one namespace, all on one real node.

    The node may take so many seconds for each thing that is waited for.
    """

    def __init__(self, node: Node, namespace: str, seconds: float) -> None:
        self.node, self.plane, self.namespace = node, node.plane, namespace
        self._seconds = seconds

    def create(self, name: str, script: str, **fields: Any) -> Raw:
        """A pod with one busybox container that runs a script; returns what was stored.

        `fields` are those of `pod_manifest`; `container_fields` are added to the container.
        """
        added = fields.pop("container_fields", {})
        pod = pod_manifest(f"{self.namespace}/{name}", node=self.node.name, **fields)
        [container] = pod["spec"]["containers"]
        command = ["/bin/sh", "-c", f"trap 'exit 143' TERM; {script}"]
        container |= {"image": BUSYBOX, "command": command, **added}
        pod["spec"].setdefault("restartPolicy", "Never")
        return self.write("pods", pod)

    def write(self, plural: str, body: Raw) -> Raw:
        status, answer = self.plane.request("POST", self._path(plural), body)
        assert status == 201, answer
        stored: Raw = json.loads(answer)
        return stored

    def read(self, name: str) -> Raw:
        status, answer = self.plane.request("GET", self._path(f"pods/{name}"))
        assert status == 200, answer
        pod: Raw = json.loads(answer)
        return pod

    def resize(self, name: str, *, requests: str, limits: str) -> None:
        """Change the resources of the pod's container in place."""
        amounts = {"requests": listed(requests), "limits": listed(limits)}
        body = {"spec": {"containers": [{"name": "c", "resources": amounts}]}}
        kind = {"Content-Type": "application/strategic-merge-patch+json"}
        path = self._path(f"pods/{name}/resize")
        status, answer = self.plane.request("PATCH", path, body, kind)
        assert status == 200, answer

    def until_ready(self, name: str) -> Raw:
        """Wait for the condition Ready, and return the pod."""

        def ready_pod() -> Raw | None:
            pod = self.read(name)
            conditions = pod["status"].get("conditions", [])
            is_ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
            return pod if is_ready else None

        pod: Raw = self.until(ready_pod, lambda: f"{name} is ready: {self.read(name)['status']}")
        return pod

    def until_failed(self, name: str) -> Raw:
        """Wait for the phase Failed, and return the pod."""

        def failed_pod() -> Raw | None:
            pod = self.read(name)
            return pod if pod["status"]["phase"] == "Failed" else None

        pod: Raw = self.until(failed_pod, lambda: f"{name} failed: {self.read(name)['status']}")
        return pod

    def until(self, condition: Callable[[], object], what: Description) -> Any:
        """Wait as `until_sync` does, as long as this node may take."""
        return until_sync(condition, what, self._seconds)

    def _path(self, rest: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{rest}"


@contextmanager
def real_pods(node: Node, seconds: float = PATIENCE_SECONDS) -> Iterator[RealPods]:
    """A new namespace on the node's control plane. Its pods are removed at the end, at once."""
    namespace = f"real-{uuid.uuid4().hex[:8]}"
    plane = node.plane
    plane.request("POST", "/api/v1/namespaces", namespace_manifest(namespace))
    path = f"/api/v1/namespaces/{namespace}"
    wait_for_account(plane, namespace)
    try:
        yield RealPods(node, namespace, seconds)
    finally:
        plane.request("DELETE", f"{path}/pods", {"gracePeriodSeconds": 0})
        _remove_namespace(plane, path)


def _remove_namespace(plane: ControlPlane, path: str) -> None:
    plane.request("DELETE", path)


@contextmanager
def _one_per_run() -> Iterator[None]:
    """Hold a socket without a file, named after the run: the kernel frees it with this process."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        yield
        return
    with socket.socket(socket.AF_UNIX) as held:
        name = f"\0bursar-real-node-of-{run}"
        until_sync(lambda: _is_bound(held, name), "no other worker has a node", TURN_SECONDS)
        yield


def _is_bound(held: socket.socket, name: str) -> bool:
    try:
        held.bind(name)
    except OSError:
        return False
    return True
