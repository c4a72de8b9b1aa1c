"""Bursar on a real node: its image, its manifests, and a tenant who lives under its quotas."""

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

import image as image_tool
from bursar.app.names import CONTROLLER, GATING_ACTIVE, GATING_ANNOTATION, WEBHOOK
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from real_node.images import BUSYBOX
from real_node.node import RealNode
from support.builders.manifests import arq_manifest, namespace_manifest, pod_manifest
from support.cluster.control_plane import wait_for_account
from support.processes.command_line import Ran, run_bursar
from support.processes.kubectl import kubectl, try_kubectl
from support.until import until_sync

Raw = dict[str, Any]
HOME = "aaq"
IMAGE = "localhost/bursar:installed"
SLEEP = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]
KEPT = frozenset({"CustomResourceDefinition"})
"""Kinds that an uninstallation leaves, because the quotas of tenants go with them."""


def peer_pod() -> Raw:
    made = pod_manifest("peer", requests="cpu=3 memory=2Gi", runtimeClassName="kata-remote")
    made["spec"]["containers"][0]["image"] = BUSYBOX
    return made


def built_image(folder: Path) -> Path:
    """The image that `make image` builds."""
    archive, _ = image_tool.write(image_tool.build(image_tool.native_architecture(), IMAGE), folder)
    return archive


@dataclass
class InstalledBursar:
    """The objects that were applied, and the cluster they are in."""

    node: RealNode
    parts: Sequence[str]
    options: Sequence[str] = ()

    @cached_property
    def documents(self) -> list[Raw]:
        ran = run_bursar("manifests", *self.parts, "--image", IMAGE, *self.options)
        assert ran.code == 0, ran.err
        return list(yaml.safe_load_all(ran.out))

    @property
    def text(self) -> str:
        return yaml.safe_dump_all(self.documents)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return kubectl(self.node.plane, *arguments, stdin=stdin)

    def try_kubectl(self, *arguments: str, stdin: str = "") -> Ran:
        return try_kubectl(self.node.plane, *arguments, stdin=stdin)

    def bursar(self, *arguments: str) -> Ran:
        return run_bursar(*arguments, "--kubeconfig", str(self.node.plane.kubeconfig))

    def apply(self) -> None:
        """As a new user does it: all at once. An installation before it must be gone."""
        until_sync(self._is_home_free, lambda: self.try_kubectl("get", "ns", HOME, "-o", "json"))
        self.kubectl("apply", "--server-side", "-f", "-", stdin=self.text)

    def _is_home_free(self) -> bool:
        ran = self.try_kubectl("get", "namespace", HOME, "-o", "jsonpath={.status.phase}")
        return ran.out != "Terminating"

    def wait_ready(self) -> None:
        for name in self.deployments():
            until_sync(lambda name=name: self.is_rolled_out(name), self.pods)

    def wait_gating(self) -> None:
        """Wait until the controller can release pods and the API server trusts the webhook."""
        account = ("get", "serviceaccount", "-n", HOME, CONTROLLER, "-o", "yaml")
        quota = json.dumps(arq_manifest(f"{HOME}/trial", {"pods": "1"}))

        def is_gating() -> bool:
            tried = self.try_kubectl("create", "--dry-run=server", "-f", "-", stdin=quota)
            return tried.code == 0 and f"{GATING_ANNOTATION}: {GATING_ACTIVE}" in self.kubectl(
                *account
            )

        until_sync(is_gating, self.pods)

    def deployments(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.documents if each["kind"] == "Deployment"]

    def is_rolled_out(self, name: str) -> bool:
        body = json.loads(self.kubectl("get", "deployment", "-n", HOME, name, "-o", "json"))
        status, wanted = body.get("status", {}), body["spec"]["replicas"]
        return (
            status.get("observedGeneration") == body["metadata"]["generation"]
            and status.get("updatedReplicas") == wanted
            and status.get("replicas") == wanted
            and status.get("readyReplicas") == wanted
        )

    def pods(self) -> str:
        return self.kubectl("get", "pods", "-n", HOME, "-o", "wide")

    def pods_of(self, name: str) -> dict[str, Raw]:
        """The pods of a Deployment by name, those included that are terminating."""
        component = {CONTROLLER: "controller", WEBHOOK: "webhook"}[name]
        selector = f"app.kubernetes.io/component={component}"
        listed = json.loads(self.kubectl("get", "pods", "-n", HOME, "-l", selector, "-o", "json"))
        return {each["metadata"]["name"]: each for each in listed["items"]}

    def is_upgraded(self) -> bool:
        """Whether all replicas have these settings, and former ones are gone, not only ending."""
        return all(
            self.is_rolled_out(name) and not any(map(is_ending, self.pods_of(name).values()))
            for name in self.deployments()
        )

    def scale(self, name: str, replicas: int) -> None:
        """Scale a Deployment, and wait until it has so many pods, all of them ready."""
        self.kubectl("scale", "deployment", "-n", HOME, name, f"--replicas={replicas}")

        def is_scaled() -> bool:
            pods = self.pods_of(name).values()
            return len(pods) == replicas and all(is_ready(each) for each in pods)

        until_sync(is_scaled, self.pods)

    def logs(self, component: str) -> str:
        """The logs of all replicas."""
        selector = f"app.kubernetes.io/component={component}"
        return self.try_kubectl("logs", "-n", HOME, "-l", selector, "--tail=-1").out

    def remove(self) -> None:
        """As the how-to says: let all pods go, then delete everything but the definitions."""
        ran = self.bursar("release", "--all", "--yes", "--stop-gating")
        assert ran.code == 0, ran.err
        rest = [each for each in self.documents if each["kind"] not in KEPT]
        written = yaml.safe_dump_all(rest)
        self.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=written)

    def left_behind(self) -> list[str]:
        """The applied objects that are still there, but for the definitions."""
        found = []
        for each in self.documents:
            if each["kind"] in KEPT:
                continue
            meta = each["metadata"]
            place = ["-n", meta["namespace"]] if "namespace" in meta else []
            group, _, version = each["apiVersion"].rpartition("/")
            kind = f"{each['kind']}.{version}.{group}" if group else each["kind"]
            ran = self.try_kubectl("get", kind, meta["name"], *place, "-o", "name")
            if ran.code == 0:
                found.append(ran.out.strip())
        return found


