"""Running pods grow at the same time: API server, webhook and controller, all of them real."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.transport import Limits
from bursar.adapters.serving.message import JSON, Request, Response, Route
from bursar.app.cluster.kinds import PODS, VALIDATING_WEBHOOKS
from bursar.app.cluster.ports import ClusterError, Key, Patch, PatchKind, Query
from controlplane import LOOPBACK, ControlPlane, chosen_version, minor_version
from program import free_port
from support.builders.reviews import running
from support.cluster.access import a_client, access_of
from support.cluster.control_plane import RESIZE
from support.install.printed import printed
from support.processes.command_line import Ran
from support.processes.kubectl import try_kubectl
from support.processes.webhook import Webhook
from support.quota.controller_processes import (
    HOME,
    SHORT_TERMS,
    Administrator,
    Controllers,
    Lane,
    administering,
    millicores,
    own_cluster,
    put_leader_pair,
    watched,
)
from support.until import until

SERVER_ACCOUNT = f"system:serviceaccount:{HOME}:aaq-server"
RUNNERS = 20
GROWN = 5
"""How many of them may double."""
DENIED = (
    'admission webhook "resize.pod.quota.validator" denied the request: exceeded quota: '
    "room, requested: requests.cpu=100m, used: requests.cpu=2500m, "
    "limited: requests.cpu=2500m; missing: requests.cpu=100m"
)
ONCE = Limits(in_flight_max=2 * RUNNERS, attempts_max=1)
"""What the API server says is taken at its word."""


@pytest.fixture(scope="module")
def control_plane(request) -> Iterator[ControlPlane]:
    """Before 1.33, one on which the feature is switched on, because it is off by default."""
    if minor_version(chosen_version()) >= RESIZE[0]:
        yield request.getfixturevalue("quota_cluster")
    else:
        yield from own_cluster(features=["InPlacePodVerticalScaling"])


@dataclass
class Scene:
    plane: ControlPlane
    webhook: Webhook
    controllers: Controllers

    def resize(self, key: Key, cpu: str) -> Ran:
        return try_kubectl(
            self.plane,
            *("patch", "pod", "-n", key.namespace, key.name, "--subresource=resize"),
            *("--type=json", "-p", json.dumps(to(cpu))),
        )

    def restart_webhook(self, *options: str) -> None:
        """With other options, until the next time."""
        program = self.webhook.program
        program.stop()
        command, program._command = program._command, [*program._command, *options]
        program.start()
        program.wait_ready()
        program._command = command


def to(cpu: str) -> list[dict]:
    path = "/spec/containers/0/resources/requests/cpu"
    return [{"op": "replace", "path": path, "value": cpu}]


@pytest.fixture(scope="module")
def scene(control_plane, tmp_path_factory) -> Iterator[Scene]:
    folder, hook, leader = (
        tmp_path_factory.mktemp(name) for name in ("controller", "hook", "leader")
    )
    pair = control_plane.client(SERVER_ACCOUNT, "system:serviceaccounts", "system:authenticated")
    webhook = Webhook(
        control_plane,
        hook,
        HOME,
        f"--kubeconfig={control_plane.write_kubeconfig('aaq-server', pair)}",
        f"--token-file={folder}/token",
    )
    put_leader_pair(leader, webhook.authority)
    (folder / "token").write_text(token_of_the_webhook(control_plane))
    address = f"{LOOPBACK}:{free_port()}"
    serving = (f"--tls-dir={leader}", f"--bind={address}", f"--advertise=https://{address}")
    controllers = Controllers(control_plane, folder, *serving, *SHORT_TERMS)
    made = Scene(control_plane, webhook, controllers)
    webhook.program.start()
    webhook.program.wait_ready()
    authority = webhook.authority.certificate
    hooks = printed("webhooks", f"--url={webhook.url}", f"--ca-bundle={authority}")
    assert try_kubectl(control_plane, "apply", "-f", "-", stdin=hooks).code == 0
    try:
        with controllers:
            yield made
    finally:
        assert try_kubectl(control_plane, "delete", "-f", "-", stdin=hooks).code == 0
        webhook.program.stop()


def token_of_the_webhook(plane: ControlPlane) -> str:
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/aaq-server/token"
    code, body = plane.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert code == 201, body
    return json.loads(body)["status"]["token"]


@dataclass
class Room:
    """A quota with pods that run under it."""

    people: Administrator
    client: KubeClient
    quota: Key
    pods: list[Key]

    async def uses(self, cpu: str) -> None:
        await self.people.uses(self.quota, requests_cpu=cpu)

    async def grow(self, pod: Key, cpu: str, *, is_dry_run: bool = False) -> ClusterError | None:
        """Why it may not; None if it may."""
        patch = Patch(kind=PatchKind.JSON, body=to(cpu))
        try:
            await self.client.patch(PODS, pod, patch, subresource="resize", is_dry_run=is_dry_run)
        except ClusterError as error:
            return error
        return None


@contextlib.asynccontextmanager
async def room(scene: Scene, cpu: str, count: int = 10) -> AsyncIterator[Room]:
    """Room for this much, and pods of 100m past the gate.

    No node has them, so that the API server takes any resize of them.
    """
    async with (
        administering(scene.plane) as people,
        a_client(access_of(scene.plane), limits=ONCE) as client,
    ):
        quota = Key(await people.namespace("grow"), "room")
        await people.quota(quota, {"requests.cpu": cpu})
        await people.pods(quota.namespace, count, cpu="100m")
        await people.uses(quota, requests_cpu=f"{count // 10}")
        listed = await client.list(PODS, Query(namespace=quota.namespace))
        names = [json.loads(body)["metadata"]["name"] for body in listed.items]
        yield Room(people, client, quota, [Key(quota.namespace, name) for name in names])


async def test_of_twenty_that_grow_at_once_as_many_may_as_there_is_room_for(scene):
    async with room(scene, "2500m", RUNNERS) as it:
        answers = await asyncio.gather(*(it.grow(each, "200m") for each in it.pods))
        refusals = [answer for answer in answers if answer is not None]

        assert len(refusals) == RUNNERS - GROWN, refusals
        assert {error.code for error in refusals} == {403}
        assert {error.message for error in refusals} == {DENIED}
        await it.uses("2500m")


async def test_pods_that_grow_and_pods_that_wait_share_the_room_between_them(scene):
    """Every written state is weighed: what runs never asks for more than the limit."""
    async with (
        room(scene, "2", RUNNERS) as it,
        watched(it.people.client, millicores, shared=Lane(3000)) as turnstile,
    ):
        lane = turnstile.lanes["shared"]
        turnstile.assign("shared", it.quota.namespace)
        await until(lambda: turnstile.released == RUNNERS, "the pods are weighed")
        await it.people.pods(it.quota.namespace, 2 * RUNNERS, cpu="50m")
        growing = [it.grow(each, f"{cpu}m") for cpu in (130, 160, 190) for each in it.pods]
        await asyncio.gather(it.people.limit(it.quota, **{"requests.cpu": "3"}), *growing)
        await until(lambda: lane.used > 3000 - 50 or not lane.waiting, "no room is left over")
        await it.people.settle()

        assert turnstile.excesses == []
        assert lane.most <= 3000
        await it.uses("3" if lane.used == 3000 else f"{lane.used}m")


async def test_a_dry_run_reserves_nothing(scene):
    async with room(scene, "1200m") as it:
        tried = await asyncio.gather(*(it.grow(each, "300m", is_dry_run=True) for each in it.pods))
        assert tried == [None] * 10
        await it.uses("1")

        assert await it.grow(it.pods[0], "300m") is None
        too_much = await it.grow(it.pods[1], "300m", is_dry_run=True)
        assert too_much is not None
        assert "exceeded quota: room" in too_much.message
        await it.uses("1200m")


async def test_what_a_pod_gives_back_another_may_have(scene):
    async with room(scene, "1") as it:
        assert await it.grow(it.pods[0], "150m") is not None
        assert await it.grow(it.pods[1], "50m") is None
        await it.uses("950m")

        assert await it.grow(it.pods[0], "150m") is None
        await it.uses("1")


async def test_while_nobody_leads_pods_may_shrink_but_not_grow(scene):
    async with room(scene, "10") as it:
        controller = scene.controllers.replicas[0]
        controller.kill()
        try:
            answer = await it.grow(it.pods[0], "200m")
            assert answer is not None
            assert answer.code == 503
            assert "Pod resize could not be checked against quotas: " in answer.message
            assert "aaq-controller could not be asked: no connection" in answer.message
            assert answer.message.endswith(
                "Nothing was changed; try again; "
                "if the problem remains, check that aaq-controller runs"
            )
            assert await it.grow(it.pods[1], "50m") is None

            scene.restart_webhook("--resize-when-unreachable=allow")
            allowed = scene.resize(it.pods[0], "200m")
            assert allowed.code == 0, allowed.err
            assert "Warning: resized without a check against quotas: " in allowed.err
        finally:
            controller.start()
            scene.restart_webhook()
        # The next leader counts what happened while nobody did.
        await it.uses("1050m")
        assert await it.grow(it.pods[0], "300m") is None


# ------------------------------------------------------------------ a resize that takes its time


class SlowWebhook:
    """Somebody else's webhook, which holds up the resize of one pod until it is let go."""

    def __init__(self, held: Key) -> None:
        self.held = held
        self.is_asked = asyncio.Event()
        self.may_go = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        review = json.loads(request.body)
        asked = review["request"]
        if Key(asked["namespace"], asked["name"]) == self.held:
            self.is_asked.set()
            await self.may_go.wait()
        response = {"uid": asked["uid"], "allowed": True}
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return Response(json.dumps(body).encode(), content_type=JSON)

    @contextlib.asynccontextmanager
    async def installed(self, client: KubeClient, folder: Path) -> AsyncIterator[None]:
        async with running(folder, {("POST", "/"): Route(self, 2**20)}) as server:
            authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
            namespace = {"kubernetes.io/metadata.name": self.held.namespace}
            hook = {
                "name": "slow.example.com",
                "clientConfig": {"url": server.url("/"), "caBundle": authority},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["pods/resize"],
                    }
                ],
                "namespaceSelector": {"matchLabels": namespace},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "admissionReviewVersions": ["v1"],
            }
            name = f"slow-{self.held.namespace}"
            body = {"metadata": {"name": name}, "webhooks": [hook]}
            await client.create(VALIDATING_WEBHOOKS, body)
            try:
                yield
            finally:
                self.may_go.set()
                await client.delete(VALIDATING_WEBHOOKS, Key("", name))


