"""The how-to pages about peer pods, followed command by command on a real control plane.

What the pages tell a controller to do concerns all nodes, so these tests have a cluster of
their own.
"""

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from assets import ensure
from bursar.app.install.peerpods import POLICY
from bursar.app.install.policies.confinement import (
    confinement_documents,
    node_confinement_documents,
)
from bursar.app.names import PEER_POD_WEBHOOKS
from controlplane import ControlPlane
from support.builders.peer_pods import KATA, ONE_VM, VM, main
from support.cluster.control_plane import started_control_plane, wait_for_account
from support.processes.command_line import COMMAND
from support.processes.kubectl import kubectl, try_kubectl
from support.processes.webhook import Webhook
from support.quota.controller_processes import Controllers
from support.until import PATIENCE_SECONDS, until_sync

CONFINING = {
    each["metadata"]["name"]
    for each in (*confinement_documents("aaq"), *node_confinement_documents("aaq"))
}
"""Policies of the part `rbac`, which is installed for the controller."""
PAGES = Path(__file__).parents[2] / "docs" / "how-to"
PRESET_PLACE = "confidential-containers-system"
KATA_NODES = "katacontainers.io/kata-runtime=true"
POD = {
    "metadata": {"generateName": "p-"},
    "spec": {
        "runtimeClassName": "kata-remote",
        "containers": [main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi", name="c")],
    },
}
UPSTREAMS = f"""\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: {PEER_POD_WEBHOOKS}
  annotations:
    cert-manager.io/inject-ca-from: peer-pods-webhook-system/peer-pods-webhook-serving-cert
  labels: {{app.kubernetes.io/managed-by: Helm}}
webhooks:
- name: mwebhook.peerpods.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig:
    service: {{name: peer-pods-webhook, namespace: peer-pods-webhook-system, path: /mutate-v1-pod}}
  rules:
  - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  objectSelector: {{matchExpressions: [{{key: no-vm, operator: DoesNotExist}}]}}
"""
"""As upstream's own manifests and charts have it, with selectors somebody added."""


def blocks(page: str, heading: str) -> list[str]:
    """The commands below a heading, block by block."""
    text = (PAGES / page).read_text()
    section = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert section, heading
    return re.findall(r"^```sh\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)


@dataclass
class Reader:
    """Somebody who types what the pages say, with `ca.crt` in the folder."""

    plane: ControlPlane
    folder: Path

    def type(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'bin'}:{COMMAND.parent}:/usr/bin:/bin",
                "KUBECONFIG": str(self.plane.kubeconfig),
                "HOME": str(self.folder),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def named(self, kind: str) -> list[str]:
        """All objects of a kind, without the policies that confine Bursar's accounts."""
        found = kubectl(self.plane, "get", kind, "-o", "name").split()
        return [each for each in found if each.partition("/")[2] not in CONFINING]

    def configuration(self) -> dict[str, Any]:
        text = kubectl(
            self.plane, "get", "mutatingwebhookconfiguration", PEER_POD_WEBHOOKS, "-o", "json"
        )
        return json.loads(text)

    def create_dry(self) -> tuple[int, dict[str, Any]]:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        code, answer = self.plane.request("POST", path, POD)
        return code, json.loads(answer)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    with started_control_plane() as plane:
        yield plane


@pytest.fixture
def reader(control_plane, tmp_path) -> Reader:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(ensure("kubectl"))
    wait_for_account(control_plane)
    return Reader(control_plane, tmp_path)


# ------------------------------------------------------------------ limits per node

LIMITS = "limit-peer-pods-per-node.md"


@pytest.fixture
def workers(reader) -> Iterator[None]:
    """Two nodes for peer pods, and cloud-api-adaptor's settings."""
    plane = reader.plane
    for name in ("worker-1", "worker-2"):
        plane.add_node(name)
        kubectl(plane, "label", "node", name, KATA_NODES)
    kubectl(plane, "label", "node", "worker-2", "size=big")
    kubectl(plane, "create", "namespace", PRESET_PLACE)
    settings = ("create", "configmap", "peer-pods-cm", "-n", PRESET_PLACE)
    kubectl(plane, *settings, "--from-literal=CLOUD_PROVIDER=aws")
    yield
    kubectl(plane, "delete", "node", "worker-1", "worker-2")
    kubectl(plane, "delete", "namespace", PRESET_PLACE, "--wait=false")


def offered(reader: Reader) -> list[str | None]:
    nodes = json.loads(kubectl(reader.plane, "get", "nodes", "-o", "json"))["items"]
    return [node["status"]["allocatable"].get(VM) for node in nodes]


def offers(reader: Reader, *amounts: str | None) -> None:
    until_sync(lambda: offered(reader) == [*amounts], f"{amounts}, not {offered(reader)}")


@pytest.mark.usefixtures("workers")
def test_limits_are_kept_if_one_does_what_the_page_says(reader, tmp_path):
    rights, started = blocks(LIMITS, "Have the controller keep it")
    bursar, verb, *options = shlex.split(started)
    assert (bursar, verb) == ("bursar", "controller")
    reader.type(rights)
    with Controllers(reader.plane, tmp_path, *options):
        # Nothing is said of a limit yet, and then cloud-api-adaptor has 10.
        offers(reader, "10", "10")
        limit, shown = blocks(LIMITS, "The same limit everywhere")
        reader.type(limit)
        offers(reader, "4", "4")
        assert "worker-1" in reader.type(shown)

        for command in blocks(LIMITS, "Another limit on some nodes"):
            reader.type(command)
        offers(reader, "4", "20")

        one, no_more = blocks(LIMITS, "Another limit on one node")
        reader.type(one)
        offers(reader, "2", "20")
        reader.type(no_more)
        offers(reader, "4", "20")

        (none,) = blocks(LIMITS, "No peer pods on a node for a while")
        reader.type(none)
        offers(reader, "0", "20")
        (taken,) = blocks(LIMITS, "Let Bursar take over from cloud-api-adaptor")
        reader.type(taken)
        offers(reader, "10", "10")


def test_all_pages_say_the_same_about_what_the_controller_needs():
    rights, started = blocks(LIMITS, "Have the controller keep it")
    reference = (PAGES.parent / "reference" / "capacity.md").read_text()

    assert rights + started in blocks("run-peer-pods.md", "Install")
    for line in (rights, started):
        assert f"    {line}" in reference


# ------------------------------------------------------------------ in place of upstream's

RUN = "run-peer-pods.md"


@pytest.fixture
def upstreams(reader) -> Iterator[None]:
    """What upstream's webhook has left in the cluster, and the class that kata-deploy brought."""
    kubectl(reader.plane, "create", "-f", "-", stdin=UPSTREAMS)
    brought = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "kata-remote"}
    brought["metadata"] = {"name": "kata-remote", "labels": {"by": "kata-deploy"}}
    kubectl(reader.plane, "create", "-f", "-", stdin=json.dumps(brought))
    yield
    for kind in ("mutatingwebhookconfiguration", "runtimeclass"):
        kubectl(reader.plane, "delete", kind, "--all")


@pytest.mark.usefixtures("upstreams")
def test_nothing_of_upstreams_configuration_is_left_when_it_was_replaced(reader, tmp_path):
    webhook = Webhook(reader.plane, tmp_path, "aaq")
    webhook.authority.certificate.replace(tmp_path / "ca.crt")
    (replacing,) = blocks(RUN, "In place of peer-pods-webhook")
    reader.type(replacing)
    *_, printed = yaml.safe_load_all((tmp_path / "peerpods.yaml").read_text())
    stored = reader.configuration()

    assert stored["metadata"].get("annotations", {}) == {}
    assert stored["metadata"]["labels"] == printed["metadata"]["labels"]
    (ours,), (wanted,) = stored["webhooks"], printed["webhooks"]
    assert {key: ours[key] for key in wanted} == wanted
    assert ours["objectSelector"] == {}


@dataclass
class Crowd:
    """Somebody who creates peer pods all the time."""

    reader: Reader
    refused: int = 0
    unguarded: list[dict[str, Any]] = field(default_factory=list)
    """Those that got in without being rewritten."""

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._ended.is_set():
            code, answer = self.reader.create_dry()
            self.refused += code >= 400
            if code < 300 and VM not in json.dumps(answer):
                self.unguarded.append(answer)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def is_rewritten(reader: Reader) -> bool:
    code, pod = reader.create_dry()
    if code >= 300:
        return False
    return (
        pod["spec"]["containers"][0]["resources"] == ONE_VM
        and pod["metadata"]["annotations"][f"{KATA}default_memory"] == "2048"
    )


@pytest.mark.usefixtures("upstreams")
def test_no_peer_pod_gets_by_while_upstreams_webhook_is_replaced_and_removal_is_whole(
    reader, tmp_path
):
    webhook = Webhook(reader.plane, tmp_path, "aaq")
    webhook.program.start()
    webhook.program.wait_ready()
    try:
        (tmp_path / "ca.crt").write_bytes(webhook.authority.certificate.read_bytes())
        (replacing,) = blocks(RUN, "In place of peer-pods-webhook")
        until_sync(
            lambda: reader.create_dry()[0] >= 400, "upstream's webhook, which is away, is asked"
        )
        printing, *rest = replacing.replace("ca.crt", f"ca.crt --url {webhook.url}").splitlines()
        reader.type(printing)
        merged = ("apply", "--dry-run=server", "-f", str(tmp_path / "peerpods.yaml"))
        assert "exactly one of url or service" in try_kubectl(reader.plane, *merged).err
        with Crowd(reader) as crowd:
            until_sync(lambda: crowd.refused, "upstream's webhook is in the way")
            reader.type("\n".join(rest))
            until_sync(lambda: is_rewritten(reader), "peer pods are rewritten")
        assert crowd.unguarded == []

        removing, _ = blocks(RUN, "Remove")
        reader.type(removing)
    finally:
        webhook.program.stop()

    assert reader.named("runtimeclass") == ["runtimeclass.node.k8s.io/kata-remote"]
    assert reader.named("mutatingwebhookconfiguration") == []
    assert reader.named("validatingadmissionpolicy,validatingadmissionpolicybinding") == []


@pytest.mark.usefixtures("upstreams")
def test_what_was_installed_without_a_webhook_is_removed_without_the_class(reader):
    (installing,) = blocks(RUN, "Without a webhook")
    reader.type(installing)
    assert POLICY in " ".join(reader.named("mutatingadmissionpolicy"))

    _, removing = blocks(RUN, "Remove")
    reader.type(removing)

    kinds = ("validatingadmissionpolicy", "mutatingadmissionpolicy")
    listed = ",".join(f"{kind}{more}" for kind in kinds for more in ("", "binding"))
    assert reader.named(listed) == []
    assert reader.named("runtimeclass") == ["runtimeclass.node.k8s.io/kata-remote"]