@contextmanager
def tenant(
    installed: InstalledBursar, *, is_gated: bool = True, **labels: str
) -> Iterator["Tenant"]:
    """A namespace, whose pods are gated unless `is_gated` is false."""
    name = f"shop-{uuid.uuid4().hex[:6]}"
    gated = {GATING_LABEL: ""} if is_gated else {}
    body = namespace_manifest(name, **gated, **labels)
    installed.kubectl("create", "-f", "-", stdin=json.dumps(body))
    wait_for_account(installed.node.plane, name)
    try:
        yield Tenant(installed, name)
    finally:
        installed.try_kubectl("delete", "namespace", name, "--wait=false")


@dataclass
class Tenant:
    installed: InstalledBursar
    name: str

    def quota(self, **hard: str) -> None:
        body = {
            "apiVersion": "aaq.kubevirt.io/v1alpha1",
            "kind": "ApplicationAwareResourceQuota",
            "metadata": {"name": "limits", "namespace": self.name},
            "spec": {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}},
        }
        self.installed.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def deploy(self, name: str, replicas: int, cpu: str) -> None:
        """A Deployment of real containers on the real node."""
        labels = {"app": name}
        container = {
            "name": "main",
            "image": BUSYBOX,
            "command": SLEEP,
            "resources": {"requests": {"cpu": cpu}},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
        self.installed.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def create_pod(self, pod: Raw) -> Raw:
        stored = self.installed.kubectl(
            "create", "-n", self.name, "-f", "-", "-o", "json", stdin=json.dumps(pod)
        )
        made: Raw = json.loads(stored)
        return made

    def try_pod(self, name: str, **fields: Any) -> Ran:
        """Ask for a pod; the fields are those of `pod_manifest`."""
        pod = json.dumps(pod_manifest(f"{self.name}/{name}", **fields))
        return self.installed.try_kubectl("create", "-f", "-", stdin=pod)

    def run_pod(self, name: str, cpu: str, **spec: Any) -> None:
        """Create a pod of a real container."""
        made = pod_manifest(f"{self.name}/{name}", requests=f"cpu={cpu}", **spec)
        [container] = made["spec"]["containers"]
        container |= {"image": BUSYBOX, "command": SLEEP}
        self.create_pod(made)

    def try_resize(self, name: str, cpu: str) -> Ran:
        path = "/spec/containers/0/resources/requests/cpu"
        patch = json.dumps([{"op": "replace", "path": path, "value": cpu}])
        return self.installed.try_kubectl(
            *("patch", "pod", "-n", self.name, name, "--subresource=resize"),
            *("--type=json", "-p", patch),
        )

    def used(self) -> dict[str, str]:
        """What the status of the quota says is used."""
        found = self.installed.kubectl("get", "arq", "-n", self.name, "limits", "-o", "json")
        used: dict[str, str] = json.loads(found).get("status", {}).get("used", {})
        return used

    def pods(self) -> list[Raw]:
        listed = json.loads(self.installed.kubectl("get", "pods", "-n", self.name, "-o", "json"))
        items: list[Raw] = listed["items"]
        return items

    def gated(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.pods() if is_gated(each)]

    def running(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.pods() if is_ready(each)]

    def until(self, *, running: int, gated: int) -> None:
        def is_so() -> bool:
            return (len(self.running()), len(self.gated())) == (running, gated)

        until_sync(is_so, lambda: (running, gated, self.running(), self.gated()))


def is_gated(pod: Raw) -> bool:
    return GATE in [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def is_ending(pod: Raw) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Raw) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