@pytest.mark.parametrize("changes_leader", [False, True], ids=["one leader", "two leaders"])
async def test_room_of_a_resize_that_another_webhook_holds_up_goes_to_nobody_else(
    scene, tmp_path, changes_leader
):
    """Our webhook has agreed, and nothing is stored yet. A leader may change meanwhile."""
    async with (
        room(scene, "1200m") as it,
        watched(it.people.client, millicores, room=Lane(1200)) as turnstile,
    ):
        turnstile.assign("room", it.quota.namespace)
        first, second = it.pods[:2]
        slow = SlowWebhook(first)
        async with slow.installed(it.people.client, tmp_path):
            # The API server learns of the other webhook by a watch of its own.
            growing = await held_up(it, slow)

            async def is_promised() -> bool:
                answer = await it.grow(second, "300m", is_dry_run=True)
                return answer is not None and "exceeded quota: room" in answer.message

            await until(is_promised, "our webhook was asked, too")
            await it.people.pods(it.quota.namespace, 1, cpu="200m")
            if changes_leader:
                controller = scene.controllers.replicas[0]
                controller.stop()
                controller.start()
                await until(is_promised, "the next leader knows of the promise")
            refused = await it.grow(second, "300m")
            assert refused is not None
            assert refused.code == 403
            assert not growing.done()

            slow.may_go.set()
            assert await growing is None
        await it.uses("1200m")
        await it.people.settle()

        lane = turnstile.lanes["room"]
        assert (len(lane.waiting), lane.used, turnstile.excesses) == (1, 1200, [])


async def held_up(it: Room, slow: SlowWebhook) -> asyncio.Task[ClusterError | None]:
    """A resize of the first pod that the other webhook holds up."""

    async def is_there() -> bool:
        # As long as the API server does not know the webhook, a dry run passes it.
        tried = asyncio.create_task(it.grow(slow.held, "101m", is_dry_run=True))
        await until(lambda: slow.is_asked.is_set() or tried.done(), "it is asked, or not")
        slow.may_go.set()
        assert await tried is None
        slow.may_go.clear()
        return slow.is_asked.is_set()

    await until(is_there, "the API server asks the other webhook")
    slow.is_asked.clear()
    growing = asyncio.create_task(it.grow(slow.held, "300m"))
    await slow.is_asked.wait()
    return growing
