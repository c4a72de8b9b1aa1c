"""The webhook's client and the controller's resizes, over HTTPS: both speak the same language."""

import json

import pytest

from bursar.adapters.admission.leader_client import LeaderClient, LeaderClientSettings
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.controller_http.resizes import ResizeRoute, webhook_user
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.serving.limits import ServerLimits
from bursar.app.admission.pods import Denied, Granted, ResizeRequest, Unreachable
from bursar.app.cluster.kinds import LEASES, NAMESPACES, PODS
from bursar.app.cluster.ports import Json, Key, Resource
from bursar.app.names import RESIZES_PATH
from support.builders.reviews import posting, running
from support.quota.quota_loop import HOME, QuotaLoopScene, a_quota_loop

FAST = 50.0
LIMITS = ServerLimits(linger_seconds=0.01, finish_seconds=1)


class Authority:
    """Knows one token."""

    async def create(
        self, resource: Resource, body: Json, *, namespace: str = "", is_dry_run: bool = False
    ) -> bytes:
        assert (resource.kind, namespace, is_dry_run) == ("TokenReview", "", False)
        known = body["spec"]["token"] == "good"  # noqa: S105 - not a secret
        user = {"username": webhook_user("aaq")} if known else {}
        return json.dumps({"status": {"authenticated": known, "user": user}}).encode()


async def a_request(scene: QuotaLoopScene, cpu: str) -> ResizeRequest:
    old = await scene.cluster.get(PODS, Key(HOME, "web"))
    pod = json.loads(old)
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return ResizeRequest(
        id=f"to-{cpu}",
        namespace=HOME,
        name="web",
        uid=pod["metadata"]["uid"],
        old=old,
        new=json.dumps(pod).encode(),
        is_dry_run=False,
    )


async def announce(scene: QuotaLoopScene, address: str) -> None:
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "aaq"}}
    await scene.cluster.create(NAMESPACES, home)
    metadata = {"name": "aaq-controller", "annotations": {"bursar.io/address": address}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    await scene.cluster.create(LEASES, lease, namespace="aaq")


@pytest.mark.parametrize(
    ("token", "replies"),
    [
        ("good", (Granted, Denied)),
        ("stolen", (Unreachable, Unreachable)),
    ],
)
async def test_the_webhook_is_granted_or_denied_over_the_wire(tmp_path, token, replies):
    (tmp_path / "token").write_text(token)
    async with a_quota_loop(rate=FAST) as scene:
        await scene.set_quota("q", requests_cpu="4")
        await scene.create_pod("web", "1")
        await scene.rest()
        resizes = scene.resize_service()
        route = ResizeRoute(
            user=webhook_user("aaq"),
            find_username=TokenReviewer(Authority(), SYSTEM_CLOCK).find_username,
            find_resizes=lambda: resizes,
            decode=scene.sources.pods.decode,
        )
        settings = LeaderClientSettings(
            namespace="aaq",
            token_file=str(tmp_path / "token"),
            authority_file=str(tmp_path / "ca.crt"),
        )
        async with (
            running(tmp_path, posting(RESIZES_PATH, route), LIMITS) as server,
            LeaderClient(scene.cluster, settings) as client,
        ):
            await announce(scene, server.url(""))
            fitting = await client.reserve_resize(await a_request(scene, "3"))
            excessive = await client.reserve_resize(await a_request(scene, "5"))

    assert (type(fitting), type(excessive)) == replies
    if isinstance(excessive, Denied):
        assert excessive.message.startswith("exceeded quota: q, requested: requests.cpu=")
