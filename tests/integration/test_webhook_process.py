"""`bursar webhook` as a process: it ends in order, finds the leader, and says what it lacks."""

import asyncio
import json
import signal
import subprocess
import uuid

import pytest
from click.testing import CliRunner

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.message import Request, Response
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.processes.webhook import webhook as verb
from bursar.entry.processes import ComposedProcesses
from controlplane import LOOPBACK
from support.builders.reviews import a_review, posting, raw_pod
from support.http_peer import connected
from support.log_lines import messages
from support.processes.webhook import COMMAND, Webhook, gate_once
from support.quota.controller_processes import put_leader_pair
from support.until import PATIENCE_SECONDS, until_sync


async def test_sigterm_ends_it_after_the_last_answer(control_plane, tmp_path):
    webhook = Webhook(control_plane, tmp_path, "aaq")
    webhook.program.start()
    webhook.program.wait_ready()
    is_loaded = asyncio.Event()

    async def load() -> int:
        answered = 0
        async with connected(webhook.port, webhook.trust()) as peer:
            while await gate_once(peer):
                answered += 1
                is_loaded.set()
        return answered

    async def terminate() -> int:
        await is_loaded.wait()
        process = webhook.program._process
        process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(process.wait, PATIENCE_SECONDS)

    code, *answered = await asyncio.gather(terminate(), *(load() for _ in range(4)))

    assert code == 0
    assert sum(answered) > 0
    assert messages(webhook.log())[-1] == "ended"


def test_it_can_be_ended_while_it_waits_for_a_certificate(control_plane, tmp_path):
    webhook = Webhook(control_plane, tmp_path, "aaq")
    (tmp_path / "tls.key").unlink()
    webhook.program.start()
    until_sync(lambda: "waiting for one" in webhook.log(), "it says that it waits")
    webhook.program.stop()

    assert webhook.program._process.returncode == 0


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_it_does_not_start_without_the_ca_of_its_clients(control_plane, tmp_path, content):
    file = tmp_path / "clients.crt"
    if content is not None:
        file.write_text(content)
    options = [f"--client-ca={file}", f"--kubeconfig={control_plane.kubeconfig}"]
    ran = subprocess.run(
        [str(COMMAND), "webhook", *options], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 2
    problem = "No such file or directory" if content is None else "no CA certificates (PEM)"
    assert f"--client-ca: {file}: {problem}" in ran.stderr


def test_a_port_in_use_is_said_in_one_line(control_plane, tmp_path):
    taken = Webhook(control_plane, tmp_path, "aaq")
    taken.program.start()
    taken.program.wait_ready()
    arguments = [f"--bind={LOOPBACK}:{taken.port}", f"--tls-dir={tmp_path}"]
    ran = subprocess.run(
        [str(COMMAND), "webhook", *arguments, f"--kubeconfig={control_plane.kubeconfig}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    taken.program.stop()

    assert ran.returncode != 0
    assert f"cannot listen on {LOOPBACK}:{taken.port}" in ran.stderr


# ------------------------------------------------------------------ the leader


async def test_a_growing_pod_is_asked_about_at_the_leader_of_the_lease(control_plane, tmp_path):
    home = f"home-{uuid.uuid4().hex[:8]}"
    for folder in ("webhook", "leader"):
        (tmp_path / folder).mkdir()
    (tmp_path / "token").write_text("who-we-are")
    webhook = Webhook(control_plane, tmp_path / "webhook", home, f"--token-file={tmp_path}/token")
    put_leader_pair(tmp_path / "leader", webhook.authority, home)
    received: list[Request] = []

    async def granting(request: Request) -> Response:
        received.append(request)
        answer = {"allowed": False, "message": "exceeded quota: team"}
        return Response(json.dumps(answer).encode(), content_type="application/json")

    certificate = ServingCertificate(str(tmp_path / "leader"), clock=SYSTEM_CLOCK)
    leader = HttpServer(posting("/v1/resizes", granting), clock=SYSTEM_CLOCK)
    port = await leader.start(LOOPBACK, 0, await certificate.wait_for_context())
    address = {"bursar.io/address": f"https://{LOOPBACK}:{port}"}
    namespace = {"metadata": {"name": home}}
    lease = {"metadata": {"name": "aaq-controller", "annotations": address}}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{home}/leases"
    assert control_plane.request("POST", "/api/v1/namespaces", namespace)[0] == 201
    assert control_plane.request("POST", leases, lease)[0] == 201
    webhook.program.start()
    await asyncio.to_thread(webhook.program.wait_ready)
    review = a_review("Pod", "UPDATE", raw_pod(cpu="2"), raw_pod(cpu="1"), subResource="resize")
    try:
        async with connected(webhook.port, webhook.trust()) as peer:
            body = json.dumps(review).encode()
            answered = await peer.ask("POST", "/validate", body, Content_Type="application/json")
            answer = json.loads(answered.body)["response"]
    finally:
        webhook.program.stop()
        await leader.stop()
        control_plane.request("DELETE", f"/api/v1/namespaces/{home}")

    assert answer["status"] == {"code": 403, "message": "exceeded quota: team"}
    assert [each.authorization for each in received] == ["Bearer who-we-are"]


# ------------------------------------------------------------------ the command line


@pytest.mark.parametrize("bind", ["8443", ":8443", "here:", "here:99999", "here:x"])
def test_an_address_that_is_none_is_a_usage_error(bind):
    ran = CliRunner().invoke(verb, [f"--bind={bind}"])

    assert ran.exit_code == 2
    assert "host:port is expected" in ran.output


def test_outside_a_pod_a_cluster_has_to_be_named():
    environment = {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}

    ran = CliRunner().invoke(verb, [], env=environment, obj=ComposedProcesses())

    assert isinstance(ran.exception, BadInputError)
    assert "does not run in a pod" in str(ran.exception)
