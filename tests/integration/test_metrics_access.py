"""/metrics of a process, read as Prometheus reads it: the API server decides who may."""

import http.client
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from bursar.adapters.telemetry.catalogue.metric import Process
from controlplane import LOOPBACK, ControlPlane
from support.metrics.printed_metrics import differences
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl
from support.processes.webhook import Webhook
from support.until import until_sync


@dataclass
class Scene:
    plane: ControlPlane
    webhook: Webhook
    namespace: str

    def get(self, path: str, token: str = "") -> tuple[int, str]:
        connection = http.client.HTTPSConnection(
            LOOPBACK, self.webhook.port, context=self.webhook.trust(), timeout=60
        )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def token(self, account: str) -> str:
        here = ("-n", self.namespace)
        kubectl(self.plane, "create", "serviceaccount", account, *here)
        return kubectl(self.plane, "create", "token", account, *here).strip()


@pytest.fixture
def scene(control_plane, tmp_path) -> Iterator[Scene]:
    namespace = f"scraping-{uuid.uuid4().hex[:8]}"
    kubectl(control_plane, "create", "namespace", namespace)
    webhook = Webhook(control_plane, tmp_path, namespace)
    webhook.program.start()
    try:
        webhook.program.wait_ready()
        yield Scene(control_plane, webhook, namespace)
    finally:
        webhook.program.stop()
        kubectl(control_plane, "delete", "namespace", "--wait=false", namespace)


@pytest.fixture
def role(control_plane) -> Iterator[str]:
    """The name of the role that `bursar manifests` prints."""
    printed = yaml.safe_load_all(run_bursar("manifests", "rbac").out)
    [found] = [each for each in printed if each["metadata"]["name"].endswith("metrics-reader")]
    kubectl(control_plane, "apply", "-f", "-", stdin=json.dumps(found))
    yield found["metadata"]["name"]
    kubectl(control_plane, "delete", "-f", "-", stdin=json.dumps(found))


def test_a_user_with_the_role_reads_metrics_and_no_other(scene, role):
    reader, stranger = scene.token("reader"), scene.token("stranger")
    account = f"--serviceaccount={scene.namespace}:reader"
    kubectl(
        *(scene.plane, "create", "clusterrolebinding", scene.namespace),
        *(f"--clusterrole={role}", account),
    )
    try:
        # The authorizer learns of the binding by a watch of its own; a refusal is cached.
        until_sync(lambda: scene.get("/metrics", reader)[0] == 200)
        page = scene.get("/metrics", reader)[1]
        assert "bursar_admission_reviews_total" in page
        assert differences(page, Process.WEBHOOK) == []
        code, state = scene.get("/statusz?format=json", reader)
        assert (code, json.loads(state)["gating"]) == (200, {"active": True})
        assert scene.get("/statusz") == (401, "a bearer token is required")
        assert scene.get("/statusz", stranger)[0] == 403
        assert scene.get("/metrics") == (401, "a bearer token is required")
        assert scene.get("/metrics", "made-up") == (401, "the token is not valid")
        code, text = scene.get("/metrics", stranger)
        assert (code, text.endswith("may not get /metrics")) == (403, True)
    finally:
        kubectl(scene.plane, "delete", "clusterrolebinding", scene.namespace)


def test_without_an_api_server_nobody_reads_metrics_and_probes_are_answered(scene):
    scene.plane.apiserver.pause()
    try:
        assert scene.get("/metrics", "unknown") == (503, "the token could not be checked")
        assert [scene.get(path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    finally:
        scene.plane.apiserver.resume()
