"""The API server shows the webhook a client certificate, and forged reviews are refused."""

import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from certificates import Authority, Pair
from controlplane import LOOPBACK, ControlPlane
from program import free_port
from support.builders.manifests import namespace_manifest
from support.cluster.control_plane import started_control_plane
from support.processes.kubectl import try_kubectl
from support.processes.webhook import REVIEW, Webhook
from support.until import until_sync

pytestmark = pytest.mark.integration

TENANT = "shop"
NAME = "api-server"
GATE = "ApplicationAwareQuotaGate"


def an_authority(folder: Path, name: str) -> Authority:
    (folder / name).mkdir()
    return Authority(folder / name)


@dataclass
class Scene:
    plane: ControlPlane
    webhook: Webhook
    trusted: Authority
    file: Path
    """What the webhook has as its --client-ca."""

    def create_pod(self) -> tuple[int, str]:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "web-"},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [{"name": "c", "image": "example.com/app"}],
            },
        }
        code, answer = self.plane.request("POST", f"/api/v1/namespaces/{TENANT}/pods", pod)
        return code, answer.decode()

    def is_gated(self) -> bool:
        """Whether a new pod is created, with the gate that the webhook adds."""
        code, text = self.create_pod()
        return code == http.client.CREATED and GATE in text

    def forge(self, pair: Pair | None = None, path: str = "/serve-path") -> tuple[int, str]:
        context = self.webhook.trust()
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection(
            LOOPBACK, self.webhook.port, context=context, timeout=60
        )
        try:
            connection.request("POST", path, REVIEW, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Iterator[Scene]:
    folder, port = tmp_path_factory.mktemp("clients"), free_port()
    trusted = an_authority(folder, "trusted")
    shown = {f"{LOOPBACK}:{port}": trusted.client(NAME)}
    file = folder / "client-ca.crt"
    file.write_bytes(trusted.certificate.read_bytes())
    with started_control_plane(is_bare=True, webhook_clients=shown) as plane:
        options = (f"--client-ca={file}", f"--client-name={NAME}")
        webhook = Webhook(plane, folder, "aaq", *options, port=port)
        webhook.program.start()
        try:
            # The kubelet's probe has no certificate either.
            webhook.program.wait_ready()
            made = Scene(plane, webhook, trusted, file)
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": TENANT},
            }
            for each in (namespace_manifest(TENANT), account, configuration(webhook)):
                created = try_kubectl(plane, "create", "-f", "-", stdin=json.dumps(each))
                assert created.code == 0, created.err
            yield made
        finally:
            webhook.program.stop()


def configuration(webhook: Webhook) -> dict:
    bundle = base64.b64encode(webhook.authority.certificate.read_bytes()).decode()
    hook = {
        "name": "gater.cqo.kubevirt.io",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE"],
            }
        ],
        "clientConfig": {"url": f"{webhook.url}/gate", "caBundle": bundle},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "gating-mutator"},
        "webhooks": [hook],
    }


def test_pods_are_admitted_by_the_api_server_that_shows_its_certificate(scene):
    until_sync(scene.is_gated, scene.create_pod)


@pytest.mark.parametrize("path", ["/serve-path", "/gate", "/validate", "/mutate-v1-pod"])
def test_a_forged_review_without_a_certificate_is_refused(scene, path):
    assert scene.forge(path=path) == (403, "a client certificate is required")


def test_a_forged_review_with_another_certificate_is_refused(scene, tmp_path):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        scene.forge(Authority(tmp_path).client(NAME))
    assert scene.forge(scene.trusted.client("kubelet")) == (
        403,
        "the client certificate is not for an allowed name",
    )
    assert scene.forge(scene.trusted.client(NAME))[0] == 200


def test_a_new_authority_takes_effect_without_a_restart(scene, tmp_path):
    before = scene.file.read_bytes()
    until_sync(scene.is_gated, scene.create_pod)
    other = tmp_path / "new.crt"
    other.write_bytes(Authority(tmp_path).certificate.read_bytes())
    other.replace(scene.file)
    try:
        # Connections that are open keep what they have shown; these have other certificates.
        with pytest.raises((ssl.SSLError, ConnectionError)):
            until_sync(lambda: scene.forge(scene.trusted.client(NAME))[0] != 200)
    finally:
        scene.file.write_bytes(before)
    until_sync(lambda: "new CA certificates of clients" in scene.webhook.log())
    until_sync(scene.is_gated, scene.create_pod)
