"""Webhooks of others on updates of pods, which fail or hang while gates are lifted."""

import base64
import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.ports import Query
from bursar.app.quota.quota_loop import LIFTS_MAX
from certificates import Authority
from controlplane import LOOPBACK, ControlPlane
from program import free_port
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import Controllers, Lane, administering, watched
from support.until import until

DEFAULT_TIMEOUT_S = 10


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture(scope="module")
def controllers(control_plane, tmp_path_factory) -> Iterator[Controllers]:
    with Controllers(control_plane, tmp_path_factory.mktemp("controller")) as running:
        yield running


@contextlib.contextmanager
def a_black_hole() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server((LOOPBACK, 0), backlog=1024) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def a_webhook(
    plane: ControlPlane, authority: Authority, namespace: str, port: int, failure_policy: str
) -> Iterator[None]:
    """Asked about every update of a pod in one namespace."""
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode("ascii")
    hook = {
        "name": "updates.example.com",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": ["pods"],
            }
        ],
        "clientConfig": {"url": f"https://{LOOPBACK}:{port}/", "caBundle": bundle},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": failure_policy,
        "timeoutSeconds": DEFAULT_TIMEOUT_S,
    }
    configuration = json.dumps(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"foreign-{namespace}"},
            "webhooks": [hook],
        }
    )
    assert try_kubectl(plane, "apply", "-f", "-", stdin=configuration).code == 0
    try:
        yield
    finally:
        assert try_kubectl(plane, "delete", "-f", "-", stdin=configuration).code == 0


async def notes(people, namespace: str) -> list[str]:
    page = await people.client.list(EVENTS, Query(namespace=namespace))
    return [json.loads(body)["note"] for body in page.items]


@pytest.mark.usefixtures("controllers")
async def test_pods_behind_a_webhook_that_fails_hold_up_no_others(control_plane, tmp_path):
    """The API server answers with 500, as often as it is asked."""
    async with (
        administering(control_plane) as people,
        watched(people.client, broken=Lane(999), fine=Lane(999)) as turnstile,
    ):
        broken, fine = [await people.namespace(lane) for lane in turnstile.lanes]
        turnstile.assign("broken", broken)
        turnstile.assign("fine", fine)
        with a_webhook(control_plane, Authority(tmp_path), broken, free_port(), "Fail"):
            await people.pods(broken, LIFTS_MAX + 16)

            async def told() -> bool:
                return any("failed calling webhook" in note for note in await notes(people, broken))

            await until(told, "a pod is told which webhook fails")
            await people.pods(fine, 16)
            await until(lambda: len(turnstile.lanes["fine"].released) == 16, "others are released")
            assert not turnstile.lanes["broken"].released
        await until(
            lambda: len(turnstile.lanes["broken"].released) == LIFTS_MAX + 16,
            "they are released when the webhook is gone",
        )


@pytest.mark.usefixtures("controllers")
async def test_pods_behind_a_webhook_that_hangs_and_may_be_ignored_are_released(
    control_plane, tmp_path
):
    """The API server ignores it after its timeout, which is longer than a patch usually has."""
    async with (
        administering(control_plane) as people,
        watched(people.client, hole=Lane(999), fine=Lane(999)) as turnstile,
    ):
        hole, fine = [await people.namespace(lane) for lane in turnstile.lanes]
        turnstile.assign("hole", hole)
        turnstile.assign("fine", fine)
        with (
            a_black_hole() as port,
            a_webhook(control_plane, Authority(tmp_path), hole, port, "Ignore"),
        ):
            await people.pods(hole, 4)

            async def told() -> bool:
                return any("did not answer in time" in note for note in await notes(people, hole))

            await until(told, "a pod is told that a webhook does not answer")
            await people.pods(fine, 16)
            await until(lambda: len(turnstile.lanes["fine"].released) == 16, "others are released")
            await until(
                lambda: len(turnstile.lanes["hole"].released) == 4, "the webhook is outlasted"
            )
